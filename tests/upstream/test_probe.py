"""The question of the set-up assistant to a model API: what is wrong is told in both languages, and never the key."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from app.demo.upstream import create_demo
from app.upstream.probe import MAX_ANSWER_BYTES, ProbeError, probe
from app.web.server import serve
from tests.server import run
from tests.upstream.test_tls_and_proxies import server_side
from tests.upstream.wire_server import Peer, Script, Server, serving

SECRET = "sk-very-secret-0123456789"


def answering(status: int, body: bytes = b"", *headers: str) -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.answer(status, body, *headers, "Connection: close")

    return script


async def ended(server: Server) -> None:
    """All connections of the server are closed, also those with bytes that nobody will take."""
    for peer in server.peers:
        peer.writer.transport.abort()
        with contextlib.suppress(OSError):
            await peer.writer.wait_closed()


def failing(script: Script, scheme: str = "http", seconds: float = 10) -> ProbeError:
    async def main() -> ProbeError:
        async with serving(script) as server:
            with pytest.raises(ProbeError) as failed:
                await probe(server.url.replace("http", scheme, 1), SECRET, seconds=seconds)
            await ended(server)
            return failed.value

    error = asyncio.run(main())
    assert SECRET not in error.message
    assert error.chinese
    assert error.english.isascii()
    return error


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/chat/completions"])
def test_the_models_of_an_api_are_listed_whatever_part_of_its_address_was_given(path: str) -> None:
    async def test() -> None:
        async with serve(create_demo()) as address:
            assert "vcp-demo" in await probe(address + path, "demo")

    run(test())


@pytest.mark.parametrize("key", [SECRET, "ключ-密钥", ""])
def test_the_key_goes_along_and_none_where_there_is_none(key: str) -> None:
    async def main() -> None:
        async with serving(answering(200, b'{"data":[{"id":"a"},{"id":"b"},{"id":"a"}]}')) as server:
            assert await probe(server.url, key) == ["a", "b"]
            (request,) = server.requests
            sent = request.header("Authorization")
            assert sent == (f"Bearer {key}".encode().decode("latin-1") if key else None)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("status", "headers", "body", "words"),
    [
        (401, (), b"{}", "the key is refused (status 401)"),
        (403, (), b"", "the key is refused (status 403)"),
        (404, (), b"", "no /v1/models"),
        (500, (), SECRET.encode(), "status 500"),
        (302, ("Location: https://elsewhere.example/x?key=1",), b"", "redirects to elsewhere.example"),
        (200, (), b"<html>hello</html>", "no list of models"),
        (200, (), b'{"data": []}', "no list of models"),
    ],
)
def test_answers_that_are_no_list_of_models_are_told_apart(
    status: int, headers: tuple[str, ...], body: bytes, words: str
) -> None:
    assert words in failing(answering(status, body, *headers)).english


def test_an_answer_without_end_is_given_up() -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        try:
            for _ in range(2 * MAX_ANSWER_BYTES // 65_536):
                await peer.send(b"x" * 65_536)
        except ConnectionError:
            return

    assert "too long" in failing(endless).english


def test_a_service_that_says_nothing_is_given_up() -> None:
    async def silent(peer: Peer) -> None:
        await peer.closed_by_client()

    assert "no answer within 0.2 s" in failing(silent, seconds=0.2).english


def test_https_at_a_port_without_tls_says_what_to_change() -> None:
    async def plain(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    assert "http://" in failing(plain, scheme="https").english


def test_a_service_that_does_not_speak_http_may_want_https() -> None:
    async def odd(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"\x15\x03\x01\x00\x02\x02\x46")

    assert "https://" in failing(odd).english


def test_a_certificate_that_nobody_signed_is_told_as_such() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()

    async def main() -> None:
        async with serving(script, tls=server_side()) as server:
            with pytest.raises(ProbeError, match="certificate"):
                await probe(server.url.replace("127.0.0.1", "localhost"), SECRET)
            await ended(server)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("", "is empty"),
        ("api.example.com", "does not begin with http"),
        ("ftp://x", "begins with ftp"),
        ("https://user:pass@x", "name or password"),
        ("http://127.0.0.1:9", "no connection"),
        ("http://no-such-host.invalid", "not found"),
    ],
)
def test_addresses_that_lead_nowhere_are_told_apart(address: str, words: str) -> None:
    with pytest.raises(ProbeError) as failed:
        asyncio.run(probe(address, SECRET))
    assert words in failed.value.english
    assert "pass@" not in failed.value.message


@pytest.mark.parametrize("key", ["a\nb", "a\r\nX-Evil: 1", "a\0"])
def test_keys_that_cannot_be_sent_are_refused(key: str) -> None:
    with pytest.raises(ProbeError, match="line break"):
        asyncio.run(probe("http://127.0.0.1:9", key))
