"""Asks the client of a call that waits for approval, one more way to answer beside all others (spec 7.6; MCP-30)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from app.errors import VcpError, both
from app.extend import ApprovalAsked, ApprovalSettled, Event, Json, Question
from app.protocol.json_text import pretty_json

log = logging.getLogger(__name__)

APPROVE = "approve"
"""The field of the form."""

MAX_SHOWN_CHARS = 4000
"""Most characters of arguments in the form."""

BY = "the MCP client that called"
"""Who decided, for the log and for all who are asked the same."""


class Answer(Protocol):
    """Takes a person's word; the first one counts."""

    def __call__(self, request_id: str, approved: bool, *, by: str, reason: str = "") -> object: ...


class ApprovalQuestions:
    """A listener to ``ApprovalAsked`` and ``ApprovalSettled``.

    A client that can show forms is shown one. Accepting it with ``approve`` ticked is a yes, accepting it without and
    declining it are a no; one that is closed without an answer leaves the decision to others. ``shown`` gives the
    arguments of a request as a person may see them, None when it waits no longer.
    """

    def __init__(self, answer: Answer, shown: Callable[[str], Mapping[str, Json] | None]) -> None:
        self._answer = answer
        self._shown = shown
        self._asking: dict[str, asyncio.Task[None]] = {}

    def heard(self, event: Event) -> None:
        """Ask the client behind the call, or ask no longer."""
        if isinstance(event, ApprovalSettled):
            task = self._asking.pop(event.request_id, None)
            if task is not None:
                task.cancel()
        elif isinstance(event, ApprovalAsked):
            shown = self._shown(event.request_id)
            caller = event.context.caller
            if shown is None or caller is None:
                return
            form = _form(event, shown)
            if caller.can(Question.ELICIT, form):
                self._asking[event.request_id] = asyncio.create_task(self._ask(event, form))

    async def _ask(self, event: ApprovalAsked, form: Mapping[str, Json]) -> None:
        caller = event.context.caller
        assert caller is not None
        try:
            answer = await caller.ask(Question.ELICIT, form)
        except VcpError as error:
            log.info("approval %s: its client was not asked: %s", event.request_id, type(error).__name__)
            return
        finally:
            self._asking.pop(event.request_id, None)  # before the answer: what it settles is not this task's end
        action, content = answer.get("action"), answer.get("content")
        if action == "accept":
            approved = isinstance(content, Mapping) and content.get(APPROVE) is True
            self._answer(event.request_id, approved, by=BY)
        elif action == "decline":
            self._answer(event.request_id, False, by=BY)


def _form(event: ApprovalAsked, shown: Mapping[str, Json]) -> dict[str, Json]:
    tool = event.call.tool
    arguments = pretty_json(shown)
    if len(arguments) > MAX_SHOWN_CHARS:
        arguments = arguments[:MAX_SHOWN_CHARS] + "\n…"
    message = both(f"是否允许运行工具 {tool}？参数", f"Allow this call of {tool}? Its arguments") + f":\n{arguments}"
    field = {"type": "boolean", "title": both("允许", "allow"), "description": both("允许运行", "let it run")}
    schema = {"type": "object", "properties": {APPROVE: field}, "required": [APPROVE]}
    return {"mode": "form", "message": message, "requestedSchema": schema}
