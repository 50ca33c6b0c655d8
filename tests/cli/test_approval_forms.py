"""Forms of MCP servers on a terminal, and ``vcp approve`` with them (D75)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.cli.approval_forms import filled, form_of
from app.cli.approval_questions import shown
from app.extend import AnswerAction, CallContext, Door, PersonQuestion
from app.home.lock import own_home
from app.hub.approval.question import shown_question
from app.protocol.forms import read_form
from tests.cli.commands import command, refused
from tests.mcp.client.asking_server import FORM
from tests.server import KEY, run, running
from tests.waiting import until


def question(schema: Any = FORM) -> PersonQuestion:
    return PersonQuestion("files", "Who?\x1b[2J", CallContext("t", Door.MCP), schema)


def told(schema: Any = FORM) -> dict[str, Any]:
    facts = shown_question(question(schema), read_form(schema))
    return {"requestId": "r", "toolName": "files.ask", "source": "x", "args": {}, "question": facts}


def typed(lines: Sequence[str], schema: Any = FORM) -> tuple[Any, str]:
    """What comes of these lines, and what was printed."""
    printed: list[str] = []
    rest = iter(lines)

    async def next_line() -> str | None:
        return next(rest, None)

    return asyncio.run(filled(form_of(told(schema)), printed.append, next_line)), "".join(printed)


def test_a_form_is_asked_for_field_by_field_and_faults_are_asked_again() -> None:
    content, printed = typed(["", "Ann", "old", "-1", "7", "1"])
    assert content == {"name": "Ann", "age": 7, "colour": "red"}
    assert "Your name" in printed and "1. red" in printed and "[green]" in printed
    assert "the number is less than 0" in printed


def test_an_empty_line_takes_the_default_or_leaves_out_what_may_be_missing() -> None:
    assert typed(["Ann", "", ""])[0] == {"name": "Ann"}


def test_where_the_input_ends_before_the_form_there_is_no_answer() -> None:
    assert typed(["Ann"])[0] is None


def test_a_form_survives_the_way_to_the_terminal() -> None:
    schema = {
        "properties": {
            "tags": {
                "type": "array",
                "items": {"anyOf": [{"const": "a", "title": "A!"}, {"const": "b"}]},
                "maxItems": 1,
            },
            "share": {"type": "number", "minimum": 0.5, "default": 1},
            "mail": {"type": "string", "format": "email"},
        },
        "required": ["tags"],
    }
    assert form_of(told(schema)) == read_form(schema)


def test_nothing_of_a_server_plays_tricks_with_the_terminal() -> None:
    schema = {"properties": {"x": {"type": "string", "title": "t\x1b[2J", "description": "d\r\nd\u202e"}}}
    _content, printed = typed(["y"], schema)
    assert printed.isprintable() or set(printed) <= {*filter(str.isprintable, printed), "\n"}
    assert "\x1b" not in printed and "\u202e" not in printed
    one = told()
    one["question"]["server"] = "a\nb"
    assert "asked by MCP server a b" in shown(one)


def test_a_question_is_answered_with_content_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("Key", KEY)

    async def main() -> None:
        with own_home(tmp_path, "serve") as ownership:
            async with running(tmp_path, "http://127.0.0.1:9") as server:
                ownership.tell(server.url)
                approvals = server.services.approvals
                asking = asyncio.create_task(approvals.ask(question(), 60))
                await until(lambda: approvals.pending())
                (pending,) = approvals.pending()

                def approve(*words: str) -> Any:
                    return command(capsys, "approve", "--home", tmp_path, *words)

                listed = await asyncio.to_thread(approve)
                assert "asked by MCP server files" in listed.out and "\x1b" not in listed.out
                without = await asyncio.to_thread(approve, pending.id)
                assert without.code != 0 and "'name' is missing" in without.err
                wrong = await asyncio.to_thread(approve, pending.id, "--content", '{"name": 1}')
                assert wrong.code != 0 and "'name'" in wrong.err
                good = await asyncio.to_thread(approve, pending.id, "--content", '{"name": "Ann"}')
                assert good.code == 0
                answer = await asking
                assert answer.action is AnswerAction.ACCEPT
                assert answer.content == {"name": "Ann", "colour": "green"}

    run(main())


@pytest.mark.parametrize(
    "words",
    [
        ("--content", "{}"),
        ("id", "--reject", "--content", "{}"),
        ("id", "--content", "[]"),
        ("--watch", "--content", "{}"),
    ],
)
def test_content_goes_with_what_is_approved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert "content" in refused(capsys, "approve", "--home", tmp_path, *words) or "--watch" in words
