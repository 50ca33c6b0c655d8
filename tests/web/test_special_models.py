"""Models that whitelists name, and embeddings (spec 1.6; R2, R3, B1, B12, D26)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import Close, Hold, Reply, Send, json_reply, no_answer, raw_reply, say
from app.demo.scripted import ScriptedUpstream
from tests.server import chat_body, run, running
from tests.web.asgi import BEARER, KEY, app_in, ask

LISTS = ["WhitelistImageModel= draw-1 ,draw-2", "WhitelistEmbeddingModel=embed-1, embed-2"]
CHAT, VCP, EMBED = "/v1/chat/completions", "/v1/chatvcp/completions", "/v1/embeddings"


@pytest.mark.parametrize(
    ("path", "model"), [(CHAT, "draw-1"), (CHAT, "embed-1"), (EMBED, "embed-1"), (EMBED, "draw-1")]
)
def test_b1_nothing_is_read_or_sent_without_the_key(tmp_path: Path, path: str, model: str) -> None:
    app = app_in(tmp_path, *LISTS)
    body = json.dumps({"model": model, "messages": []}).encode()
    answer = asyncio.run(ask(app, "POST", path, blocks=[body]))
    assert (answer.status, answer.reads) == (401, 0)
    assert answer.json["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    ("path", "model", "literal"),
    [
        pytest.param(CHAT, "embed-2", "模型不匹配图像模型白名单", id="R3"),
        pytest.param(EMBED, "draw-2", "模型不匹配向量化模型白名单", id="the other way round"),
    ],
)
def test_a_model_of_the_other_list_is_400_with_the_literal(tmp_path: Path, path: str, model: str, literal: str) -> None:
    app = app_in(tmp_path, *LISTS)
    answer = asyncio.run(ask(app, "POST", path, BEARER, blocks=[json.dumps(chat_body("x", model=model)).encode()]))
    assert answer.status == 400
    assert literal in answer.json["error"]["message"]
    assert answer.json["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("model", ['"other"', '"Embed-1"', '" embed-1"', "null", "7", '["embed-1"]', '""'])
def test_r2_embeddings_of_a_model_outside_the_list_are_404(tmp_path: Path, model: str) -> None:
    body = b'{"input":"x","model":%b}' % model.encode()
    answer = asyncio.run(ask(app_in(tmp_path, *LISTS), "POST", EMBED, BEARER, blocks=[body]))
    assert (answer.status, answer.json["error"]["code"]) == (404, "not_found")
    assert "WhitelistEmbeddingModel" in answer.json["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000])
def test_embeddings_of_something_else_than_a_json_object_are_400(tmp_path: Path, body: bytes) -> None:
    answer = asyncio.run(ask(app_in(tmp_path), "POST", EMBED, BEARER, blocks=[body]))
    assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")


def test_an_image_model_is_asked_for_pictures_without_prompt_and_tools(tmp_path: Path) -> None:
    (tmp_path / "ModelRedirect.json").write_text('{"draw-1": "elsewhere"}', encoding="utf-8")
    picture = {"candidates": [{"content": {"parts": [{"inlineData": "…"}]}}], "usageMetadata": {"n": 1}}
    replies = [json_reply(picture), json_reply({"choices": []}, 202), json_reply({"error": {"message": "no"}}, 429)]
    given = {"temperature": 2, "responseMimeType": "image/png"}

    async def main() -> None:
        async with ScriptedUpstream(replies) as up, running(tmp_path, up.base_url, config=LISTS) as server:
            system = {"role": "system", "content": "{{Date}} <<<[TOOL_REQUEST]>>>"}
            first = await server.chat(system, model="draw-1", generationConfig=given, foo=[2**70])
            assert first.json() == picture["candidates"]
            second = await server.client.post("/V1/Chat/Completions/", json={"model": "draw-2", "messages": "odd"})
            assert (second.status_code, second.json()) == (202, {"choices": []})
            third = await server.chat("x", model="draw-2", generationConfig="odd")
            assert (third.status_code, third.json()) == (429, {"error": {"message": "no"}})
            merged = {"responseModalities": ["TEXT", "IMAGE"], "responseMimeType": "text/plain"}
            assert [body["generationConfig"] for body in up.bodies] == [{**given, **merged}, merged, merged]
            sent = up.bodies[0]
            assert (sent["model"], sent["messages"], sent["foo"]) == ("draw-1", [system], [2**70])
            assert {request.path for request in up.requests} == {"/v1/chat/completions"}
            assert up.requests[0].headers["authorization"] == "Bearer upstream-key"
            assert not server.events  # no turn

    run(main())


def test_other_paths_and_other_models_go_the_usual_way(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream([say("a"), say("b")]) as up,
            running(tmp_path, up.base_url, config=LISTS) as server,
        ):
            assert (await server.chat("x", path=VCP, model="draw-1")).json()["choices"]
            assert (await server.chat("x", model="DRAW-1")).json()["choices"]
            assert not any("generationConfig" in body for body in up.bodies)

    run(main())


def test_embeddings_of_a_listed_model_are_forwarded_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "ModelRedirect.json").write_text('{"embed-1": "elsewhere"}', encoding="utf-8")
    body = b'{"model" : "embed-1", "input":["\\u4f60", 1.50], "foo": 123456789012345678901234567890}'
    vectors = {"data": [{"embedding": [0.1, -2e-8]}], "model": "embed-1", "usage": {"total_tokens": 2}}

    async def main() -> None:
        replies = [json_reply(vectors), json_reply({"error": "quota"}, 429)]
        async with ScriptedUpstream(replies) as up, running(tmp_path, up.base_url, config=LISTS) as server:
            headers = {"Content-Type": "text/plain", "Cookie": "a=b", "User-Agent": "mine"}
            first = await server.client.post("/Embeddings", content=body, headers=headers)
            assert (first.status_code, first.json()) == (200, vectors)
            second = await server.client.post(EMBED, content=body)
            assert (second.status_code, second.json()) == (429, {"error": "quota"})
            request = up.requests[0]
            assert (request.method, request.path, request.body) == ("POST", EMBED, body)
            assert (request.headers["content-type"], request.headers["user-agent"]) == ("application/json", "mine")
            assert "cookie" not in request.headers

    run(main())


def test_without_a_whitelist_every_model_makes_embeddings_under_its_public_name_too(tmp_path: Path) -> None:
    (tmp_path / "ModelRedirect.json").write_text('{"public": "internal"}', encoding="utf-8")

    async def main() -> None:
        async with (
            ScriptedUpstream([json_reply({"data": []})] * 2) as up,
            running(tmp_path, up.base_url) as server,
        ):
            for model in ("public", "any"):
                assert (await server.client.post(EMBED, json={"model": model, "input": "x"})).status_code == 200
            assert [body["model"] for body in up.bodies] == ["internal", "any"]

    run(main())


FAULTS = [
    pytest.param(raw_reply(b"<html>", 502, "text/html"), id="no JSON"),
    pytest.param(raw_reply(b"", 200, "application/json"), id="nothing"),
    pytest.param(no_answer(Close()), id="hangs up"),
    pytest.param(Reply((Send(b'{"a":'), Close()), headers=(), length=100), id="breaks off"),
    pytest.param(Reply((), 302, (("location", "http://10.0.0.7/secret"),)), id="redirect"),
]


@pytest.mark.parametrize("reply", FAULTS)
@pytest.mark.parametrize(
    ("path", "model", "literal"),
    [
        (CHAT, "draw-1", "Internal Server Error during image model proxy"),
        (EMBED, "embed-1", "Internal Server Error during embedding model proxy"),
    ],
)
def test_d26_a_failure_is_500_with_the_literal_in_an_openai_error(
    tmp_path: Path, path: str, model: str, literal: str, reply: Any
) -> None:
    async def main() -> None:
        async with ScriptedUpstream(lambda _: reply) as up, running(tmp_path, up.base_url, config=LISTS) as server:
            answer = await server.client.post(path, json=chat_body("x", model=model, input="x"))
            assert answer.status_code == 500
            error = answer.json()["error"]
            assert error["message"].startswith(f"{literal}: ")
            assert (error["type"], error["code"]) == ("server_error", "model_proxy_failed")
            assert "secret" not in answer.text and "10.0.0.7/" not in answer.text

    run(main())


@pytest.mark.parametrize(("path", "model"), [(CHAT, "draw-1"), (EMBED, "embed-1"), (EMBED, "other")])
def test_a_client_that_hangs_up_ends_the_upstream_request(tmp_path: Path, path: str, model: str) -> None:
    config = LISTS if model != "other" else []

    async def main() -> None:
        async with (
            ScriptedUpstream([Reply((Hold(),))]) as up,
            running(tmp_path, up.base_url, config=config) as server,
        ):
            body = chat_body("x", model=model, input="x")
            asking = asyncio.create_task(server.client.post(path, json=body))
            await up.held()
            asking.cancel()
            await up.gone()

    run(main())


@pytest.mark.parametrize("path", [EMBED, "/v1/moderations", "/v1/audio/speech"])
def test_a_client_that_hangs_up_in_its_body_is_no_fault_of_ours(
    tmp_path: Path, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9") as server:
            host, port = server.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            kind = "audio/wav" if "audio" in path else "application/json"
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: 1000\r\n"
            writer.write(head.encode() + b"Authorization: Bearer " + KEY.encode() + b"\r\n\r\n" + b"{")
            await writer.drain()
            writer.close()
            await reader.read()
            assert (await server.client.get("/healthz")).text == "ok"

    run(main())
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_b12_the_body_of_embeddings_is_limited(tmp_path: Path) -> None:
    app = app_in(tmp_path, "ToolBodyLimitMB=1")
    answer = asyncio.run(ask(app, "POST", EMBED, BEARER, blocks=[b" " * 2**20, b" "]))
    assert (answer.status, answer.json["error"]["code"]) == (413, "body_too_large")


def test_a_picture_that_is_asked_for_as_a_stream_comes_as_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream([say("data").streamed()]) as up,
            running(tmp_path, up.base_url, config=LISTS) as server,
        ):
            assert (await server.stream("x", model="draw-1")).text == "data"

    run(main())
