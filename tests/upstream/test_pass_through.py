"""Requests that are passed through: the list of models, embeddings (spec 1.5, 1.6, P32, P34)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from app import __version__
from app.errors import UpstreamConnectError
from tests.upstream.wire_server import Naps, OneTarget, Peer, answer, client_of, serving

KEY = "sk-secret-of-the-test"


def always(data: bytes) -> Callable[[Peer], Awaitable[None]]:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(data)

    return script


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b'{"object":"list","data":[]}', "application/json"),
        (200, b"[]", "application/json"),
        (200, b'{"models":[]}', "application/json"),
        (404, b"<html>no</html>", "text/html"),
        (429, b"later", "text/plain"),
        (500, b"", "text/plain"),
        (307, b"", "text/plain"),
    ],
)
def test_the_list_of_models_is_passed_on_whatever_it_is(status: int, body: bytes, kind: str) -> None:
    async def scene() -> None:
        script = always(answer(status, body, "Location: /elsewhere", kind=kind))
        async with (
            serving(script) as server,
            client_of(server.url) as client,
            await client.models(user_agent="Client/1", accept="*/*") as reply,
        ):
            assert (reply.status, await reply.read_all(1000), reply.content_type) == (status, body, kind)
            (request,) = server.requests
            assert request.line == "GET /v1/models HTTP/1.1"
            sent = {name.lower(): value for name, value in request.headers}
            assert sent.pop("accept-encoding").startswith("gzip")
            assert sent == {
                "host": server.url.removeprefix("http://"),
                "authorization": f"Bearer {KEY}",
                "user-agent": "Client/1",
                "accept": "*/*",
            }

    asyncio.run(scene())


def test_a_list_of_models_without_headers_of_a_client_has_ours() -> None:
    async def scene() -> None:
        async with serving(always(answer(200))) as server, client_of(server.url) as client:
            async with await client.models() as reply:
                await reply.read_all(1000)
            assert server.requests[0].header("User-Agent") == f"vcp-server/{__version__}"
            assert server.requests[0].header("Accept") == "application/json"

    asyncio.run(scene())


def test_a_body_is_sent_as_it_is_and_the_client_cannot_set_what_is_ours() -> None:
    async def scene() -> None:
        async with serving(always(answer(200))) as server, client_of(server.url) as client:
            headers = {
                "authorization": "Bearer of-the-client",
                "HOST": "evil.example",
                "cookie": "a=b",
                "Connection": "close",
                "content-length": "1",
                "transfer-encoding": "chunked",
                "x-own": "1",
            }
            body = b'{"model":"e","input":["\xe6\xb1\x89"]}'
            reply = await client.request("POST", "/v1/embeddings", body=body, headers=headers, model="e")
            await reply.read_all(100)
            await reply.close()
            (request,) = server.requests
            assert request.line == "POST /v1/embeddings HTTP/1.1"
            assert request.body == body
            assert request.header("Authorization") == f"Bearer {KEY}"
            assert request.header("Host") == server.url.removeprefix("http://")
            assert request.header("Content-Type") == "application/json"
            assert request.header("X-Own") == "1"
            assert request.header("Cookie") is None
            assert request.header("Connection") is None

    asyncio.run(scene())


def test_the_model_chooses_the_target() -> None:
    async def scene() -> None:
        async with serving(always(answer(200))) as server, client_of(server.url) as client:
            resolver = client._resolver
            assert isinstance(resolver, OneTarget)
            async with await client.chat(b"{}", model="chat-model", stream=False) as reply:
                await reply.read_all(100)
            async with await client.request("POST", "/v1/rerank", body=b"{}", headers={}, model="rank") as reply:
                await reply.read_all(100)
            assert resolver.asked == ["chat-model", "rank"]

    asyncio.run(scene())


def test_a_passed_request_is_repeated_after_network_faults_only() -> None:
    async def scene() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            if peer.number == 3:
                await peer.send(answer(503))
                await peer.closed_by_client()

        naps = Naps()
        async with serving(script) as server, client_of(server.url, naps=naps) as client:
            async with await client.request("POST", "/v1/embeddings", body=b"{}", headers={}) as reply:
                assert reply.status == 503
            assert naps.waits == [0.1, 0.2]
            assert len(server.peers) == 3

    asyncio.run(scene())


def test_no_upstream_is_a_clear_error() -> None:
    async def scene() -> None:
        async with serving(always(b"")) as server:
            gone = server.url
        async with client_of(gone) as client:
            with pytest.raises(UpstreamConnectError, match="cannot be reached"):
                await client.models()

    asyncio.run(scene())


def test_a_cookie_of_one_answer_is_not_sent_with_the_next_request() -> None:
    async def scene() -> None:
        async with serving(always(answer(200, b"{}", "Set-Cookie: a=b"))) as server, client_of(server.url) as client:
            for _ in range(2):
                async with await client.models() as reply:
                    await reply.read_all(100)
            assert server.requests[1].header("Cookie") is None

    asyncio.run(scene())
