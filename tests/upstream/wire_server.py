"""A server that plays a script byte by byte: what a model API, or a proxy, does on the wire."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from app.extend import UpstreamTarget
from app.upstream.client import UpstreamClient
from app.upstream.limits import UpstreamLimits
from app.upstream.retry import RetryPolicy

PATIENCE = 10.0  # seconds until a test that hangs fails


@dataclass
class Request:
    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for found, value in self.headers if found.lower() == name.lower()), None)


class Peer:
    """One accepted connection; ``number`` counts from 1."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer
        self.requests: list[Request] = []

    async def request(self) -> Request | None:
        """The next request, None when the client has closed."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return None
        line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        headers = [(name, value.strip()) for name, _, value in (text.partition(":") for text in lines)]
        request = Request(line, headers, b"")
        request.body = await self.reader.readexactly(int(request.header("Content-Length") or 0))
        self.requests.append(request)
        return request

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, status: int, body: bytes = b"{}", *headers: str, kind: str = "application/json") -> None:
        await self.send(answer(status, body, *headers, kind=kind))

    async def closed_by_client(self) -> None:
        """Return when the client has ended the connection."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionResetError:
            return

    def reset(self) -> None:
        """End the connection with RST."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class Server:
    url: str
    peers: list[Peer] = field(default_factory=list)

    @property
    def requests(self) -> list[Request]:
        return [request for peer in self.peers for request in peer.requests]


def answer(status: int, body: bytes = b"{}", *headers: str, kind: str = "application/json") -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@asynccontextmanager
async def serving(
    script: Script, tls: ssl.SSLContext | None = None, patience: float = PATIENCE
) -> AsyncIterator[Server]:
    """Serve on a free port of loopback; a script that fails makes the test fail."""
    tasks: set[asyncio.Task[None]] = set()
    listener: asyncio.Server

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        peer = Peer(len(server.peers) + 1, reader, writer)
        server.peers.append(peer)
        try:
            await script(peer)
        except asyncio.CancelledError:
            return  # the test is over; a cancelled task of a listener would be reported as a fault
        finally:
            writer.close()

    listener = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=tls, backlog=512)
    port = listener.sockets[0].getsockname()[1]
    server = Server(f"{'https' if tls else 'http'}://127.0.0.1:{port}")
    try:
        async with asyncio.timeout(patience):
            yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


class OneTarget:
    def __init__(self, target: UpstreamTarget) -> None:
        self.target = target
        self.asked: list[str] = []

    def resolve(self, model: str) -> Sequence[UpstreamTarget]:
        self.asked.append(model)
        return (self.target,)

    def targets(self) -> Sequence[UpstreamTarget]:
        return (self.target,)


class Naps:
    """Stands for ``asyncio.sleep``: records the waits, in seconds, and does not wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)


@asynccontextmanager
async def client_of(
    url: str,
    *,
    key: str = "sk-secret-of-the-test",
    proxy: str | None = None,
    policy: RetryPolicy | None = None,
    limits: UpstreamLimits | None = None,
    naps: Naps | None = None,
    **more: Any,
) -> AsyncIterator[UpstreamClient]:
    client = UpstreamClient(
        OneTarget(UpstreamTarget(url, key, proxy)),
        policy or RetryPolicy(attempts=3, delay_ms=100),
        limits or UpstreamLimits(),
        sleep=naps or Naps(),
        environment=more.pop("environment", {}),
        **more,
    )
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


async def ask(client: UpstreamClient, body: bytes = b'{"model":"m"}', *, stream: bool = True) -> bytes:
    """A whole chat exchange: the bytes of the answer."""
    async with await client.chat(body, model="m", stream=stream) as reply:
        return await reply.read_all(1 << 26)
