"""An upstream that follows a script: the suite's double for everything a model API can do to us, good and bad.

It speaks HTTP/1.1 on a plain asyncio server, not ASGI: a reset in mid-body, an answer that never begins, a body shorter
than promised, bytes in exactly these blocks are out of reach for an application behind a correct HTTP server.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from http.client import responses
from types import TracebackType
from typing import Self

from app.demo.script import Answer, Close, Framing, Hold, Received, Reply, Scripted, Send, json_reply
from app.extend import Json

MAX_HEAD = 64 * 1024
MAX_BODY = 64 * 1024 * 1024
WAIT_LIMIT = 10.0
"""Seconds after which every wait of a test gives up with TimeoutError; a right program never gets there."""


class Exchange:
    """One request and what became of its reply."""

    __slots__ = ("gone", "request", "served")

    def __init__(self, request: Received) -> None:
        self.request = request
        self.gone = False
        """The client went away before the reply had ended."""
        self.served = False
        """The reply was sent to its end, be it a Close or a Reset."""


class ScriptedUpstream:
    """Answers one request after another from a script, or each by a function, and remembers all of them.

    An async context manager. ``base_url`` has no path. Requests that the script does not foresee get status 400 and
    make the block end with AssertionError. All waits give up after ``WAIT_LIMIT`` seconds.
    """

    def __init__(self, script: Iterable[Scripted] | Callable[[Received], Reply | Answer]) -> None:
        self._by_request = script if callable(script) else None
        self._script: list[Scripted] = [] if callable(script) else list(script)
        self._gates: dict[str, asyncio.Event] = {}
        self._held: dict[str, int] = {}
        self._changed = asyncio.Condition()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.exchanges: list[Exchange] = []
        self.surplus = 0
        self.connections = 0
        """Connections that were accepted so far."""
        self.base_url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MAX_HEAD)
        port = self._server.sockets[0].getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        open_connections = list(self._connections)
        for connection in open_connections:
            connection.cancel()
        if open_connections:
            await asyncio.wait(open_connections)
        if kind is None and self.surplus:
            raise AssertionError(f"{self.surplus} request(s) came that the script has no reply for")

    @property
    def requests(self) -> Sequence[Received]:
        """All requests so far, in the order of their arrival."""
        return [exchange.request for exchange in self.exchanges]

    @property
    def bodies(self) -> Sequence[Json]:
        """The JSON bodies of all requests so far."""
        return [request.json for request in self.requests]

    async def arrived(self, count: int = 1) -> Received:
        """Wait for the ``count``-th request and return it."""
        await self._until(lambda: len(self.exchanges) >= count, f"request {count}")
        return self.exchanges[count - 1].request

    async def gone(self, number: int = 1) -> None:
        """Wait until the client of the ``number``-th request went away before its reply had ended."""
        await self._until(
            lambda: len(self.exchanges) >= number and self.exchanges[number - 1].gone,
            f"the client of request {number} to go away",
        )

    async def served(self, number: int = 1) -> None:
        """Wait until the reply to the ``number``-th request was sent to its end."""
        await self._until(
            lambda: len(self.exchanges) >= number and self.exchanges[number - 1].served,
            f"the end of reply {number}",
        )

    async def held(self, gate: str = "go", count: int = 1) -> None:
        """Wait until ``count`` replies have come to this gate; everything before it has been sent."""
        await self._until(lambda: self._held.get(gate, 0) >= count, f"{count} replies at gate {gate!r}")

    def release(self, gate: str = "go") -> None:
        """Open a gate for all replies, those to come included."""
        self._gate(gate).set()

    def _gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    async def _until(self, reached: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(WAIT_LIMIT), self._changed:
                await self._changed.wait_for(reached)
        except TimeoutError as fault:
            raise TimeoutError(f"waited {WAIT_LIMIT:g} s in vain for {what}") from fault

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.connections += 1
        # With no buffer of its own, drain() means that the bytes are with the network.
        writer.transport.set_write_buffer_limits(0)
        try:
            pushed_back = b""
            while (request := await self._read_request(reader, pushed_back)) is not None:
                exchange = Exchange(request)
                self.exchanges.append(exchange)
                await self._tell()
                pushed_back, going_on = await self._converse(exchange, reader, writer)
                if not going_on:
                    break
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):  # the other side was quicker
                await writer.wait_closed()

    async def _read_request(self, reader: asyncio.StreamReader, pushed_back: bytes) -> Received | None:
        """The next request of a connection, or None when the client closed it."""
        try:
            head = pushed_back + await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            method, path, _ = lines[0].split(" ")
            headers = {}
            for line in lines[1:-2]:
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
            if headers.get("transfer-encoding", "").lower() == "chunked":
                body = await _read_chunked(reader)
            else:
                size = int(headers.get("content-length", "0"))
                if size > MAX_BODY:
                    raise ValueError(f"a request body of {size} bytes is over the limit of {MAX_BODY}")
                body = await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return Received(len(self.exchanges) + 1, method, path, headers, body)

    async def _converse(
        self, exchange: Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[bytes, bool]:
        """Send the reply while watching whether the client stays; returns bytes read too far, and whether to go on."""
        work = asyncio.ensure_future(self._perform(self._next_reply(exchange.request), writer))
        watch = asyncio.ensure_future(reader.read(1))
        early = b""
        try:
            await asyncio.wait((work, watch), return_when=asyncio.FIRST_COMPLETED)
            if watch.done() and not work.done():
                early = _result_of(watch)
                if early:  # the next request already; nobody hangs up while sending
                    await asyncio.wait((work,))
        finally:
            for task in (work, watch):
                task.cancel()
            await asyncio.wait((work, watch))
        if watch.done() and not watch.cancelled():
            early = _result_of(watch)
        going_on = False
        if work.cancelled() or isinstance(work.exception(), ConnectionError):
            exchange.gone = True
        else:
            going_on = work.result()
            exchange.served = True
        await self._tell()
        return early, going_on

    def _next_reply(self, request: Received) -> Reply:
        entry: Scripted
        if self._by_request is not None:
            entry = self._by_request
        elif request.number <= len(self._script):
            entry = self._script[request.number - 1]
        else:
            self.surplus += 1
            text = f"the script has {len(self._script)} replies, this is request {request.number}"
            return json_reply({"error": {"message": text, "type": "script_ended", "param": None, "code": None}}, 400)
        made = entry(request) if callable(entry) else entry
        return made.reply(request) if isinstance(made, Answer) else made

    async def _perform(self, reply: Reply, writer: asyncio.StreamWriter) -> bool:
        """Send a reply; true when the connection can be used again."""
        head_due = True
        for step in reply.steps:
            if isinstance(step, Send):
                if head_due:
                    await _write(writer, _head(reply))
                    head_due = False
                for block in _blocks(step):
                    await _write(writer, _framed(block, reply.framing))
            elif isinstance(step, Hold):
                self._held[step.gate] = self._held.get(step.gate, 0) + 1
                await self._tell()
                await self._gate(step.gate).wait()
            elif isinstance(step, Close):
                return False
            else:
                _reset(writer)
                return False
        if head_due:
            await _write(writer, _head(reply))
        if reply.framing is Framing.CHUNKED:
            await _write(writer, b"0\r\n\r\n")
        return reply.framing is not Framing.CLOSE


def _result_of(watch: asyncio.Future[bytes]) -> bytes:
    """What the watch on the client read; a broken connection reads as nothing, like a closed one."""
    return b"" if isinstance(watch.exception(), ConnectionError) else watch.result()


async def _read_chunked(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        if len(body) + size > MAX_BODY:
            raise ValueError(f"a request body is over the limit of {MAX_BODY} bytes")
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return bytes(body)


def _head(reply: Reply) -> bytes:
    lines = [
        f"HTTP/1.1 {reply.status} {responses.get(reply.status, 'Scripted')}",
        *(f"{name}: {value}" for name, value in reply.headers),
    ]
    if reply.framing is Framing.CHUNKED:
        lines.append("transfer-encoding: chunked")
    elif reply.framing is Framing.LENGTH:
        lines.append(f"content-length: {reply.promised}")
    else:
        lines.append("connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _blocks(step: Send) -> list[bytes]:
    size = step.block or max(1, len(step.data))
    return [step.data[at : at + size] for at in range(0, len(step.data), size)]


def _framed(block: bytes, framing: Framing) -> bytes:
    return b"%x\r\n%b\r\n" % (len(block), block) if framing is Framing.CHUNKED else block


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
    await asyncio.sleep(0)  # a reader in the same event loop gets its turn


def _reset(writer: asyncio.StreamWriter) -> None:
    # A linger time of zero makes the operating system send RST in place of FIN.
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
