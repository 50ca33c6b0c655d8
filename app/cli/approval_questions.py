"""What waits for a person's word, as one on a terminal reads and answers it (spec 7.6; D75)."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from datetime import tzinfo
from typing import TYPE_CHECKING

from app.cli.approval_forms import filled, form_of
from app.cli.terminal import TerminalLines, printable_lines
from app.errors import BadRequestError, both
from app.extend import ApprovalAsked, Event, Json
from app.hub.approval.feed import described
from app.hub.approval.guard import Approvals
from app.protocol.json_text import pretty_json

if TYPE_CHECKING:  # who only reads questions, such as vcp approve, is spared the time that loading a server takes
    from app.services import Services

YES = frozenset({"y", "yes", "是"})
NO = frozenset({"n", "no", "否"})


def decision(line: str) -> tuple[bool, str] | None:
    """Yes or no and why, in a line such as ``n too dangerous``; None when it is neither."""
    word, _, reason = line.strip().partition(" ")
    if word.lower() in YES:
        return True, ""
    return (False, reason.strip()) if word.lower() in NO else None


def shown(one: Mapping[str, Json]) -> str:
    """A call that waits as people read it; nothing in it can play tricks with the terminal, or look like another one.

    The first line is ours alone, since ``maid`` is whatever a model wrote, and names of tools come from afar; lines of
    arguments are indented.
    """
    left = one.get("approvalTtlMs")
    seconds = int(left) // 1000 if isinstance(left, int | float) else 0
    by = f"{' '.join(str(one['maid']).split())}, " if one.get("maid") else ""
    tool = " ".join(str(one.get("toolName")).split())
    head = both(f"还有 {seconds} 秒", f"{seconds} s left")
    question = one.get("question")
    if isinstance(question, Mapping):
        asker = " ".join(str(question.get("server")).split())
        by = both(f"MCP 服务器 {asker} 提问", f"asked by MCP server {asker}") + ", "
    return printable_lines(
        f"{one['requestId']}  {tool}  ({by}{one.get('source')}, {head})\n{pretty_json(one.get('args'))}"
    )


def ask_here(services: Services) -> None:
    """Let whoever sits at this terminal approve what needs approval, in a command that runs tools without a server.

    Without a terminal nothing changes: such calls are refused.
    """
    if sys.stdin.isatty():
        services.approvals.open = True
        questions = ApprovalQuestions(services.approvals, services.config.zone)
        services.events.listen(questions.heard, ApprovalAsked)


class ApprovalQuestions:
    """Asks on this terminal about each call that waits, one after the other."""

    def __init__(self, approvals: Approvals, zone: tzinfo) -> None:
        self._approvals = approvals
        self._zone = zone
        self._lines: TerminalLines | None = None
        self._asking: asyncio.Task[None] | None = None

    def heard(self, event: Event) -> None:
        """Begin to ask, unless a question stands already."""
        if isinstance(event, ApprovalAsked) and (self._asking is None or self._asking.done()):
            self._asking = asyncio.get_running_loop().create_task(self._ask())

    async def _ask(self) -> None:
        lines = self._lines = self._lines or TerminalLines()
        while waiting := self._approvals.pending():
            pending = waiting[0]
            told = described(pending, time.time(), self._zone)
            print(shown(told), file=sys.stderr)
            decided = None
            lines.forget()
            while decided is None and self._approvals.find(pending.id) is not None:
                question = both("批准？y 是，n [理由] 否", "approve? y yes, n [reason] no")
                print(question, end=": ", file=sys.stderr, flush=True)
                line = await lines.next()
                decided = (False, "") if line is None else decision(line)  # None: nobody is there any more
            if decided is None:
                continue
            content = await filled(form_of(told), _say, lines.next) if decided[0] else None
            if decided[0] and content is None:  # the input has ended
                decided = (False, "")
            try:
                self._approvals.answer(pending.id, decided[0], by="the terminal", reason=decided[1], content=content)
            except BadRequestError as error:
                print(error.message, file=sys.stderr)


def _say(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)
