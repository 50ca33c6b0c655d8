"""``POST /v1/human/tool`` over a real server and real plugin processes (spec 1.8, 4.6; D30, P14, P71, P74)."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.errors import BadRequestError, UnsupportedMediaError
from app.extend import CallFinished, CallStarted, Door, Event, Outcome
from app.web.human_tool import parse_human_call, plain_text
from tests.server import ECHO, KEY, Running, call_text, run, running, write_plugin

NOWHERE = "http://127.0.0.1:9"
SHOWS_INPUT = """
import json, os, sys
print(json.dumps({"status": "success", "result": {"stdin": sys.stdin.read(), "ip": os.environ.get("VCP_REQUEST_IP")}}))
"""


async def tool(server: Running, text: str | bytes, content_type: str | None = "text/plain") -> httpx.Response:
    headers = {} if content_type is None else {"Content-Type": content_type}
    content = text.encode() if isinstance(text, str) else text
    return await server.client.post("/v1/human/tool", content=content, headers=headers)


async def seen_by_plugin(server: Running, text: str, content_type: str = "text/plain") -> Any:
    answer = await tool(server, text, content_type)
    assert answer.status_code == 200, answer.text
    return json.loads(answer.json()["stdin"])


def write_code(home: Path, digits: str) -> None:
    pairs = ("[", "{", "<", "（", "《", "【")
    text = "".join(pair * int(digit) for pair, digit in zip(pairs, digits, strict=True))
    folder = home / "Plugin" / "UserAuth"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "code.bin").write_bytes(base64.b64encode(text.encode()))


def test_a_block_is_run_and_its_result_object_comes_back(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        async with running(tmp_path, NOWHERE) as server:
            answer = await tool(server, call_text("Echo", text="你好", maid="Nova"))
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/json; charset=utf-8"
            body = answer.json()
            assert list(body) == ["original_plugin_output", "MaidName", "timestamp"]
            assert (body["original_plugin_output"], body["MaidName"]) == ("你好", "Nova")
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+08:00", body["timestamp"])
            (finished,) = [event for event in server.events if isinstance(event, CallFinished)]
            assert finished.context.door is Door.HUMAN_TOOL
            assert finished.outcome is Outcome.SUCCESS

    run(main())


def test_what_is_not_plain_text_with_a_block_is_400_with_the_literal(tmp_path: Path) -> None:
    empty = "Request body must be a non-empty plain text."
    markers = "Malformed request: Missing TOOL_REQUEST markers."
    name = "Malformed request: tool_name not found within the request block."
    block = call_text("Echo", text="x")
    table: list[tuple[str | bytes, str | None, str]] = [
        (json.dumps({"text": block}), "application/json", empty),
        (block, "application/json; charset=utf-8", empty),
        (block, "text/html", empty),
        (block, "text", empty),
        (block, "plain", empty),
        (block, None, empty),
        ("", "text/plain", empty),
        ("\ufeff \r\n\t\u3000", "text/plain", empty),
        ("just talk", "text/plain", markers),
        ("<<<[TOOL_REQUEST]>>> tool_name:「始」Echo「末」", "text/plain", markers),
        ("<<<[END_TOOL_REQUEST]>>> then <<<[TOOL_REQUEST]>>>", "text/plain", markers),
        ("<<<[tool_request]>>> tool_name:「始」Echo「末」 <<<[end_tool_request]>>>", "text/plain", markers),
        ("<<<[TOOL_REQUEST]>>> x:「始」Echo「末」 <<<[END_TOOL_REQUEST]>>>", "text/plain", name),
        ("<<<[TOOL_REQUEST]>>> tool_name:「始」 「末」 <<<[END_TOOL_REQUEST]>>>", "text/plain", name),
        ("<<<[TOOL_REQUEST]>>><<<[END_TOOL_REQUEST]>>>", "text/plain", name),
        ("<<<[TOOL_REQUEST]>>><<<[END_TOOL_REQUEST]>>>" + block, "text/plain", name),
    ]

    async def main() -> None:
        async with running(tmp_path, NOWHERE) as server:
            for text, content_type, error in table:
                answer = await tool(server, text, content_type)
                assert (answer.status_code, answer.json()) == (400, {"error": error}), (text, content_type)
            assert not [event for event in server.events if isinstance(event, CallStarted)]

    run(main())


def test_layouts_that_people_and_scripts_send_all_run(tmp_path: Path) -> None:
    block = call_text("Show", text="汉字 a")

    async def main() -> None:
        write_plugin(tmp_path, "Show", SHOWS_INPUT)
        async with running(tmp_path, NOWHERE) as server:
            for text, content_type in [
                (block, "text/plain; charset=UTF-8"),
                (block, 'Text/Plain;charset="utf-8"'),
                (block, "text/plain;"),
                ("\ufeff" + block, "text/plain"),
                (block.replace("\n", "\r\n"), "text/plain"),
                ("Please run this:\n```\n" + block + "\n```\nThank you <think>", "text/plain"),
                ("<think>" + block + "</think>", "text/plain"),
                (block + call_text("Never", text="second"), "text/plain"),
                (block.replace("\n", " "), "text/plain"),
            ]:
                assert await seen_by_plugin(server, text, content_type) == {"text": "汉字 a"}, text
            answer = await tool(server, block.encode("gbk"), "text/plain; charset=gbk")
            assert json.loads(answer.json()["stdin"]) == {"text": "汉字 a"}
            assert len([event for event in server.events if isinstance(event, CallFinished)]) == 10

    run(main())


@pytest.mark.parametrize("charset", ["gbk", "GB18030", "big5", "utf-16", "UTF8", "latin-1"])
def test_a_named_charset_is_read(charset: str) -> None:
    text = "résumé" if charset == "latin-1" else "漢字" if charset == "big5" else "汉字"
    assert plain_text(text.encode(charset), f"text/plain; charset={charset}") == text


@pytest.mark.parametrize(
    "charset", ["utf-7", "idna", "punycode", "unicode_escape", "rot13", "hex", "nonsense", "x" * 99]
)
def test_other_codecs_are_refused_by_name(charset: str) -> None:
    with pytest.raises(UnsupportedMediaError, match=re.escape(charset[:40])):
        plain_text(b"x", f"text/plain; charset={charset}")


def test_text_that_is_not_in_its_charset_is_refused_and_not_run_with_half_of_its_values() -> None:
    with pytest.raises(BadRequestError, match="not utf-8 from byte 1"):
        plain_text(b"a" + "汉字".encode("gbk"), "text/plain")


def test_archery_is_an_argument_like_any_other_and_the_answer_is_waited_for(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Show", SHOWS_INPUT)
        async with running(tmp_path, NOWHERE) as server:
            for value in ("true", "no_reply", "maybe"):
                got = await seen_by_plugin(server, call_text("Show", archery=value, a="1"))
                assert got == {"archery": value, "a": "1"}
            (first, *_) = [event for event in server.events if isinstance(event, CallFinished)]
            assert not first.call.archery

    run(main())


def test_the_caller_name_reaches_the_plugin_as_well(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Show", SHOWS_INPUT)
        async with running(tmp_path, NOWHERE) as server:
            answer = (await tool(server, call_text("Show", maid="小克"))).json()
            assert json.loads(answer["stdin"]) == {"maid": "小克"}
            assert answer["MaidName"] == "小克"
            none = (await tool(server, call_text("Show"))).json()
            assert "MaidName" not in none
            assert none["stdin"] == ""

    run(main())


RESULTS = [
    ({"status": "success", "result": "hello"}, 200, {"original_plugin_output": "hello"}),
    ({"status": "success", "result": '{"a":1}'}, 200, {"a": 1}),
    ({"status": "success", "result": "42"}, 200, {"original_plugin_output": 42}),
    ({"status": "success", "result": "null"}, 200, {"original_plugin_output": None}),
    ({"status": "success", "result": {"a": {"b": [1, "汉"]}}}, 200, {"a": {"b": [1, "汉"]}}),
    ({"status": "success", "message": "saved"}, 200, {"message": "saved"}),
    ({"status": "success", "result": {"MaidName": "x", "timestamp": "y"}}, 200, {}),
    (
        {"status": "success", "result": {"content": [{"type": "text", "text": "t"}]}},
        200,
        {"content": [{"type": "text", "text": "t"}]},
    ),
    ({"status": "error", "error": "bad"}, 500, {"plugin_error": "bad"}),
    ({"status": "error", "message": "worse"}, 500, {"plugin_error": "worse"}),
    ({"status": "error"}, 500, {"plugin_error": 'Plugin "Say" reported an unspecified error.'}),
]


def test_results_and_errors_have_the_shape_of_the_result_object(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Say", "import json, sys\nprint(json.loads(sys.stdin.read())['say'])")
        async with running(tmp_path, NOWHERE) as server:
            for printed, status, expected in RESULTS:
                answer = await tool(server, call_text("Say", say=json.dumps(printed), maid="Nova"))
                body = answer.json()
                assert answer.status_code == status, body
                assert body.pop("timestamp").endswith("+08:00")
                assert body.pop("MaidName") == "Nova"
                assert body == expected
            stays = await tool(server, call_text("Say", say='{"status":"success","result":[1,{"a":2}]}', maid="Nova"))
            assert stays.json() == [1, {"a": 2}]
            broken = await tool(server, call_text("Say", say="no JSON"))
            assert broken.status_code == 500
            assert "did not provide a valid initial JSON response" in broken.json()["plugin_execution_error"]
            infinite = await tool(server, call_text("Say", say='{"status":"success","result":{"x":1e999}}'))
            assert infinite.json()["x"] is None

    run(main())


def test_an_unknown_tool_a_time_limit_and_a_listed_but_not_callable_plugin_are_500_as_json(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(
            tmp_path,
            "Hang",
            "import time\nwhile True: time.sleep(60)",
            communication={"protocol": "stdio", "timeout": 100},
        )
        write_plugin(tmp_path, "Static", ECHO, pluginType="static")
        async with running(tmp_path, NOWHERE) as server:
            for name, said in [
                ("Nope", "Nope"),
                ("Hang", 'Plugin "Hang" execution timed out.'),
                ("Static", "is not a supported stdio plugin"),
            ]:
                answer = await tool(server, call_text(name))
                assert answer.status_code == 500
                assert said in answer.json()["plugin_execution_error"]
                assert set(answer.json()) == {"plugin_execution_error", "timestamp"}

    run(main())


def test_calls_run_side_by_side(tmp_path: Path) -> None:
    meets = """
    import json, pathlib, sys, time
    mine, other = json.loads(sys.stdin.read())["pair"].split()
    pathlib.Path(mine).touch()
    while not pathlib.Path(other).exists():
        time.sleep(0.005)
    print(json.dumps({"status": "success", "result": "met"}))
    """

    async def main() -> None:
        write_plugin(tmp_path, "Meet", meets)
        async with running(tmp_path, NOWHERE) as server:
            pairs = [f"{tmp_path / 'a'} {tmp_path / 'b'}", f"{tmp_path / 'b'} {tmp_path / 'a'}"]
            answers = await asyncio.gather(*(tool(server, call_text("Meet", pair=pair)) for pair in pairs))
            assert [answer.json()["original_plugin_output"] for answer in answers] == ["met", "met"]

    run(main())


@pytest.mark.parametrize(
    ("config", "password", "passes"),
    [
        ([], None, True),
        (["VCPToolCode=true"], None, False),
        (["VCPToolCode=true"], "000000", False),
        (["VCPToolCode=true"], "", False),
        (["VCPToolCode=true"], "313213", True),
        (["VCPToolCode=true", "VCPToolCodeEverywhere=false"], None, True),
        (["VCPToolCode=true", "VCPToolCodeEverywhere=false"], "000000", True),
    ],
)
def test_the_password_is_asked_for_at_this_door_unless_that_is_switched_off(
    tmp_path: Path, config: list[str], password: str | None, passes: bool
) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Show", SHOWS_INPUT)
        write_code(tmp_path, "313213")
        fields = {"a": "1"} if password is None else {"a": "1", "tool_password": password}
        async with running(tmp_path, NOWHERE, config=config) as server:
            answer = await tool(server, call_text("Show", **fields))
            assert answer.status_code == (200 if passes else 500)
            if passes:
                assert json.loads(answer.json()["stdin"]) == {"a": "1"}  # the code is not for the plugin
            else:
                assert "tool_password" in answer.json()["plugin_execution_error"]
                unknown = await tool(server, call_text("Nope"))
                assert unknown.json()["plugin_execution_error"] == answer.json()["plugin_execution_error"]

    run(main())


def test_without_a_code_file_every_call_is_refused_and_without_the_switch_the_password_is_an_argument(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Show", SHOWS_INPUT)
        async with running(tmp_path, NOWHERE, config=["VCPToolCode=true"]) as server:
            for password in ("313213", "", "None"):
                assert (await tool(server, call_text("Show", tool_password=password))).status_code == 500
        async with running(tmp_path, NOWHERE) as server:
            assert await seen_by_plugin(server, call_text("Show", tool_password="7")) == {"tool_password": "7"}

    run(main())


def test_failing_calls_block_an_address_behind_a_trusted_proxy_only(tmp_path: Path) -> None:
    async def fail(server: Running, times: int, address: str) -> list[int]:
        headers = {"Content-Type": "text/plain", "X-Forwarded-For": address}
        text = call_text("Nope").encode()
        answers = [await server.client.post("/v1/human/tool", content=text, headers=headers) for _ in range(times)]
        return [answer.status_code for answer in answers]

    async def main() -> None:
        async with running(tmp_path, NOWHERE) as server:
            assert await fail(server, 7, "9.9.9.9") == [500] * 7
            assert await fail(server, 1, "9.9.9.9") == [500]
        assert not (tmp_path / "ip_blacklist.json").exists()
        trusting = ["TrustedProxies=127.0.0.1"]
        async with running(tmp_path, NOWHERE, config=trusting) as server:
            assert await fail(server, 7, "9.9.9.9") == [500] * 5 + [403] * 2
            assert await fail(server, 1, "9.9.9.8") == [500]
        assert json.loads((tmp_path / "ip_blacklist.json").read_text(encoding="utf-8")) == ["9.9.9.9"]
        async with running(tmp_path, NOWHERE, config=[*trusting, "IpBlacklist=false"]) as server:
            assert await fail(server, 7, "9.9.9.9") == [500] * 7

    run(main())


def test_malformed_requests_do_not_count_as_failing_calls(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE, config=["TrustedProxies=127.0.0.1"]) as server:
            headers = {"Content-Type": "text/plain", "X-Forwarded-For": "9.9.9.9"}
            for _ in range(8):
                answer = await server.client.post("/v1/human/tool", content=b"talk", headers=headers)
                assert answer.status_code == 400

    run(main())


def test_a_call_of_one_command_by_its_full_name_tells_the_plugin_which(tmp_path: Path) -> None:
    commands = [
        {
            "commandIdentifier": "add",
            "description": "d",
            "parameters": {"properties": {"imageSize": {"type": "integer"}}},
        },
        {"commandIdentifier": "sub", "description": "d"},
    ]

    async def main() -> None:
        write_plugin(tmp_path, "Show2.1", SHOWS_INPUT, capabilities={"invocationCommands": commands})
        async with running(tmp_path, NOWHERE) as server:
            got = await seen_by_plugin(server, call_text("Show2.1.add", **{"IMAGE-SIZE": "7"}))
            assert got == {"imageSize": "7", "command": "add"}
            assert (await tool(server, call_text("Show2.1.mul"))).status_code == 500

    run(main())


def test_events_of_a_call_at_this_door_carry_where_it_came_from(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        async with running(tmp_path, NOWHERE, config=["TrustedProxies=127.0.0.1"]) as server:
            await server.client.post(
                "/v1/human/tool",
                content=call_text("Echo").encode(),
                headers={"Content-Type": "text/plain", "X-Forwarded-For": "::ffff:9.9.9.9"},
            )
            calls: list[Event] = [event for event in server.events if isinstance(event, CallStarted | CallFinished)]
            started, finished = calls
            assert isinstance(started, CallStarted) and isinstance(finished, CallFinished)
            assert started.door is Door.HUMAN_TOOL and started.pid is not None
            assert finished.context.client_ip == "9.9.9.9"

    run(main())


def test_parsing_keeps_every_field_under_its_own_name() -> None:
    fields = {f"{name}{number}": f"v{number}" for number in range(1, 11) for name in ("command", "filePath")}
    call = parse_human_call(call_text("Files", **fields), "c1", password_wanted=False)
    assert (call.id, call.tool, dict(call.arguments)) == ("c1", "Files", fields)
    assert KEY not in repr(call)
