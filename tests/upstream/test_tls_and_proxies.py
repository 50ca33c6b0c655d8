"""TLS and proxies over real sockets. ``localhost.pem`` is a certificate for ``localhost`` that nobody signed."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path

import pytest

from app.errors import UpstreamConnectError
from tests.upstream.wire_server import CHUNKED, Naps, Peer, answer, ask, chunk, client_of, serving

CERTIFICATE = Path(__file__).with_name("localhost.pem")
DATA = b"data: 1\n\n"
STREAM = CHUNKED + chunk(DATA) + b"0\r\n\r\n"
KEY = "sk-secret-of-the-test"


def server_side() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(CERTIFICATE))


async def stream(peer: Peer) -> None:
    while await peer.request():
        await peer.send(STREAM)


def test_a_trusted_certificate_is_accepted() -> None:
    async def scene() -> None:
        async with serving(stream, server_side()) as server:
            url = server.url.replace("127.0.0.1", "localhost")
            async with client_of(url, tls=trusting()) as client:
                assert await ask(client) == DATA
                assert await ask(client) == DATA
            assert len(server.peers) == 1

    asyncio.run(scene())


@pytest.mark.parametrize(("host", "trusted"), [("localhost", False), ("127.0.0.1", True)], ids=["signer", "name"])
def test_a_bad_certificate_is_named_and_not_tried_again(host: str, trusted: bool) -> None:
    async def scene() -> None:
        naps = Naps()
        async with serving(stream, server_side()) as server:
            url = server.url.replace("127.0.0.1", host)
            async with client_of(url, naps=naps, tls=trusting() if trusted else None) as client:
                with pytest.raises(UpstreamConnectError, match="certificate") as caught:
                    await ask(client)
            assert url.removeprefix("https://") in caught.value.message
            assert "API_URL" in caught.value.message
            assert naps.waits == []
            assert server.requests == []

    asyncio.run(scene())


def test_https_to_a_plain_port_is_explained() -> None:
    async def scene() -> None:
        async def script(peer: Peer) -> None:
            await peer.reader.read(100)
            await peer.send(answer(400))

        async with (
            serving(script) as server,
            client_of(server.url.replace("http:", "https:")) as client,
        ):
            with pytest.raises(UpstreamConnectError, match="https://"):
                await ask(client)

    asyncio.run(scene())


def test_cancelling_drops_a_tls_connection() -> None:
    async def scene() -> None:
        asked, left = asyncio.Event(), asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            asked.set()
            await peer.closed_by_client()
            left.set()

        async with serving(script, server_side()) as server:
            url = server.url.replace("127.0.0.1", "localhost")
            async with client_of(url, tls=trusting()) as client:
                asking = asyncio.create_task(ask(client))
                await asked.wait()
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
                await left.wait()

    asyncio.run(scene())


@pytest.mark.parametrize("how", ["setting", "variable"])
def test_a_plain_request_goes_through_the_proxy_in_absolute_form(how: str) -> None:
    async def scene() -> None:
        async with serving(stream) as proxy:
            address = proxy.url.replace("//", "//user:p%40ss@")
            where = {"proxy": address} if how == "setting" else {"environment": {"http_proxy": address}}
            async with client_of("http://upstream.example/api", **where) as client:
                assert await ask(client) == DATA
                assert await ask(client) == DATA
            first, second = proxy.requests
            assert first.line == "POST http://upstream.example/api/v1/chat/completions HTTP/1.1"
            assert first.header("Host") == "upstream.example"
            for request in (first, second):
                assert request.header("Authorization") == f"Bearer {KEY}"
                assert request.header("Proxy-Authorization") == "Basic " + base64.b64encode(b"user:p@ss").decode()
            assert len(proxy.peers) == 1

    asyncio.run(scene())


def test_the_setting_beats_the_variable_and_holds_for_loopback_too() -> None:
    async def scene() -> None:
        async with serving(stream) as chosen, serving(stream) as other:
            environment = {"http_proxy": other.url, "no_proxy": "*"}
            async with client_of("http://127.0.0.1:9", proxy=chosen.url, environment=environment) as client:
                assert await ask(client) == DATA
            assert (len(chosen.requests), len(other.requests)) == (1, 0)

    asyncio.run(scene())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_loopback_upstream_is_reached_without_the_proxy_of_the_environment(host: str) -> None:
    async def scene() -> None:
        async with serving(stream) as server, serving(stream) as proxy:
            url = server.url.replace("127.0.0.1", host)
            async with client_of(url, environment={"http_proxy": proxy.url, "ALL_PROXY": proxy.url}) as client:
                assert await ask(client) == DATA
            assert (len(server.requests), len(proxy.requests)) == (1, 0)

    asyncio.run(scene())


def test_a_secure_request_goes_through_a_tunnel_that_does_not_see_the_key() -> None:
    async def scene() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await peer.writer.start_tls(server_side())
            await peer.request()
            await peer.send(STREAM)
            await peer.closed_by_client()

        async with (
            serving(script) as proxy,
            client_of("https://localhost/api", proxy=proxy.url.replace("//", "//u:pw@"), tls=trusting()) as client,
        ):
            assert await ask(client) == DATA
            tunnel, inner = proxy.requests
            assert tunnel.line == "CONNECT localhost:443 HTTP/1.1"
            assert tunnel.header("Proxy-Authorization") == "Basic " + base64.b64encode(b"u:pw").decode()
            assert tunnel.header("Authorization") is None
            assert inner.line == "POST /api/v1/chat/completions HTTP/1.1"
            assert inner.header("Authorization") == f"Bearer {KEY}"
            assert inner.header("Proxy-Authorization") is None

    asyncio.run(scene())


@pytest.mark.parametrize(("status", "attempts"), [(407, 1), (403, 1), (502, 3)])
def test_a_proxy_that_refuses_the_tunnel_is_named_with_its_status(status: int, attempts: int) -> None:
    async def scene() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(answer(status))
            await peer.closed_by_client()

        async with (
            serving(script) as proxy,
            client_of("https://upstream.example", proxy=proxy.url.replace("//", "//u:secret@")) as client,
        ):
            with pytest.raises(UpstreamConnectError) as caught:
                await ask(client)
            for word in (str(status), proxy.url.removeprefix("http://"), "upstream.example", "UpstreamProxy"):
                assert word in caught.value.message
            assert "secret" not in caught.value.message
            assert len(proxy.peers) == attempts

    asyncio.run(scene())


def test_a_proxy_that_cannot_be_reached_is_named() -> None:
    async def scene() -> None:
        async with serving(stream) as proxy:
            gone = proxy.url
        async with client_of("http://upstream.example", proxy=gone.replace("//", "//u:secret@")) as client:
            with pytest.raises(UpstreamConnectError) as caught:
                await ask(client)
        assert gone.removeprefix("http://") in caught.value.message
        assert "secret" not in caught.value.message

    asyncio.run(scene())


def test_a_proxy_of_a_kind_that_cannot_be_used_is_an_upstream_error() -> None:
    async def scene() -> None:
        async with client_of("http://upstream.example", environment={"all_proxy": "socks5://s:1"}) as client:
            with pytest.raises(UpstreamConnectError, match="all_proxy"):
                await ask(client)

    asyncio.run(scene())


def test_passwords_of_a_netrc_file_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))

    async def scene() -> None:
        async with serving(stream) as server, client_of(server.url, key="") as client:
            await ask(client)
            assert server.requests[0].header("Authorization") is None

    asyncio.run(scene())
