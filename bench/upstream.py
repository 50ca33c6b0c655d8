"""The canned model API, a process of its own: as little work per reply as an event loop allows.

``python -m bench.upstream`` prints its address and serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import lru_cache
from typing import cast

import orjson

from bench.child import serve_until_stdin_ends
from bench.replies import TOOL_BLOCK, Shape, completion, stream_events

MAX_REQUEST_BYTES = 8 * 1024 * 1024
_HEAD_END = b"\r\n\r\n"
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_RESULT_MARK = "来自工具"


class CannedModel(asyncio.Protocol):
    """One connection of the canned model; requests on it come one after the other."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._left: deque[bytes] = deque()
        self._gap = 0.0
        self._due = 0.0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class is none by name

    def connection_lost(self, exc: Exception | None) -> None:
        self._left.clear()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(_HEAD_END)
        if head_end < 0:
            return
        start = head_end + len(_HEAD_END)
        length = _content_length(bytes(self._received[:head_end]))
        if length > MAX_REQUEST_BYTES:
            self._transport.abort()
        elif len(self._received) - start >= length:
            body = bytes(self._received[start : start + length])
            del self._received[: start + length]
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        asked = orjson.loads(body)
        shape = Shape.of(asked["model"])
        calls = shape.tool and _RESULT_MARK.encode() not in body
        if not asked.get("stream"):
            self._transport.write(_plain(shape, calls))
            return
        pieces = _streamed(shape, calls)
        if shape.whole:
            self._transport.write(b"".join(pieces))
            return
        self._gap = shape.gap / 1e6
        self._due = self._loop.time()
        self._left.extend(pieces)
        self._next()

    def _next(self) -> None:
        if not self._left:
            return
        self._transport.write(self._left.popleft())
        if not self._left:  # the next request has a pace of its own
            return
        if self._gap:
            self._due += self._gap  # from the beginning of the reply: lateness does not add up
            self._loop.call_at(self._due, self._next)
        else:
            self._loop.call_soon(self._next)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


@lru_cache(maxsize=64)
def _plain(shape: Shape, calls: bool) -> bytes:
    body = completion(shape, TOOL_BLOCK if calls else None)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@lru_cache(maxsize=64)
def _streamed(shape: Shape, calls: bool) -> tuple[bytes, ...]:
    """What is written step by step: the head with the first event, each further event, the last with the end."""
    events = stream_events(shape, TOOL_BLOCK if calls else None)
    framed = [b"%x\r\n%b\r\n" % (len(event), event) for event in events]
    framed[0] = _STREAM_HEAD + framed[0]
    return (*framed[:-2], framed[-2] + framed[-1] + b"0\r\n\r\n")


async def main() -> None:
    """Serve until standard input ends."""
    server = await asyncio.get_running_loop().create_server(CannedModel, "127.0.0.1", 0, backlog=2048)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await serve_until_stdin_ends(f"http://127.0.0.1:{port}")


if __name__ == "__main__":
    from bench.child import run

    run(main())
