"""``vcp approve``: what waits for a person's word, at the server that owns the home (spec 7.6; D75)."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence

from app.cli.approval_forms import filled, form_of
from app.cli.approval_questions import decision, shown
from app.cli.options import EXIT_FAILED, EXIT_OK, Commands, home_folder, home_option, reader, run
from app.cli.terminal import TerminalLines, printable_lines
from app.config.keys import server_key
from app.errors import BadRequestError, ConfigError, NotFoundError, both
from app.extend import Json
from app.home.lock import Owner, owner_of
from app.home.running_approvals import answer_approval, waiting_approvals
from app.protocol.json_text import strict_json

LOOK_SECONDS = 1.0
"""How often ``--watch`` asks the server for calls that wait."""

MAX_SKIPPED = 10_000


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("批准或拒绝等待中的工具调用", "approve or reject tool calls that wait for it")
    more = both("不带 ID 时列出它们", "without ID they are listed")
    parser = commands.add_parser("approve", parents=[home_option()], help=text, description=f"{text}. {more}.")
    parser.add_argument("id", nargs="?", metavar="ID", help=both("要批准的请求", "the request to approve"))
    parser.add_argument("--reject", action="store_true", help=both("拒绝而不是批准", "reject it instead"))
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help=both("拒绝的理由，会告诉模型", "why; the model is told")
    )
    parser.add_argument(
        "--content",
        metavar="JSON",
        help=both(
            "对 MCP 服务器提问的回答：表单字段的 JSON 对象", "answer to an MCP server: the form's fields as JSON"
        ),
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help=both("在终端逐一询问，直到 Ctrl-C", "ask about one after the other on the terminal, until Ctrl-C"),
    )
    parser.set_defaults(run=_approve)


def _approve(options: argparse.Namespace) -> int:
    if options.watch and (options.id or options.reject or options.reason or options.content is not None):
        raise ConfigError(both("--watch 不能与其他选项同用", "--watch goes with nothing else"))
    if not options.id and (options.reject or options.reason):
        raise ConfigError(both("请给出要拒绝的请求的 ID", "say which request: its ID is missing"))
    if options.reason and not options.reject:
        raise ConfigError(both("--reason 只与 --reject 同用", "--reason goes with --reject only"))
    if options.content is not None and (options.reject or not options.id):
        raise ConfigError(both("--content 用于批准某个 ID", "--content goes with an ID that is approved"))
    content = _content(options.content)
    config = reader(options)()
    owner = owner_of(home_folder(options))
    if owner is None:
        raise ConfigError(
            both("该安装目录没有服务器在运行，因此没有等待批准的调用", "no server runs in this home, so nothing waits")
        )
    key = server_key(config).value
    if options.watch:
        return run(_watch(owner, key))
    if options.id:
        return run(_answer(owner, key, options.id, not options.reject, options.reason, content))
    return run(_list(owner, key))


async def _list(owner: Owner, key: str) -> int:
    waiting = await waiting_approvals(owner, key)
    print("\n\n".join(shown(one) for one in waiting) or both("没有等待批准的调用", "nothing waits for approval"))
    return EXIT_OK


async def _answer(
    owner: Owner, key: str, request_id: str, approved: bool, reason: str, content: Mapping[str, Json] | None
) -> int:
    if approved and content is None and sys.stdin.isatty():
        waiting = await waiting_approvals(owner, key)
        fields = next((form_of(one) for one in waiting if one["requestId"] == request_id), ())
        content = await filled(fields, _say, TerminalLines().next) if fields else None
        if fields and content is None:
            raise ConfigError(both("表单没有填完", "the form is not complete"))
    counted, facts = await answer_approval(owner, key, request_id, approved=approved, reason=reason, content=content)
    print(_outcome(facts, counted=counted), file=sys.stdout if counted else sys.stderr)
    return EXIT_OK if counted else EXIT_FAILED


async def _watch(owner: Owner, key: str) -> int:
    """Ask until Ctrl-C, or until the input or the server ends."""
    lines = TerminalLines()
    skipped: list[str] = []
    print(both("等待需要批准的调用；Ctrl-C 结束", "waiting for calls that need approval; Ctrl-C ends"), flush=True)
    while True:
        waiting = [one for one in await waiting_approvals(owner, key) if one["requestId"] not in skipped]
        if not waiting:
            if lines.ended:
                return EXIT_OK
            await asyncio.sleep(LOOK_SECONDS)
            continue
        word = await _asked(owner, key, waiting[0], lines)
        if word is None:
            return EXIT_OK
        request_id = waiting[0]["requestId"]
        decided = decision(word)
        if decided is not None:
            content = await filled(form_of(waiting[0]), _say, lines.next) if decided[0] else None
            if decided[0] and content is None:
                return EXIT_OK
            try:
                counted, facts = await answer_approval(
                    owner, key, request_id, approved=decided[0], reason=decided[1], content=content
                )
                print(_outcome(facts, counted=counted), flush=True)
            except (NotFoundError, BadRequestError) as error:
                print(error.message, flush=True)
        elif word.strip().lower() == "s":
            skipped = [*skipped, request_id][-MAX_SKIPPED:]


async def _asked(owner: Owner, key: str, one: Mapping[str, Json], lines: TerminalLines) -> str | None:
    """A person's line about one request; None at the end of the input.

    Somebody else may be quicker: then the line that is typed now is about nothing, and is not taken for another one.
    """
    print(f"\n{shown(one)}")
    question = both("批准？y 是，n [理由] 否，s 跳过", "approve? y yes, n [reason] no, s later")
    print(question, end=": ", flush=True)
    lines.forget()
    typed = asyncio.ensure_future(lines.next())
    try:
        while True:
            await asyncio.wait((typed,), timeout=LOOK_SECONDS)
            if typed.done():
                return typed.result()
            if not _still_there(one, await waiting_approvals(owner, key)):
                print("\n" + both("已有结果，按回车键继续", "it waits no longer; press Enter"), flush=True)
                return None if await typed is None else ""
    finally:
        typed.cancel()


def _content(text: str | None) -> Mapping[str, Json] | None:
    if text is None:
        return None
    try:
        value: Json = strict_json(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ConfigError(both("--content 应是一个 JSON 对象", "--content should be a JSON object"))
    return value


def _say(text: str) -> None:
    print(text, end="", flush=True)


def _still_there(one: Mapping[str, Json], waiting: Sequence[Mapping[str, Json]]) -> bool:
    return any(other["requestId"] == one["requestId"] for other in waiting)


def _outcome(facts: Mapping[str, Json], *, counted: bool) -> str:
    approved = facts.get("approved")
    word = both("无人决定", "not decided")
    if isinstance(approved, bool):
        word = both("已批准", "approved") if approved else both("已拒绝", "rejected")
    told = f"{facts.get('requestId')}  {facts.get('toolName')}: {word}"
    if not counted:
        who = facts.get("by") or facts.get("reason") or "-"
        told = both("此前已有结果", "it was settled before") + f": {told} ({who})"
    return printable_lines(told)
