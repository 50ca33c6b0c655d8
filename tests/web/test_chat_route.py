"""The chat routes seen from outside: paths, sizes, odd bodies, limits (spec 1.4; R12, R15, R16, O4, B24, P37, D36)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.demo.script import Hold, Reply, json_reply, say
from app.demo.scripted import ScriptedUpstream
from tests.server import ECHO, HEADERS, call_text, chat_body, read_stream, run, running, write_plugin


@pytest.mark.parametrize("stream", ["true", 1, "1", None, 0, {}, [True]])
def test_only_the_json_boolean_true_asks_for_a_stream(tmp_path: Path, stream: Any) -> None:
    async def main() -> None:
        async with ScriptedUpstream([say("ok")]) as up, running(tmp_path, up.base_url) as server:
            answer = await server.chat("x", stream=stream)
            assert answer.headers["content-type"].startswith("application/json")
            assert answer.json()["choices"][0]["message"]["content"] == "ok"
            assert up.requests[0].headers["accept"] != "text/event-stream"

    run(main())


@pytest.mark.parametrize(
    "path", ["/chat/completions", "/v1/v1/chat/completions", "/V1/Chat/Completions/", "//v1//chat/completions"]
)
def test_a_base_url_that_lacks_or_doubles_v1_works(tmp_path: Path, path: str) -> None:
    async def main() -> None:
        async with ScriptedUpstream([say("ok")]) as up, running(tmp_path, up.base_url) as server:
            assert (await server.stream("x", path=path)).text == "ok"
            assert up.requests[0].path == "/v1/chat/completions"

    run(main())


def test_a_picture_of_twelve_megabytes_goes_through_byte_for_byte(tmp_path: Path) -> None:
    url = "data:image/png;base64," + "QUJD" * (3 * 1024 * 1024)
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]

    async def main() -> None:
        async with ScriptedUpstream([say("seen")]) as up, running(tmp_path, up.base_url) as server:
            answer = await server.chat({"role": "user", "content": parts})
            assert answer.status_code == 200
            assert up.bodies[0]["messages"][0]["content"] == parts

    run(main())


def test_any_content_type_or_none_is_read_as_json(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream(lambda request: say("ok")) as up, running(tmp_path, up.base_url) as server:
            data = json.dumps(chat_body("x")).encode()
            for content_type in ("application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded"):
                headers = {"Content-Type": content_type}
                answer = await server.client.post("/v1/chat/completions", content=data, headers=headers)
                assert answer.status_code == 200

    run(main())


def test_at_the_round_limit_the_last_reply_is_in_the_plain_answer(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        blocks = [letter + call_text("Echo", text=letter) for letter in "abcd"]
        script = [say(text) for text in blocks]
        config = ["MaxVCPLoopNonStream=3"]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url, config=config) as server:
            choice = (await server.chat("x")).json()["choices"][0]
            assert len(up.requests) == 4
            assert choice["message"]["content"] == "\n".join(blocks)
            assert choice["finish_reason"] == "length"

    run(main())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("path", "shown"), [("/v1/chat/completions", False), ("/v1/chatvcp/completions", True)])
def test_the_second_route_shows_results_without_any_request_id(
    tmp_path: Path, path: str, shown: bool, stream: bool
) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        script = [say(call_text("Echo", text="hi")), say("end")]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url) as server:
            answer = await server.chat("x", path=path, stream=stream)
            text = read_stream(answer).text if stream else answer.json()["choices"][0]["message"]["content"]
            assert ("[[VCP调用结果信息汇总:\n- 工具名称: Echo" in text) is shown

    run(main())


def test_a_rich_result_goes_to_the_model_as_exactly_its_parts(tmp_path: Path) -> None:
    async def main() -> None:
        result = {"status": "success", "result": {"content": [{"type": "text", "text": "t"}]}}
        write_plugin(tmp_path, "Rich", f"print({json.dumps(json.dumps(result))})")
        async with (
            ScriptedUpstream([say(call_text("Rich", maid="N")), say("end")]) as up,
            running(tmp_path, up.base_url) as server,
        ):
            await server.chat("x")
            assert up.bodies[1]["messages"][-1] == {"role": "user", "content": [{"type": "text", "text": "t"}]}

    run(main())


def test_one_turn_too_many_is_503_as_an_openai_error_and_its_body_is_not_read(tmp_path: Path) -> None:
    async def main() -> None:
        config = ["MaxRunningTurns=1"]
        async with (
            ScriptedUpstream([Reply((Hold(), *json_reply({"choices": []}).steps), 200, json_reply({}).headers)]) as up,
            running(tmp_path, up.base_url, config=config) as server,
        ):
            first = asyncio.create_task(server.chat("x"))
            await up.held()
            refused = await server.chat("y")
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "too_many_turns"
            up.release()
            assert (await first).status_code == 200

    run(main())


@pytest.mark.parametrize("stream", [True, False])
def test_headers_of_the_upstream_in_any_script_do_no_harm(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        reply = json_reply(
            {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]},
            headers=[("X-Request-Id", "请求".encode().decode("latin-1")), ("Access-Control-Allow-Origin", "x")],
        )
        async with ScriptedUpstream([reply]) as up, running(tmp_path, up.base_url) as server:
            answer = await server.chat("x", stream=stream)
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == "*"
            (id,) = [value for name, value in answer.headers.raw if name.lower() == b"x-request-id"]
            assert id.decode() == "请求"

    run(main())


def test_a_large_body_without_the_key_is_answered_before_it_was_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9") as server:
            host, port = server.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n"
            writer.write(head + b"x" * 1000)
            assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
            writer.close()
            async with httpx.AsyncClient(trust_env=False, headers=HEADERS) as client:
                wants = {"Expect": "100-continue", "Authorization": "Bearer wrong"}
                refused = await client.post(f"{server.url}/v1/human/tool", content=b"x", headers=wants)
                assert refused.status_code == 401

    run(main())
