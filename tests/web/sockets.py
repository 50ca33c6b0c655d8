"""WebSockets as an attacker sees them: a gate with a recorder behind it, and a client that sends any bytes."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import uvloop
from starlette.types import Receive, Scope, Send
from websockets.frames import Frame, Opcode

from app.extend import DeclaredSocket, Socket, SocketHandler, SocketRequest
from app.web.blocking import AddressBlocks
from app.web.server import serve
from app.web.socket_gate import SocketGate
from app.web.socket_traffic import SocketLimits, SocketTraffic
from tests.waiting import until as until

KEY = "key-of-sockets"
KIB = 1024
SECONDS = 60
"""A test that takes longer hangs."""

LIMITS = SocketLimits(
    message_bytes=64 * KIB,
    queue_bytes=256 * KIB,
    incoming_bytes=1024 * KIB,
    frames_per_second=200,
    ping_seconds=30,
)

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
"""The loop of Python, and the one that the server runs on: they differ in when they write."""


def run_on(loop: str, main: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine; nothing may be left of it."""

    async def whole() -> None:
        await asyncio.wait_for(main, SECONDS)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    gc.collect(1)
    gc.freeze()  # the look below is at what this test made; at all that earlier ones left it takes a second
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(whole())
    gc.collect()  # what was not closed says so


class Recorder:
    """A handler that notes what it is told; ``on_text`` may answer."""

    def __init__(self, request: SocketRequest | None = None) -> None:
        self.request = request
        self.socket: Socket | None = None
        self.texts: list[str] = []
        self.binaries: list[bytes] = []
        self.codes: list[int] = []
        self.order: list[str] = []
        self.on_text: Callable[[str], object] = lambda _text: None
        self.on_closed: Callable[[], object] = lambda: None

    def opened(self, socket: Socket) -> None:
        self.order.append("opened")
        self.socket = socket

    def text(self, text: str) -> None:
        self.order.append("text")
        self.texts.append(text)
        self.on_text(text)

    def binary(self, data: bytes) -> None:
        self.order.append("binary")
        self.binaries.append(data)

    def closed(self, code: int) -> None:
        self.order.append("closed")
        self.codes.append(code)
        self.on_closed()

    @property
    def open(self) -> Socket:
        assert self.socket is not None
        return self.socket


@dataclass(slots=True)
class Site:
    """A server with one path, ``/s``."""

    url: str
    limits: SocketLimits = LIMITS
    connections: int = 100
    stopping: bool = False
    traffic: SocketTraffic = field(default_factory=SocketTraffic)
    handlers: list[Recorder] = field(default_factory=list)
    accept: Callable[[SocketRequest], SocketHandler] | None = None

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def limit(self, **limits: Any) -> None:
        """Other limits from now on."""
        self.limits = replace(self.limits, **limits)

    @property
    def last(self) -> Recorder:
        return self.handlers[-1]

    def ended(self) -> dict[str, int]:
        """How WebSockets ended, without what did not happen."""
        return {why: number for why, number in self.traffic.ended.items() if number}


@asynccontextmanager
async def site(home: Path, *, grace: int = 1, **declared: Any) -> AsyncIterator[Site]:
    """A server on a free port."""
    state = Site("")

    def accept(request: SocketRequest) -> SocketHandler:
        if state.accept is not None:
            return state.accept(request)
        state.handlers.append(Recorder(request))
        return state.last

    gate = SocketGate(
        [
            DeclaredSocket(
                **{
                    "path": "/s",
                    "accept": accept,
                    "max_message_bytes": lambda: state.limits.message_bytes,
                    "keys": lambda: (KEY,),
                    **declared,
                }
            )
        ],
        blocks=AddressBlocks(home / "ip_blacklist.json", enabled=lambda: False, clock=lambda: 0.0),
        address=lambda scope: str(scope["client"][0]),
        limits=lambda message_bytes: replace(state.limits, message_bytes=message_bytes),
        traffic=state.traffic,
        connections=lambda: state.connections,
        stopping=lambda: state.stopping,
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await gate(scope, receive, send)
            return
        for word in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{word}.complete"})

    async with serve(app, grace=grace) as state.url:
        yield state


HEAD = (
    "Host: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\n"
)


class Raw:
    """A client that sends what it is told to, byte by byte if need be."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def handshake(
        self,
        path: str | bytes = f"/s/VCP_Key={KEY}",
        *,
        more: str = "",
        line: str = "GET {} HTTP/1.1",
        behind: bytes = b"",
    ) -> bytes:
        """Ask for a WebSocket; the answer's head."""
        written = path.encode() if isinstance(path, str) else path
        first = line.encode().replace(b"{}", written)
        self.writer.write(first + b"\r\n" + HEAD.encode() + more.encode() + b"\r\n" + behind)
        return await self.reader.readuntil(b"\r\n\r\n")

    async def send(self, data: bytes) -> bool:
        """Send bytes; False when the server has hung up."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError:
            return False
        return True

    async def frame(self) -> tuple[int, bytes]:
        """The next frame of the server: its opcode and what is in it."""
        head = await self.reader.readexactly(2)
        length = head[1] & 127
        if length >= 126:
            length = int.from_bytes(await self.reader.readexactly(2 if length == 126 else 8), "big")
        return head[0] & 15, await self.reader.readexactly(length)

    async def close_code(self) -> int:
        """The code of the server's goodbye, whatever comes before it; 1006 when it hangs up without one."""
        try:
            while True:
                opcode, data = await self.frame()
                if opcode == Opcode.CLOSE:
                    return int.from_bytes(data[:2], "big") if data else 1005
        except (asyncio.IncompleteReadError, ConnectionError):
            return 1006

    async def end(self) -> None:
        """All that the server still sends."""
        try:
            while await self.reader.read(1 << 16):
                pass
        except ConnectionError:
            pass


@asynccontextmanager
async def raw(place: Site, *, handshake: bool = True) -> AsyncIterator[Raw]:
    """A client, let in unless told otherwise."""
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port, limit=64 * KIB)
    client = Raw(reader, writer)
    try:
        if handshake:
            assert (await client.handshake()).startswith(b"HTTP/1.1 101 ")
            while not place.handlers:
                await asyncio.sleep(0)
        yield client
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


def frame(data: bytes | str, opcode: Opcode = Opcode.TEXT, *, fin: bool = True) -> bytes:
    """A frame as a client writes it."""
    return Frame(opcode, data.encode() if isinstance(data, str) else data, fin=fin).serialize(mask=True)


async def all_of(*waits: Awaitable[Any]) -> Sequence[Any]:
    return await asyncio.gather(*waits)
