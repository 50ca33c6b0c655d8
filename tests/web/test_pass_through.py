"""Routes of the model API that are passed through by an allow-list, after the key was seen to be right (B1, B12)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.config.setting_kinds import PASSED_THROUGH
from app.config.settings import read
from app.demo.script import Close, Framing, Hold, Reply, Send, json_reply, no_answer, raw_reply
from app.demo.scripted import ScriptedUpstream
from app.extend import Reloaded
from app.web.pass_through import HELD_BYTES
from tests.server import run, running
from tests.waiting import until
from tests.web.asgi import BEARER, app_in, ask

MB = 2**20


@pytest.mark.parametrize("entry", PASSED_THROUGH)
def test_b1_each_needs_the_key_and_reads_nothing_before(tmp_path: Path, entry: str) -> None:
    method, _, path = entry.partition(" ")
    answer = asyncio.run(ask(app_in(tmp_path), method, f"/v1/{path}", blocks=[b"x"]))
    assert (answer.status, answer.reads) == (401, 0)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/files", 404),
        ("GET", "/v1/audio/speech", 405),
        ("DELETE", "/v1/models/gpt", 405),
        ("POST", "/v1/images/generations/x", 404),
        ("GET", "/v1/models/../files", 404),
        ("GET", "/v1/models/a/../../files", 404),
        ("GET", "/v1/models/./x", 404),
        ("GET", "/v1/models/..;/files", 404),
        ("GET", "/v1/models/a/..;b=c/..%3B/files", 404),
        ("GET", "/v1/models/..%5Cfiles", 404),
        ("GET", "/v1/models/%2e%2e/files", 404),
        ("GET", "/v1/fine_tuning/jobs", 404),
    ],
)
def test_nothing_else_reaches_the_upstream(tmp_path: Path, method: str, path: str, status: int) -> None:
    answer = asyncio.run(ask(app_in(tmp_path), method, path, BEARER))
    assert answer.status == status
    assert answer.json["error"]


def test_a_json_request_goes_out_as_it_came_but_for_the_name_of_its_model(tmp_path: Path) -> None:
    (tmp_path / "ModelRedirect.json").write_text('{"nice": "vendor/nice"}', encoding="utf-8")
    same = b'{ "model":"other", "prompt" : "\\u4f60", "seed": 123456789012345678901234567890 }'

    async def main() -> None:
        replies = [json_reply({"data": [1]}, 201, [("X-Request-Id", "7"), ("Set-Cookie", "a=b")])] * 3
        async with ScriptedUpstream(replies) as up, running(tmp_path, up.base_url) as server:
            sent = {
                "Content-Type": "application/json",
                "User-Agent": "mine",
                "Cookie": "c=d",
                "X-Forwarded-For": "1.1.1.1",
            }
            for path in ("/v1/images/generations?a=1&b=%26+c", "/V1/Images/Generations/"):
                answer = await server.client.post(path, content=same, headers=sent)
                assert (answer.status_code, answer.json()) == (201, {"data": [1]})
                assert answer.headers["x-request-id"] == "7"
                assert "set-cookie" not in answer.headers
            await server.client.post("/images/generations", json={"model": "nice", "n": 2})
            first, second, third = up.requests
            assert (first.path, second.path) == ("/v1/images/generations?a=1&b=%26+c", "/v1/images/generations")
            assert first.body == second.body == same
            assert third.json == {"model": "vendor/nice", "n": 2}
            assert first.headers["authorization"] == "Bearer upstream-key"
            assert first.headers["user-agent"] == "mine"
            assert not {"cookie", "x-forwarded-for"} & set(first.headers)

    run(main())


@pytest.mark.parametrize("body", [b"{cut", b"[]", b"\xff\xfe", b'{"model":7}', b""])
def test_json_that_says_no_model_is_for_the_upstream_to_judge(tmp_path: Path, body: bytes) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream([json_reply({"error": "bad"}, 400)]) as up,
            running(tmp_path, up.base_url) as server,
        ):
            headers = {"Content-Type": "application/json"}
            answer = await server.client.post("/v1/moderations", content=body, headers=headers)
            assert (answer.status_code, up.requests[0].body) == (400, body)

    run(main())


def test_one_model_is_asked_for_under_its_internal_name(tmp_path: Path) -> None:
    (tmp_path / "ModelRedirect.json").write_text('{"nice": "vendor/ü 2"}', encoding="utf-8")

    async def main() -> None:
        async with ScriptedUpstream([json_reply({"id": "x"})] * 2) as up, running(tmp_path, up.base_url) as server:
            for name in ("nice", "Org/Model-1"):
                assert (await server.client.get(f"/v1/models/{name}")).json() == {"id": "x"}
            assert [request.path for request in up.requests] == [
                "/v1/models/vendor/%C3%BC%202",
                "/v1/models/Org/Model-1",
            ]

    run(main())


def test_one_model_answers_to_the_name_under_which_it_is_listed(tmp_path: Path) -> None:
    (tmp_path / "ModelRedirect.json").write_text('{"nice": "inner"}', encoding="utf-8")
    said = {"id": "inner", "object": "model", "owned_by": "x"}

    async def main() -> None:
        replies = [json_reply(said), json_reply({**said, "id": "other"}), json_reply(said, 404), json_reply(said)]
        async with ScriptedUpstream(replies) as up, running(tmp_path, up.base_url) as server:
            answers = [await server.client.get(f"/v1/models/{name}") for name in ("nice", "nice", "nice", "inner")]
            assert [(answer.status_code, answer.json()["id"]) for answer in answers] == [
                (200, "nice"),
                (200, "other"),
                (404, "inner"),
                (200, "inner"),
            ]
            assert answers[0].json() == {**said, "id": "nice"}

    run(main())


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/moderations"), ("POST", "/v1/embeddings"), ("GET", "/v1/models/m"), ("GET", "/v1/models")],
)
def test_an_error_that_quotes_our_key_does_not_hand_it_to_a_client(tmp_path: Path, method: str, path: str) -> None:
    refused = {"error": {"message": "wrong key upstream-key", "code": "invalid_api_key"}}

    async def main() -> None:
        async with ScriptedUpstream([json_reply(refused, 401)]) as up, running(tmp_path, up.base_url) as server:
            answer = await server.client.request(method, path, json={"model": "m"} if method == "POST" else None)
            assert answer.status_code == 401
            assert answer.json() == {"error": {"message": "wrong key ***", "code": "invalid_api_key"}}
            assert [status.running for status in server.services.upstream.status()] == [0]

    run(main())


class SlowUpstream:
    """Tells how much of a request has come while the rest is still missing, and then answers in two halves."""

    def __init__(self) -> None:
        self.head = b""
        self.body = bytearray()
        self.gone = asyncio.Event()
        self.go_on = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.head = await reader.readuntil(b"\r\n\r\n")
        length = int(self.head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        try:
            while len(self.body) < length and (block := await reader.read(65536)):
                self.body += block
            if len(self.body) == length:
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n"
                )
                await writer.drain()
                await self.go_on.wait()
                writer.write(b"6\r\nsecond\r\n0\r\n\r\n")
                await writer.drain()
        finally:
            self.gone.set()
            writer.close()


@asynccontextmanager
async def slow_upstream() -> AsyncIterator[SlowUpstream]:
    upstream = SlowUpstream()
    async with await asyncio.start_server(upstream.serve, "127.0.0.1", 0) as server:
        upstream.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield upstream


def test_uploads_and_answers_pass_while_they_come(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    total = 3 * MB

    async def upload() -> AsyncIterator[bytes]:
        for _ in range(2):
            yield b"x" * MB
        await go_on.wait()
        yield b"y" * MB

    async def main() -> None:
        async with slow_upstream() as up, running(tmp_path, up.url) as server:
            headers = {"Content-Type": "multipart/form-data; boundary=b", "Content-Length": str(total)}
            request = server.client.build_request("POST", "/v1/audio/transcriptions", content=upload(), headers=headers)
            sending = asyncio.create_task(server.client.send(request, stream=True))
            await until(lambda: len(up.body) >= MB)
            assert not sending.done()
            go_on.set()
            answer = await sending
            assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/mpeg")
            blocks = answer.aiter_raw()
            assert await anext(blocks) == b"first"
            up.go_on.set()
            assert b"".join([block async for block in blocks]) == b"second"
            assert bytes(up.body) == b"x" * 2 * MB + b"y" * MB
            assert b"multipart/form-data; boundary=b" in up.head

    run(main())


def test_a_client_that_hangs_up_in_its_upload_ends_the_request_upstream(tmp_path: Path) -> None:
    async def upload() -> AsyncIterator[bytes]:
        yield b"x" * MB
        await asyncio.Event().wait()

    async def main() -> None:
        async with slow_upstream() as up, running(tmp_path, up.url) as server:
            headers = {"Content-Type": "audio/wav", "Content-Length": str(2 * MB)}
            sending = asyncio.create_task(
                server.client.post("/v1/audio/translations", content=upload(), headers=headers)
            )
            await until(lambda: len(up.body) >= HELD_BYTES)
            sending.cancel()
            await up.gone.wait()
            assert len(up.body) < 2 * MB

    run(main())


@pytest.mark.parametrize("kind", ["application/json", "audio/wav"])
def test_a_client_that_hangs_up_ends_the_upstreams_work(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        held = Reply((Send(b"begun"), Hold("more")), headers=(("content-type", "audio/mpeg"),))
        async with ScriptedUpstream([Reply((Hold(),)), held]) as up, running(tmp_path, up.base_url) as server:
            for number, gate in enumerate(("go", "more"), 1):
                headers = {"Content-Type": kind}
                asking = asyncio.create_task(server.client.post("/v1/audio/speech", content=b"{}", headers=headers))
                await up.held(gate)
                asking.cancel()
                await up.gone(number)

    run(main())


def test_b12_uploads_are_limited_whether_their_size_is_told_or_not(tmp_path: Path) -> None:
    async def upload() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * MB

    async def main() -> None:
        async with slow_upstream() as up, running(tmp_path, up.url, config=["PassThroughBodyLimitMB=1"]) as server:
            told = await server.client.post("/v1/audio/speech", content=b"x" * (MB + 1))
            assert told.status_code == 413
            json_told = await server.client.post("/v1/moderations", json={"input": "x" * MB})
            assert json_told.status_code == 413
        async with (
            ScriptedUpstream(lambda _: json_reply({})) as up2,
            running(tmp_path, up2.base_url, config=["PassThroughBodyLimitMB=1"]) as server,
        ):
            answer = await server.client.post("/v1/audio/speech", content=upload())
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
            assert not up2.exchanges

    run(main())


def test_a_compressed_upload_is_refused(tmp_path: Path) -> None:
    answer = asyncio.run(ask(app_in(tmp_path), "POST", "/v1/audio/speech", BEARER, ("content-encoding", "gzip")))
    assert answer.status == 415


@pytest.mark.parametrize("fault", [no_answer(Close()), Reply((), 307, (("location", "http://10.0.0.7/"),))])
def test_a_fault_before_the_answer_is_an_error_of_ours(tmp_path: Path, fault: Reply) -> None:
    async def main() -> None:
        async with ScriptedUpstream(lambda _: fault) as up, running(tmp_path, up.base_url) as server:
            answer = await server.client.post("/v1/images/generations", json={"model": "m"})
            assert (answer.status_code, answer.json()["error"]["type"]) == (502, "server_error")
            assert "location" not in answer.headers

    run(main())


def test_a_fault_in_mid_answer_breaks_the_answer_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reply = Reply((Send(b"half"), Close()), headers=(), framing=Framing.CHUNKED)

    async def main() -> None:
        async with ScriptedUpstream([reply]) as up, running(tmp_path, up.base_url) as server:
            with pytest.raises(Exception, match=r"incomplete|peer closed"):
                await server.client.post("/v1/audio/speech", json={})
            assert (await server.client.get("/healthz")).text == "ok"

    with caplog.at_level(logging.WARNING, "app"):
        run(main())
    assert "POST /v1/audio/speech broke off: upstream_broken" in caplog.text


def test_the_allow_list_is_a_setting_that_counts_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        config = ["PassThroughRoutes=DELETE files/*, get /v1/files，completions, chat/completions"]
        async with (
            ScriptedUpstream(lambda request: json_reply([request.method, request.path])) as up,
            running(tmp_path, up.base_url, config=config) as server,
        ):
            client = server.client
            assert (await client.delete("/v1/files/F-1")).json() == ["DELETE", "/v1/files/F-1"]
            assert (await client.get("/v1/files")).json() == ["GET", "/v1/files"]
            assert (await client.post("/v1/completions", json={})).json() == ["POST", "/v1/completions"]
            assert (await client.get("/v1/files/F-1")).status_code == 405
            assert (await client.post("/v1/chat/completions", json={})).status_code == 400  # still our own
            assert (await client.post("/v1/moderations", json={})).status_code == 404
            settings, _ = read({"PassThroughRoutes": "moderations"})
            server.services.in_force.config = _with(server.services.config, settings)
            server.services.events.publish(Reloaded(("settings",)))
            assert (await client.post("/v1/moderations", json={})).json() == ["POST", "/v1/moderations"]
            assert (await client.get("/v1/files")).status_code == 404

    run(main())


def _with(config: Any, settings: Any) -> Any:
    from dataclasses import replace

    return replace(config, settings=settings)


@pytest.mark.parametrize("value", ["images/{x}", "../x", "TRACE x", "a//b", "*", "a/*/b", "a b", "http://x/y", "?"])
def test_an_entry_that_is_no_route_is_told_and_the_default_counts(value: str) -> None:
    settings, complaints = read({"PassThroughRoutes": value})
    assert settings.pass_through_routes == PASSED_THROUGH
    assert [complaint.key for complaint in complaints] == ["PassThroughRoutes"]


def test_answers_are_whole_and_bytes_are_bytes(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4000

    async def main() -> None:
        async with (
            ScriptedUpstream([raw_reply(data, 200, "audio/mpeg", 1000)]) as up,
            running(tmp_path, up.base_url) as server,
        ):
            answer = await server.client.post("/v1/audio/speech", content=json.dumps({"input": "x"}))
            assert answer.content == data

    run(main())
