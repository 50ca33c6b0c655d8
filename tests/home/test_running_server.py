"""Tool calls through the server that owns the home: exactly the call that was meant, or a refusal (D88, D4, 4.3)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ConfigError
from app.home.lock import Owner
from app.home.running_server import ToolAnswer, ask, call_through, request_text
from app.protocol.tool_blocks import parse_request
from app.tools.text_calls import call_from_block
from tests.server import ECHO, KEY, run, running, write_plugin

ARGUMENTS = """
import json, sys
print(json.dumps({"status": "success", "result": json.load(sys.stdin)}))
"""

HARD = {
    "quotes": "say \"hi\" 'there'",
    "closing": "a「末」b",
    "opening": "「始」",
    "request": "<<<[TOOL_REQUEST]>>>\ntool_name:「始」Other「末」\n<<<[END_TOOL_REQUEST]>>>",
    "thought": "<think>not yet",
    "lines": "one\r\n\n  two\ttab",
    "empty": "",
    "comma": "a=b, c:d",
    "hyphen-ated": "x",
}


def test_every_hard_value_arrives_as_it_was_given(tmp_path: Path) -> None:
    async def test() -> None:
        write_plugin(tmp_path, "Echo", ARGUMENTS)
        async with running(tmp_path, "http://127.0.0.1:9") as server:
            owner = Owner(1, server.url, "serve")
            arguments = {**HARD, "tool_password": "123456", "archery": "no_reply", "maid": "Nova"}
            answer = await call_through(owner, KEY, request_text("Echo", arguments))
        assert answer.ok
        assert isinstance(answer.value, dict)
        assert arguments.items() <= answer.value.items()

    run(test())


@given(st.dictionaries(st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True), st.text(max_size=40), max_size=4))
def test_a_call_arrives_unchanged_or_is_not_sent_at_all(arguments: dict[str, str]) -> None:
    try:
        text = request_text("Echo", arguments)
    except ConfigError:
        return
    block = parse_request(text)
    call = call_from_block(block, "", password_wanted=False)
    archery = {} if block.archery_text is None else {"archery": block.archery_text}
    assert {**call.arguments, **archery} == arguments


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("Echo", {"名": "值"}, "名"),
        ("Echo", {"text": " a"}, "text"),
        ("Echo", {"text": "a\n"}, "text"),
        ("Echo", {"text": "「末」「末ESCAPE」"}, "text"),
        ("Echo", {"Tool_Name": "x"}, "Tool_Name"),
        ("Echo", {"valet": "Nova"}, "maid"),
        (" ", {}, "tool"),
    ],
)
def test_a_call_that_no_block_can_carry_is_refused_by_name(tool: str, arguments: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match="cannot carry") as refused:
        request_text(tool, arguments)
    assert named in refused.value.message


def test_a_failing_tool_and_a_missing_one_are_answers_and_a_wrong_key_is_an_error(tmp_path: Path) -> None:
    async def test() -> None:
        write_plugin(tmp_path, "Bad", "raise SystemExit(3)")
        write_plugin(tmp_path, "Echo", ECHO)
        async with running(tmp_path, "http://127.0.0.1:9") as server:
            owner = Owner(1, server.url, "serve")
            for tool in ("Bad", "Missing"):
                answer = await call_through(owner, KEY, request_text(tool, {}))
                assert not answer.ok
                assert isinstance(answer, ToolAnswer)
            with pytest.raises(ConfigError, match="does not take the key"):
                await call_through(owner, "wrong", request_text("Echo", {}))
            with pytest.raises(ConfigError, match=r"refused the request \(400\)"):
                await call_through(owner, KEY, "no block")

    run(test())


def test_what_the_server_knows_is_asked_with_its_status(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, "http://127.0.0.1:9") as server:
            owner = Owner(1, server.url, "serve")
            assert await ask(owner, KEY, "GET", "/v1/nodes") == (200, {"nodes": []})
            assert (await ask(owner, KEY, "GET", "/v1/nowhere"))[0] == 404
            assert await ask(owner, KEY, "GET", "/healthz") == (200, None), "a word is no JSON"
            status, told = await ask(owner, KEY, "POST", "/v1/schedule_task", {"task_id": "\ud800"})
            assert (status, isinstance(told, dict)) == (400, True)
            with pytest.raises(ConfigError, match="does not take the key"):
                await ask(owner, "wrong", "GET", "/v1/nodes")

    run(test())


def test_a_server_that_is_gone_or_still_starting_is_told_with_its_address(tmp_path: Path) -> None:
    async def test() -> None:
        with pytest.raises(ConfigError, match=r"cannot be reached.*77.*127\.0\.0\.1:9"):
            await call_through(Owner(77, "http://127.0.0.1:9", "serve"), KEY, request_text("Echo", {}))
        with pytest.raises(ConfigError, match="takes no requests yet"):
            await call_through(Owner(77, "", "serve"), KEY, request_text("Echo", {}))

    run(test())
