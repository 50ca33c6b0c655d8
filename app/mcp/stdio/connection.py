"""One connection over standard input and output: our strict reader and writer around the streams of the SDK.

The SDK stays silent on lines that are no JSON, on batches, null ids and requests that are no request, takes lines of
any length, lets two requests have one id, and gives up running calls at the end of input. All of that is settled here,
and what passes is handed on; eras, versions, methods and their parameters are the SDK's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp_types.jsonrpc import ErrorData

from app.errors import both
from app.extend import Json
from app.mcp.client.lines import LineCutter, Oversize
from app.mcp.stdio import frames
from app.mcp.stdio.batches import BATCH_REVISIONS, MAX_BATCH, MAX_FRAME_BYTES, Batch, Running, key, too_large
from app.mcp.stdio.frames import Answer, Fault, Message, Notification, Request, RequestId, Unusable

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 4 * 1024 * 1024

DRAIN_SECONDS = 5.0
"""After the end of input calls may finish for so long (STD-40)."""
FLUSH_SECONDS = 1.0

MAX_RUNNING = 1000
MAX_RUNNING_BYTES = 64 * 1024 * 1024
"""Requests without an answer: how many, and how long all together. What comes beyond is refused at once, and not left
to wait, since the cancellation that would make room may be right behind it."""

ENDLESS = frozenset({"subscriptions/listen"})
"""Requests that are never done by themselves; nobody waits for them at the end."""

INITIALIZE = "initialize"
CANCELLED = "notifications/cancelled"

Incoming: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing: TypeAlias = MemoryObjectSendStream[SessionMessage]
Drive: TypeAlias = Callable[[Incoming, Outgoing], Awaitable[None]]
"""Serves the two streams until the first ends, as ``Server.run`` does."""


class Source(Protocol):
    """Where the bytes of the client come from."""

    async def next(self) -> bytes:
        """The next piece; empty at the end."""
        ...


class Sink(Protocol):
    """Where frames go."""

    failure: asyncio.Future[str]

    async def write(self, frame: bytes) -> None:
        """Write one frame; returns when it is out."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, sizes in bytes; other values are for tests."""

    line_bytes: int = MAX_LINE_BYTES
    frame_bytes: int = MAX_FRAME_BYTES
    running: int = MAX_RUNNING
    running_bytes: int = MAX_RUNNING_BYTES
    drain_seconds: float = DRAIN_SECONDS
    flush_seconds: float = FLUSH_SECONDS


class StdioConnection:
    """Serves one client, until its input ends, ``stop`` is called or its output fails.

    ``attached`` goes with each request to its handler, which finds it as the ``request`` of its context.
    """

    def __init__(self, source: Source, sink: Sink, limits: Limits | None = None, *, attached: object = None) -> None:
        self._source = source
        self._sink = sink
        self._limits = limits or Limits()
        self._attached = attached
        self._lines = LineCutter(self._limits.line_bytes)
        self._running: dict[RequestId, Running] = {}
        self._running_bytes = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopped = asyncio.Event()
        self._revision = ""
        self._to_server: MemoryObjectSendStream[SessionMessage | Exception]

    def stop(self) -> None:
        """Read nothing more: as if the input had ended here (STD-41)."""
        self._stopped.set()

    async def serve(self, drive: Drive) -> bool:
        """Let ``drive`` serve the client. True at an ordinary end, False when the output failed.

        Raises what ``drive`` raises.
        """
        self._to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
        outgoing, from_server = anyio.create_memory_object_stream[SessionMessage]()
        driving = asyncio.ensure_future(drive(incoming, outgoing))
        reading = asyncio.ensure_future(self._read_all())
        writing = asyncio.ensure_future(self._write_all(from_server))
        stopped = asyncio.ensure_future(self._stopped.wait())
        tasks = (driving, reading, writing, stopped)
        try:
            await asyncio.wait((*tasks, self._sink.failure), return_when=asyncio.FIRST_COMPLETED)
            if not (driving.done() or writing.done() or self._sink.failure.done()):
                if reading.done():
                    reading.result()
                reading.cancel()
                await self._drain(driving)
            if self._sink.failure.done():
                log.error("%s", self._sink.failure.result())
                return False
            if writing.done():
                writing.result()
            await asyncio.wait((driving,))
            await asyncio.wait((writing,), timeout=self._limits.flush_seconds)
            driving.result()
            return True
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (self._to_server, incoming, outgoing, from_server):
                stream.close()

    async def _drain(self, driving: asyncio.Future[None]) -> None:
        """Let running calls finish, then tell the end of input, which cancels those that have not."""
        idle = asyncio.ensure_future(self._idle.wait())
        ends = (idle, driving, self._sink.failure)
        try:
            await asyncio.wait(ends, timeout=self._limits.drain_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()
        if self._sink.failure.done():
            return
        if not self._idle.is_set():
            log.warning("%d requests were not done in time and are cancelled", len(self._running))
        self._to_server.close()
        await asyncio.wait((driving, self._sink.failure), return_when=asyncio.FIRST_COMPLETED)

    # What the client says.

    async def _read_all(self) -> None:
        data = b"-"
        while data:
            data = await self._source.next()
            for line in self._lines.feed(data) if data else self._lines.end():
                await self._line(line)

    async def _line(self, line: bytes | Oversize) -> None:
        if isinstance(line, Oversize):
            log.warning("a line of %d bytes was dropped", line.size)  # its length and nothing else (STD-46)
            limit = self._limits.line_bytes
            text = both(f"一行不得超过 {limit} 字节", f"a line has at most {limit} bytes")
            await self._refuse(Fault(frames.PARSE_ERROR, text))
            return
        if not line.strip():
            return
        value = frames.parsed(line)
        if isinstance(value, Fault):
            await self._refuse(value)
        elif isinstance(value, list):
            await self._array(value, len(line))
        else:
            await self._message(frames.read(value), len(line), None)

    async def _array(self, entries: list[Json], size: int) -> None:
        if self._revision not in BATCH_REVISIONS:
            why = both("此协议版本没有批量消息", "this revision of the protocol has no batches")
        elif not entries:
            why = both("批量消息为空", "the batch is empty")
        elif len(entries) > MAX_BATCH:
            why = both(f"批量消息最多 {MAX_BATCH} 条", f"a batch has at most {MAX_BATCH} entries")
        else:
            batch = Batch()
            for entry in entries:
                message = frames.read(entry)
                if isinstance(message, Request) and message.method == INITIALIZE:
                    text = both("initialize 不能在批量消息中", "initialize cannot be part of a batch")
                    message = Fault(frames.INVALID_REQUEST, text, message.id)
                await self._message(message, size // len(entries), batch)
            await self._entry_done(batch)
            return
        await self._refuse(Fault(frames.INVALID_REQUEST, why))

    async def _message(self, message: Message, size: int, batch: Batch | None) -> None:
        match message:
            case Request():
                await self._request(message, size, batch)
            case Notification():
                self._notice_cancellation(message)
                await self._hand_on(_notification(message), None)
            case Answer():
                await self._hand_on(_answer(message), None)
            case Fault():
                await self._refuse(message, batch)
            case Unusable():
                log.warning("a message was dropped: %s", message.why)

    async def _request(self, request: Request, size: int, batch: Batch | None) -> None:
        if key(request.id) in self._running:
            text = both("已有同 id 的请求在运行", "a request with this id is still running")
            await self._refuse(Fault(frames.INVALID_REQUEST, text, request.id), batch)
            return
        full = self._running_bytes and self._running_bytes + size > self._limits.running_bytes
        if full or len(self._running) >= self._limits.running:
            text = both("同时运行的请求过多", "too many requests are running")
            await self._refuse(Fault(frames.INTERNAL_ERROR, text, request.id), batch)
            return
        running = Running(request.id, request.method, size, batch)
        if batch is not None:
            batch.opened()
        self._running[key(request.id)] = running
        self._running_bytes += size
        if request.method not in ENDLESS:
            self._idle.clear()

        async def unanswered() -> None:
            if running.settled.is_set():
                return
            self._over(running)
            if batch is not None:
                await self._entry_done(batch)

        await self._hand_on(
            _request(request), ServerMessageMetadata(request_context=self._attached, on_request_unanswered=unanswered)
        )
        if request.method == INITIALIZE:  # what follows may be judged by the version that comes of it
            await running.settled.wait()

    def _notice_cancellation(self, notification: Notification) -> None:
        """Remember that the client wants no answer to a request any more (MCP-8)."""
        if notification.method != CANCELLED or notification.params is None:
            return
        named = notification.params.get("requestId")
        if isinstance(named, str | int) and not isinstance(named, bool):
            running = self._running.get(key(named))
            if running is not None:
                running.cancelled = True

    async def _hand_on(self, message: JSONRPCMessage, metadata: ServerMessageMetadata | None) -> None:
        try:
            await self._to_server.send(SessionMessage(message, metadata))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._stopped.set()  # the server has ended; nobody takes messages any more

    async def _refuse(self, fault: Fault, batch: Batch | None = None) -> None:
        frame = frames.encoded(frames.error_object(fault))
        if batch is None:
            await self._sink.write(frame)
        else:
            batch.answered(fault.id, frame)

    # What the server says.

    async def _write_all(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for item in from_server:
            match item.message:
                case JSONRPCResponse() | JSONRPCError() as answer:
                    await self._answered(answer)
                case other:
                    await self._say(other)

    async def _answered(self, answer: JSONRPCResponse | JSONRPCError) -> None:
        running = self._running.get(key(answer.id)) if answer.id is not None else None
        if running is None:
            log.debug("an answer to no request was dropped")
            return
        self._over(running)  # before the answer goes out, for then the client may use the id anew
        if not running.cancelled:
            if isinstance(answer, JSONRPCResponse) and running.method == INITIALIZE:
                self._revision = str(answer.result.get("protocolVersion", ""))
            frame = self._frame_of(answer, running.id)
            if running.batch is None:
                await self._sink.write(frame)
            else:
                running.batch.answered(running.id, frame)
        if running.batch is not None:
            await self._entry_done(running.batch)

    def _frame_of(self, answer: JSONRPCResponse | JSONRPCError, id: RequestId) -> bytes:
        try:
            frame = frames.encoded(_outgoing(answer))
        except (ValueError, RecursionError):  # a number that JSON has no word for, or lists without end
            log.error("a result that is no JSON was dropped")
            text = both("结果不是合法的 JSON", "the result is no JSON")
            return frames.encoded(frames.error_object(Fault(frames.INTERNAL_ERROR, text, id)))
        return frame if len(frame) <= self._limits.frame_bytes else too_large(id, len(frame))

    async def _say(self, message: JSONRPCRequest | JSONRPCNotification) -> None:
        try:
            frame = frames.encoded(_outgoing(message))
        except (ValueError, RecursionError):
            frame = b""
        if 0 < len(frame) <= self._limits.frame_bytes:
            await self._sink.write(frame)
            return
        log.warning("a message to the client that is no JSON or too long (%d bytes) was dropped", len(frame))
        if isinstance(message, JSONRPCRequest):  # whoever asked must not wait for an answer
            error = ErrorData(code=frames.INTERNAL_ERROR, message=both("无法发送", "it cannot be sent"))
            await self._hand_on(JSONRPCError(jsonrpc="2.0", id=message.id, error=error), None)

    def _over(self, running: Running) -> None:
        """The request is over, with or without an answer."""
        del self._running[key(running.id)]
        self._running_bytes -= running.size
        if all(other.method in ENDLESS for other in self._running.values()):
            self._idle.set()
        running.settled.set()

    async def _entry_done(self, batch: Batch) -> None:
        frame = batch.closed()
        if frame is not None:
            await self._sink.write(frame)


def _request(request: Request) -> JSONRPCRequest:
    if request.params is None:
        return JSONRPCRequest(jsonrpc="2.0", id=request.id, method=request.method)
    return JSONRPCRequest(jsonrpc="2.0", id=request.id, method=request.method, params=dict(request.params))


def _notification(notification: Notification) -> JSONRPCNotification:
    if notification.params is None:
        return JSONRPCNotification(jsonrpc="2.0", method=notification.method)
    return JSONRPCNotification(jsonrpc="2.0", method=notification.method, params=dict(notification.params))


def _answer(answer: Answer) -> JSONRPCResponse | JSONRPCError:
    if answer.error is not None:
        return JSONRPCError(jsonrpc="2.0", id=answer.id, error=ErrorData.model_validate(answer.error))
    return JSONRPCResponse(jsonrpc="2.0", id=answer.id, result=dict(answer.result or {}))


def _outgoing(message: JSONRPCMessage) -> Mapping[str, Json]:
    """A message as JSON. Faults that the SDK has no code for are internal errors, and say nothing of their inside."""
    if isinstance(message, JSONRPCError):
        error: Json = message.error.model_dump(mode="json", exclude_unset=True)
        if message.error.code == 0:
            error = {"code": frames.INTERNAL_ERROR, "message": both("内部错误", "internal error")}
        return {"jsonrpc": "2.0", "id": message.id, "error": error}
    if isinstance(message, JSONRPCResponse):
        return {"jsonrpc": "2.0", "id": message.id, "result": message.result}
    said: dict[str, Json] = {"jsonrpc": "2.0", "method": message.method}
    if isinstance(message, JSONRPCRequest):
        said["id"] = message.id
    if message.params is not None:
        said["params"] = message.params
    return said
