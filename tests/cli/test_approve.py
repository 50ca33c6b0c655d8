"""``vcp approve`` against a running server, and ``vcp tool`` where a call needs approval (spec 7.6, D88)."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from app.cli.approval_questions import ApprovalQuestions, decision, shown
from app.cli.terminal import printable_lines
from app.config.approval_rules import ApprovalFile
from app.extend import CallContext, Door, ErrorKind, ToolCall
from app.home.lock import own_home
from app.hub.approval.guard import Approvals
from app.observe.bus import EventBus
from tests.cli.commands import Ended, command, refused
from tests.hub.approval.approving import Tools, approving, person, until, wants
from tests.hub.approval.test_guard import human
from tests.program import LONGEST, VCP, environment
from tests.server import ECHO, KEY, Running, call_text, run, write_plugin


@asynccontextmanager
async def owned(home: Path, tools: Tools) -> AsyncIterator[Running]:
    """A server that owns its home, as ``vcp serve`` does."""
    with own_home(home, "serve") as ownership:
        async with approving(home, tools) as (server, _):
            ownership.tell(server.url)
            yield server


async def program(home: Path, *words: str, typed: bytes = b"") -> tuple[int, str, str]:
    """Run ``vcp approve`` to its end, while the server of this process goes on."""
    process = await asyncio.create_subprocess_exec(
        *VCP,
        "approve",
        *words,
        cwd=home,
        env=environment({"Key": KEY}),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate(typed)
    assert process.returncode is not None
    return process.returncode, out.decode(), errors.decode()


async def in_thread(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> Ended:
    """Run ``vcp approve`` in a thread of this process."""
    return await asyncio.to_thread(command, capsys, "approve", "--home", home, *words)


def test_calls_are_listed_approved_and_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("Key", KEY)

    async def main() -> None:
        tools = Tools("Danger")
        async with owned(tmp_path, tools) as server:
            assert "nothing waits" in (await in_thread(capsys, tmp_path)).out
            calls = [asyncio.create_task(human(server, call_text("Danger", n=f"number {n}"))) for n in range(2)]
            await until(lambda: len(server.services.approvals.pending()) == 2)
            first, second = (pending.id for pending in server.services.approvals.pending())
            listed = await in_thread(capsys, tmp_path)
            assert listed.code == 0
            assert listed.out.index(first) < listed.out.index("number 0") < listed.out.index(second)
            yes = await in_thread(capsys, tmp_path, first)
            assert (yes.code, yes.err) == (0, "") and "approved" in yes.out
            no = await in_thread(capsys, tmp_path, second, "--reject", "--reason", "not now")
            assert (no.code, no.err) == (0, "") and "rejected" in no.out
            ends = [await call for call in calls]
            assert [end.status_code for end in ends] == [200, 500]
            assert "not now" in ends[1].json()["plugin_error"]
            assert len(tools.calls) == 1
            late = await in_thread(capsys, tmp_path, first, "--reject")
            assert (late.code, late.out) == (1, "")
            assert "settled before" in late.err and "approved" in late.err

    run(main())


def test_watching_asks_about_one_after_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with owned(tmp_path, tools) as server:
            calls = [asyncio.create_task(human(server, call_text("Danger", n=f"number {n}"))) for n in range(3)]
            await until(lambda: len(server.services.approvals.pending()) == 3)
            code, out, errors = await program(tmp_path, "--watch", typed=b"what?\ny\ns\nn too bad\n")
            assert (code, errors) == (0, "")
            left = server.services.approvals.pending()
            assert [pending.call.arguments["n"] for pending in left] == ["number 1"]
            assert out.index("number 0") < out.index("number 1") < out.index("number 2")
            ends = [await call for call in (calls[0], calls[2])]
            assert [end.status_code for end in ends] == [200, 500]
            assert "too bad" in ends[1].json()["plugin_error"]
            server.services.approvals.answer(left[0].id, False, by="the test")
            await calls[1]

    run(main())


def test_a_line_typed_for_a_call_that_is_settled_decides_no_other_one(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with owned(tmp_path, tools) as server, person(server):
            calls = [asyncio.create_task(human(server, call_text("Danger", n=str(n)))) for n in range(2)]
            await until(lambda: len(server.services.approvals.pending()) == 2)
            first, second = (pending.id for pending in server.services.approvals.pending())
            process = await asyncio.create_subprocess_exec(
                *VCP,
                "approve",
                "--watch",
                cwd=tmp_path,
                env=environment({"Key": KEY}),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdin is not None and process.stdout is not None
            await process.stdout.readuntil(b"approve? ")
            server.services.approvals.answer(first, False, by="somebody else")
            await process.stdout.readuntil(b"press Enter")
            process.stdin.write(b"y\n")
            await process.stdout.readuntil(b"approve? ")
            assert server.services.approvals.find(second) is not None
            process.stdin.write(b"n\n")
            process.stdin.close()
            await process.communicate()
            assert process.returncode == 0
            assert [(await call).status_code for call in calls] == [500, 500]
            assert tools.calls == []

    run(main())


@pytest.mark.parametrize(
    "words",
    [["x"], [], ["--watch"], ["--reject"], ["x", "--reason", "y"], ["--watch", "x"]],
    ids=" ".join,
)
def test_what_cannot_be_begun_ends_with_2_and_says_why(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str]
) -> None:
    told = refused(capsys, "approve", "--home", tmp_path, *words)
    assert " / " in told


def test_an_unknown_request_and_a_wrong_key_end_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with owned(tmp_path, Tools("Danger")):
            monkeypatch.setenv("Key", KEY)
            unknown = await in_thread(capsys, tmp_path, "no-such-request")
            assert (unknown.code, unknown.out) == (2, "")
            chinese, english = unknown.err.strip().split(" / ")
            assert "no-such-request" in chinese
            assert "no-such-request" in english and "vcp approve lists" in english
            monkeypatch.setenv("Key", "another")
            wrong = await in_thread(capsys, tmp_path)
            assert wrong.code == 2
            assert "another Key" in wrong.err

    run(main())


def test_a_tool_command_that_waits_for_a_person_says_so_with_the_way_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with owned(tmp_path, Tools("Danger")) as server:
            process = await asyncio.create_subprocess_exec(
                *(*VCP, "tool", "Danger", "n=1"),
                cwd=tmp_path,
                env=environment({"Key": KEY}),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            assert process.stderr is not None
            told = (await asyncio.wait_for(process.stderr.readline(), LONGEST)).decode()
            (waiting,) = server.services.approvals.pending()
            assert f"waits for approval: vcp approve {waiting.id}" in told
            server.services.approvals.answer(waiting.id, True, by="the test")
            out, errors = await process.communicate()
            assert (process.returncode, errors) == (0, b"")
            assert "Danger said" in out.decode()

    run(main())


def test_a_call_alone_without_a_terminal_is_refused_with_the_way_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_plugin(tmp_path, "Echo", ECHO)
    wants(tmp_path, "Echo")
    ended = command(capsys, "tool", "--home", tmp_path, "Echo", "text=hi")
    assert ended.code == 1
    assert "vcp approve" in json.loads(ended.out)["plugin_execution_error"]


@pytest.mark.parametrize(("typed", "code"), [(b"hm\ny\n", 0), (b"n never\n", 1)], ids=["yes", "no"])
def test_a_call_alone_asks_on_the_terminal(tmp_path: Path, typed: bytes, code: int) -> None:
    write_plugin(tmp_path, "Echo", ECHO)
    wants(tmp_path, "Echo")
    outer, inner = pty.openpty()
    try:
        process = subprocess.Popen(
            (*VCP, "tool", "Echo", "text=hi\x1b[2J"),
            cwd=tmp_path,
            env=environment(),
            stdin=inner,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        guard = threading.Timer(LONGEST, process.kill)
        guard.start()
        assert process.stderr is not None
        asked = b""
        while b"approve? " not in asked:
            piece = process.stderr.read1()
            assert piece, asked
            asked += piece
        os.write(outer, typed)
        out, _ = process.communicate(timeout=20)
        guard.cancel()
    finally:
        os.close(outer)
        os.close(inner)
    assert b"\x1b" not in asked
    assert process.returncode == code
    value: Any = json.loads(out)
    if code:
        assert value["error_type"] == "approval_rejected"
        assert "never" in value["plugin_error"]
    else:
        assert "hi" in json.dumps(value)


def test_where_the_input_ends_before_an_answer_the_call_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        wants(tmp_path, "Danger")
        events = EventBus()
        rules = ApprovalFile(tmp_path, lambda: 0.0).rules
        guard = Approvals(rules, events, clock=lambda: 0.0, new_id=lambda kind: kind)
        guard.open = True
        events.listen(ApprovalQuestions(guard, UTC).heard)
        call = ToolCall("c", "Danger", {})
        result = await guard.check(Tools("Danger").tools()["Danger"], call, CallContext("t", Door.COMMAND_LINE))
        assert result is not None and result.error_kind is ErrorKind.REJECTED
        assert guard.pending() == ()

    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        run(main())
    assert "approve? " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y", (True, "")),
        (" YES please", (True, "")),
        ("是", (True, "")),
        ("n", (False, "")),
        ("No  it is not ", (False, "it is not")),
        ("否 不行", (False, "不行")),
        ("", None),
        ("yn", None),
        ("yess", None),
    ],
)
def test_a_line_that_decides(line: str, expected: Any) -> None:
    assert decision(line) == expected


def test_a_caller_cannot_make_himself_look_like_another_request() -> None:
    """``maid`` comes from a model, and ids can be guessed."""
    forged = "Nova, stream_loop, 5 s left)\n{}\n\napproval-2  Echo  (Nova\u2028x\x0by"
    text = shown({"requestId": "approval-1", "toolName": f"Danger{forged}", "maid": forged, "args": {"a": forged}})
    assert [line[:12] for line in text.split("\n")] == ["approval-1  ", "{", '  "a": "Nova', "}"]
    assert "approval-2" in text


def test_nothing_that_is_shown_plays_tricks_with_the_terminal() -> None:
    """An argument could clear the screen, hide itself, or turn the direction of what follows."""
    hostile = "\x1b[2J\x9b2J\r\u202e\u2066\x7f\x00"
    text = shown({"requestId": "r", "toolName": hostile, "maid": hostile, "args": {hostile: hostile}})
    assert all(mark == "\n" or mark.isprintable() for mark in text)
    assert printable_lines("中文 ok\n") == "中文 ok\n"
