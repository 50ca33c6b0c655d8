"""Chains agent → chat → tool → agent end: header, child variable, limit at every door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.config.snapshot import load
from app.demo.script import Received, Reply, say
from app.demo.scripted import ScriptedUpstream
from app.extend import CallFinished, Door, TurnStarted
from tests.server import Running, call_text, run, running, write_plugin

TELL_DEPTH = """
import json, os
print(json.dumps({"status": "success", "result": "depth " + os.environ["VCP_CALL_DEPTH"]}))
"""

# An agent: asks the server that called it for another chat, and hands on what it was told.
ASK_AGAIN = """
import json, os, urllib.error, urllib.request
request = urllib.request.Request(
    os.environ["SERVER"] + "/v1/chat/completions",
    json.dumps({"model": "m", "messages": [{"role": "user", "content": "again"}]}).encode(),
    {
        "Authorization": ("Bearer " + os.environ["Key"]).encode().decode("latin-1"),
        "Content-Type": "application/json",
        "X-VCP-Call-Depth": os.environ["VCP_CALL_DEPTH"],
    },
)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    with opener.open(request, timeout=20) as answer:
        said = json.loads(answer.read())["choices"][0]["message"]["content"]
except urllib.error.HTTPError as error:
    said = "refused: " + json.loads(error.read())["error"]["message"]
print(json.dumps({"status": "success", "result": said}))
"""

DEPTH = "X-VCP-Call-Depth"
BODY = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


def depth_of(server: Running, door: Door) -> set[int]:
    return {e.context.depth for e in server.events if isinstance(e, CallFinished) and e.context.door is door}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
def test_the_depth_of_a_chat_reaches_its_tools_and_its_diary_blocks(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Tell", TELL_DEPTH)
        diary = "<<<DailyNoteStart>>>\nMaid: Nova\nDate: 2025.1.1\nContent: hi\n<<<DailyNoteEnd>>>"
        script = [say(call_text("Tell") + diary), say("done")]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url) as server:
            answer = await server.client.post(
                "/v1/chat/completions", json={**BODY, "stream": stream}, headers={DEPTH: "2"}
            )
            assert answer.status_code == 200
            assert "depth 3" in json.dumps(up.bodies[1])
            assert "x-vcp-call-depth" not in up.requests[0].headers  # D34: nothing is added for a foreign upstream
            door = Door.STREAM if stream else Door.NON_STREAM
            await server.services.background.stop(5)
            assert depth_of(server, door) == {2}
            assert depth_of(server, Door.DIARY_BLOCK) == {2}

    run(main())


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/chatvcp/completions"])
@pytest.mark.parametrize(("sent", "code"), [("6", "call_depth_exceeded"), ("deep", "invalid_request_error")])
def test_a_chat_beyond_the_limit_gets_a_400_with_an_openai_error_object(
    tmp_path: Path, stream: bool, path: str, sent: str, code: str
) -> None:
    async def main() -> None:
        async with ScriptedUpstream([]) as up, running(tmp_path, up.base_url) as server:
            answer = await server.client.post(path, json={**BODY, "stream": stream}, headers={DEPTH: sent})
            assert answer.status_code == 400
            error = answer.json()["error"]
            assert (error["type"], error["code"]) == ("invalid_request_error", code)
            assert not up.requests

    run(main())


def test_a_tool_called_by_hand_has_the_depth_of_its_request_and_its_limit(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Tell", TELL_DEPTH)
        async with running(tmp_path, "http://127.0.0.1:9") as server:

            async def call(depth: str) -> Any:
                return await server.client.post(
                    "/v1/human/tool",
                    content=call_text("Tell").encode(),
                    headers={"Content-Type": "text/plain", DEPTH: depth},
                )

            assert "depth 6" in (await call("5")).text
            refused = await call("6")
            assert refused.status_code == 400
            assert "MaxCallDepth" in refused.json()["error"]

    run(main())


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/models/m", "/v1/embeddings", "/v1/moderations", "/v1/human/tool", "/v1/schedule_task"]
)
def test_no_door_lets_a_chain_in_that_is_too_long(tmp_path: Path, path: str) -> None:
    task = {"schedule_time": "2099-01-01T00:00:00Z", "task_id": "late", "tool_call": {"tool_name": "T"}}

    async def main() -> None:
        async with ScriptedUpstream([]) as up, running(tmp_path, up.base_url) as server:
            method = "GET" if path.startswith("/v1/models") else "POST"
            answer = await server.client.request(
                method, path, headers={DEPTH: "6"}, json=task if method == "POST" else None
            )
            assert answer.status_code == 400
            assert "MaxCallDepth" in answer.text
            assert not up.requests
            assert not (tmp_path / "VCPTimedContacts" / "late.json").exists()

    run(main())


def test_the_limit_is_live_and_zero_allows_no_nesting(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream([say("a")]) as up, running(tmp_path, up.base_url) as server:
            old = server.services.config
            server.services.apply(load(tmp_path, {**old.environ, "MaxCallDepth": "0"}))
            refused = await server.client.post("/v1/chat/completions", json=BODY, headers={DEPTH: "1"})
            assert refused.status_code == 400
            assert (await server.client.post("/v1/chat/completions", json=BODY)).status_code == 200

    run(main())


def test_agents_that_call_each_other_without_end_are_ended_and_every_chat_answers(tmp_path: Path) -> None:
    def reply(request: Received) -> Reply:
        last = request.json["messages"][-1]["content"]
        said = json.dumps(last, ensure_ascii=False)
        answer = say(f"heard {said}") if "refused" in said or "heard" in said else say(call_text("Agent"))
        return answer.reply(request)

    async def main() -> None:
        write_plugin(tmp_path, "Agent", ASK_AGAIN)
        async with (
            ScriptedUpstream(reply) as up,
            running(tmp_path, up.base_url, config=["MaxCallDepth=2"]) as server,
        ):
            server.services.apply(load(tmp_path, {**server.services.config.environ, "SERVER": server.url}))
            answer = await server.chat("go")
            assert answer.status_code == 200
            assert "MaxCallDepth" in answer.text
            assert len([e for e in server.events if isinstance(e, CallFinished)]) == 3  # depths 0, 1, 2

    run(main())


def test_a_server_that_is_its_own_upstream_ends_with_a_readable_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9", config=["MaxCallDepth=3", "ApiRetries=1"]) as server:
            services = server.services
            here = {"API_URL": server.url, "PORT": server.url.rpartition(":")[2], "API_Key": services.key}
            services.apply(load(tmp_path, {**services.config.environ, **here}))
            answer = await server.chat("x")
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "call_depth_exceeded")
            assert len({e.turn_id for e in server.events if isinstance(e, TurnStarted)}) == 4  # depths 0 to 3
            listed = await server.client.get("/v1/models")
            assert (listed.status_code, listed.json()["error"]["code"]) == (400, "call_depth_exceeded")

    run(main())
