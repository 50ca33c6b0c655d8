"""The playground: the real chat route behind a login, with the calls of the turn beside its text."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from app.demo.script import Hold, Reply, Send, say
from app.demo.scripted import ScriptedUpstream
from app.extend import ErrorKind, ToolResult
from app.web.panel.playground import RESULT_CHARS, shown_result
from tests.server import ECHO, call_text, run, write_plugin
from tests.waiting import until
from tests.web.panel.visitor import HOSTILE, visiting

CHAT = "/AdminPanel/playground/chat"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}


def read_events(text: str) -> tuple[str, list[dict[str, Any]]]:
    """The text of the answer, and what was told beside it."""
    words, told = "", []
    for piece in text.split("\n\n"):
        lines = piece.split("\n")
        data = "".join(line[5:].strip() for line in lines if line.startswith("data:"))
        if "event: vcp" in lines:
            told.append(json.loads(data))
        elif data and data != "[DONE]":
            words += "".join(choice["delta"].get("content") or "" for choice in json.loads(data)["choices"])
    return words, told


def test_a_chat_needs_the_login_and_no_key_and_tells_its_calls(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Echo", ECHO)

    async def main() -> None:
        script = [say(f"Look: {call_text('Echo', text=HOSTILE)}"), say("done")]
        async with ScriptedUpstream(script) as up, visiting(tmp_path, up.base_url) as visitor:
            answer = await visitor.client.post(CHAT, json=BODY)
            assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
            words, told = read_events(answer.text)
            assert words.startswith("Look: ") and words.endswith("done") and answer.text.count("[DONE]") == 1
            kinds = [news["type"] for news in told]
            assert kinds[0] == "turn" and kinds.count("round") == 2
            call = [news for news in told if news["type"] in ("found", "started", "finished")]
            assert [news["type"] for news in call] == ["found", "started", "finished"]
            assert len({news["id"] for news in call}) == 1 and call[1]["where"].startswith("pid ")
            assert call[2]["outcome"] == "success" and call[2]["result"] == HOSTILE
            assert json.loads(call[2]["arguments"])["text"] == HOSTILE
            visitor.client.cookies.clear()
            assert (await visitor.client.post(CHAT, json=BODY)).status_code == 401

    run(main())


def test_two_chats_at_a_time_hear_only_of_their_own_calls_and_others_of_none(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Echo", ECHO)

    async def main() -> None:
        def answer(received: Any) -> Reply:
            last = received.json["messages"][-1]["content"]
            return say(call_text("Echo", text=last)) if last in ("one", "two") else say("done")

        async with ScriptedUpstream(answer) as up, visiting(tmp_path, up.base_url) as visitor:
            bodies = [{**BODY, "messages": [{"role": "user", "content": word}]} for word in ("one", "two")]
            answers = await asyncio.gather(*(visitor.client.post(CHAT, json=body) for body in bodies))
            for word, reply in zip(("one", "two"), answers, strict=True):
                results = [news["result"] for news in read_events(reply.text)[1] if news["type"] == "finished"]
                assert results == [word]
            outside = await visitor.server.stream("one")
            assert "event: vcp" not in outside.raw

    run(main())


def test_errors_of_the_route_come_as_they_are(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            for body, status in (({"model": "m"}, 400), ([], 400)):
                answer = await visitor.client.post(CHAT, json=body)
                assert answer.status_code == status and answer.json()["error"]["message"]
            answer = await visitor.client.get("/AdminPanel/playground/models")
            assert answer.status_code == 502 and answer.json()["models"] == [] and answer.json()["error"]

    run(main())


def test_a_browser_that_goes_away_stops_the_turn(tmp_path: Path) -> None:
    async def main() -> None:
        script = [Reply((Send(b'data: {"choices": []}\n\n'), Hold()))]
        async with ScriptedUpstream(script) as up, visiting(tmp_path, up.base_url) as visitor:
            async with visitor.client.stream("POST", CHAT, json=BODY) as answer:
                async for _ in answer.aiter_bytes():
                    break
                assert len(visitor.server.services.running) == 1
            await until(lambda: len(visitor.server.services.running) == 0)

    run(main())


def test_the_page_lists_agents_and_escapes_what_it_is_asked_with(tmp_path: Path) -> None:
    (tmp_path / "agent_map.json").write_text(json.dumps({"Nova": "Nova.txt", HOSTILE: "x.txt"}), encoding="utf-8")

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            page = await visitor.page(f"/playground?agent=Nova&model={HOSTILE}")
            assert "<option selected>Nova</option>" in page and "<img src=x" not in page
            assert "试聊" in await visitor.page("/playground", language="zh")
            html = (
                await visitor.client.post("/AdminPanel/playground/markdown", json={"texts": ["**b**", HOSTILE]})
            ).json()
            assert "<strong>b</strong>" in html["html"][0] and "<img" not in html["html"][1]
            for wrong in ({}, {"texts": [1]}, {"texts": ["x"] * 51}):
                answer = await visitor.client.post("/AdminPanel/playground/markdown", json=wrong)
                assert answer.status_code == 400

    run(main())


def test_results_are_shown_as_text_and_within_a_limit() -> None:
    assert shown_result(ToolResult(structured={"a": [1]})) == '{\n  "a": [\n    1\n  ]\n}'
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert shown_result(ToolResult(parts=({"type": "text", "text": "x"}, picture))) == "x\n[image_url]"
    assert shown_result(ToolResult(error_kind=ErrorKind.PLUGIN, message="broken")) == "broken"
    assert len(shown_result(ToolResult(structured="x" * (RESULT_CHARS + 9)))) == RESULT_CHARS + 1
