"""What may come before the key: heads of bounded size, in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from app.web import heads
from app.web.heads import MAX_HEAD_BYTES, GuardedProtocol
from app.web.server import serve


async def hello(request: Request) -> PlainTextResponse:
    await request.body()
    return PlainTextResponse("hello")


async def sent(base: str, pieces: Iterable[bytes]) -> bytes:
    """What a server answers to these pieces before it hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]))
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await reader.read()
    except ConnectionError:
        return b"hung up"
    finally:
        writer.close()


@pytest.mark.parametrize("line", [b"a" * 8000, b"X: y\r\n" * 2000], ids=["one header", "many headers"])
def test_a_head_without_end_is_refused_before_it_fills_the_memory(line: bytes) -> None:
    async def main() -> None:
        async with serve(Starlette(routes=[Route("/", hello)])) as base:
            endless = (line for _ in range(40_000_000 // len(line)))
            answer = await sent(base, (piece for group in ([b"GET / HTTP/1.1\r\nX: y"], endless) for piece in group))
            assert answer == b"hung up" or answer.startswith(b"HTTP/1.1 431 ")

    asyncio.run(asyncio.wait_for(main(), 20))


def test_ordinary_heads_and_long_bodies_pass_one_after_the_other() -> None:
    async def main() -> None:
        async with serve(Starlette(routes=[Route("/", hello, methods=["GET", "POST"])])) as base:
            head = b"POST / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (MAX_HEAD_BYTES // 2)
            request = head + b"\r\nContent-Length: 1000000\r\n"
            pieces = [head, request[len(head) :] + b"\r\n", b"b" * 1_000_000] * 2
            pieces += [request + b"Connection: close\r\n\r\n", b"b" * 1_000_000]
            assert (await sent(base, pieces)).count(b"hello") == 3

    asyncio.run(asyncio.wait_for(main(), 20))


@pytest.mark.parametrize("before", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"], ids=["first", "second"])
@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nX: y\r\n"], ids=["nothing", "half a head"])
def test_a_head_that_does_not_come_to_its_end_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, before: bytes, begun: bytes
) -> None:
    monkeypatch.setattr(GuardedProtocol, "head_seconds", 0.05)
    monkeypatch.setattr("app.web.server.KEEP_ALIVE_SECONDS", 0.05)

    async def main() -> None:
        async with serve(Starlette(routes=[Route("/", hello)])) as base:
            answer = await sent(base, [before + begun])
            assert answer.count(b"hello") == before.count(b"GET")

    assert heads.HEAD_SECONDS >= 30
    asyncio.run(asyncio.wait_for(main(), 20))
