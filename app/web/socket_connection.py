"""A client's WebSocket: uvicorn's, with limits of its own, that leads messages straight to who serves them.

uvicorn hands each message through a queue to a task, has one message limit for all paths, and waits for slow clients.
Here a message is handed over in the step that completed it, each path has its limit, and nobody is waited for.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from time import monotonic

from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.exceptions import InvalidState
from websockets.frames import Frame
from websockets.http11 import Request

from app.extend import SocketHandler

log = logging.getLogger(__name__)

# Handshakes hold keys, and these loggers would write them down.
_quiet = logging.getLogger("app.web.socket_connection.library")
_quiet.setLevel(logging.CRITICAL)

EXTENSION = "vcp.socket"
"""Key of the ASGI scope's extensions under which the application finds the connection."""

BEFORE_OPEN_BYTES = 64 * 1024
"""What a client may send before it was let in."""

MISSED_PONGS = 2
"""Pings in a row without any sign of life, after which a client is gone (P81)."""

FRAMES_WAITING = 1000
"""Messages that may be put behind a client that does not read, before it is given up (WS-15)."""

CLOSE_SECONDS = 5.0
"""How long a client may take to say goodbye, or to take what was sent before."""

EMPTY_FRAGMENTS = 100
"""Parts of a message that may hold nothing."""

OPEN_PINGS = 16
"""Pings of ours that may be unanswered at a time."""

ANSWERS = 10_000
"""Messages to a client that are remembered: so many answers it may send beyond its limit of a second."""

SERVER_LEAVES, PROTOCOL_ERROR, POLICY, FAULT, TRY_AGAIN = 1001, 1002, 1008, 1011, 1013


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """What one client may cost; sizes in bytes. ``incoming_bytes`` is for all clients together."""

    message_bytes: int
    queue_bytes: int
    incoming_bytes: int
    frames_per_second: int
    ping_seconds: float


class SocketTraffic:
    """All WebSockets of one listener: which are open, and how much of unfinished messages they hold."""

    def __init__(self) -> None:
        self.open: set[SocketConnection] = set()
        self.incoming = 0

    async def close_all(self, seconds: float) -> None:
        """Say goodbye to everybody and hang up on who has not gone after ``seconds``."""
        going = list(self.open)
        for connection in going:
            connection.close(SERVER_LEAVES, "the server stops")
        if going:
            await asyncio.wait([connection.ended for connection in going], timeout=seconds)
        for connection in list(self.open):
            connection.abandon()


class SocketConnection(WebSocketsSansIOProtocol):
    """One WebSocket. Until :meth:`serve` it is uvicorn's, which asks the application; from then on its handler's."""

    def __init__(self, traffic: SocketTraffic, config: Config, server_state: ServerState, **others: object) -> None:
        super().__init__(config, server_state, **others)  # type: ignore[arg-type]  # app_state, which differs by version
        self.logger = _quiet
        self.conn.logger = _quiet
        self.conn.debug = False
        self.conn.max_message_size = BEFORE_OPEN_BYTES
        self.address = ""
        self.ended: asyncio.Future[int] = self.loop.create_future()
        self._traffic = traffic
        self._held = 0
        self._handler: SocketHandler | None = None
        self._limits: SocketLimits | None = None
        self._message = bytearray()
        self._empty_fragments = 0
        self._second, self._frames_in_second = 0, 0
        self._answers = 0
        self._frames_waiting = 0
        self._missed = 0
        self._pings: dict[bytes, tuple[float, asyncio.Future[float | None]]] = {}
        self._ping_number = 0
        self._beat: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------------ what the application and handlers use

    def serve(self, handler: SocketHandler, address: str, limits: SocketLimits) -> None:
        """The handshake is done: from now on ``handler`` gets everything.

        uvicorn's lists forget the connection, since a stop of the server waits for those in them.
        """
        self.address = address
        self._handler, self._limits = handler, limits
        self.conn.max_message_size = limits.message_bytes
        self.connections.discard(self)
        if (task := asyncio.current_task()) is not None:
            self.tasks.discard(task)
        if self.disconnected or self.transport.is_closing():
            self.ended.set_result(1006)
            return
        self._traffic.open.add(self)
        self._beat = self.loop.call_later(limits.ping_seconds, self._heartbeat)
        self._guarded(handler.opened, _OpenSocket(self))
        while not self.queue.empty():  # sent together with the handshake
            event = self.queue.get_nowait()
            if event["type"] == "websocket.receive":
                self._deliver(event.get("text"), event.get("bytes"))
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    @property
    def waiting(self) -> int:
        """Bytes that the client has not taken yet."""
        return self.transport.get_write_buffer_size()

    def transmit(self, text: str | bytes) -> bool:
        """Put a text message on its way; False when the socket is closed, also because the client is too slow."""
        if self.close_sent or self.ended.done() or self._limits is None:
            return False
        data = text.encode("utf-8", "replace") if isinstance(text, str) else text
        if not self.writable.is_set():
            self._frames_waiting += 1
            if self._frames_waiting > FRAMES_WAITING or self.waiting + len(data) > self._limits.queue_bytes:
                log.warning("WebSocket client %s reads too slowly and is dropped", self.address)
                self.close(TRY_AGAIN, "reads too slowly")
                return False
        try:
            self.conn.send_text(data)
        except InvalidState:
            return False
        self._answers = min(self._answers + 1, ANSWERS)
        self._flush()
        return True

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Say goodbye and hang up; what was sent before has ``CLOSE_SECONDS`` to be taken."""
        if self.close_sent or self.transport.is_closing():
            self._finish(code)
            return
        self.close_sent = True
        try:
            self.conn.send_close(code, reason.encode()[:120].decode("utf-8", "ignore"))
            self._flush()
        except InvalidState:
            self.transport.close()
        self.close_timer = self.loop.call_later(CLOSE_SECONDS, self.abandon)
        self._finish(code)

    async def ping(self, seconds: float) -> float | None:
        """Seconds until the answer to a ping, or None when none came in time."""
        if self.close_sent or self.ended.done() or len(self._pings) >= OPEN_PINGS:
            return None
        self._ping_number += 1
        payload = b"p%d" % self._ping_number
        answered: asyncio.Future[float | None] = self.loop.create_future()
        self._pings[payload] = (self.loop.time(), answered)
        try:
            self.conn.send_ping(payload)
            self._flush()
            async with asyncio.timeout(seconds):
                return await answered
        except (TimeoutError, InvalidState):
            return None
        finally:
            self._pings.pop(payload, None)

    def abandon(self) -> None:
        """Hang up at once."""
        self.transport.abort()

    # ------------------------------------------------------------------ what comes from the network

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.handshake_complete:  # the task that asks the application has not begun yet
            self.scope["extensions"][EXTENSION] = {"connection": self}

    def data_received(self, data: bytes) -> None:
        self._missed = 0
        super().data_received(data)
        if self._limits is None:
            return
        held = 0 if self.close_sent else len(self.conn.reader.buffer) + len(self._message)
        self._traffic.incoming += held - self._held
        self._held = held
        if held and self._traffic.incoming > self._limits.incoming_bytes:
            log.warning("WebSocket client %s is dropped: unfinished messages take too much memory", self.address)
            self._fail(TRY_AGAIN, "too much at once")

    def handle_text(self, event: Frame) -> None:
        self._begin("text", event)

    def handle_bytes(self, event: Frame) -> None:
        self._begin("bytes", event)

    def _begin(self, kind: str, event: Frame) -> None:
        self.curr_msg_data_type = "text" if kind == "text" else "bytes"
        self._empty_fragments = 0
        if event.fin:
            self._complete(event.data)
        else:
            self._message = bytearray(event.data)

    def handle_cont(self, event: Frame) -> None:
        self._message += event.data
        if not event.data and not event.fin:
            self._empty_fragments += 1
            if self._empty_fragments > EMPTY_FRAGMENTS:
                self._fail(POLICY, "empty fragments")
                return
        if event.fin:
            data, self._message = bytes(self._message), bytearray()
            self._complete(data)

    def _complete(self, data: bytes | bytearray | memoryview) -> None:
        if self._handler is None:
            self.frames = [bytes(data)]
            self.send_receive_event_to_app()
            return
        if self.close_sent or not self._counted():
            return
        if self.curr_msg_data_type == "bytes":
            self._deliver(None, bytes(data))
            return
        try:
            text = str(data, "utf-8")
        except UnicodeDecodeError:
            self._fail(1007, "not UTF-8")
            return
        self._deliver(text, None)

    def _deliver(self, text: str | None, data: bytes | None) -> None:
        assert self._handler is not None
        if text is not None:
            self._guarded(self._handler.text, text)
        elif data is not None:
            self._guarded(self._handler.binary, data)

    def _guarded(self, method: object, *arguments: object) -> None:
        try:
            method(*arguments)  # type: ignore[operator]  # one of the handler's methods
        except Exception:  # the boundary of who serves it: a fault costs this client, not the server
            log.exception("serving WebSocket client %s failed", self.address)
            self.close(FAULT, "internal error")

    def _counted(self) -> bool:
        """Count one message or ping; one beyond the limit of a second ends the connection.

        Not if the client may be answering: a far node has one message for each call that it was sent, however many
        calls a second there are.
        """
        assert self._limits is not None
        second = int(monotonic())
        if second != self._second:
            self._second, self._frames_in_second = second, 0
        self._frames_in_second += 1
        if self._frames_in_second <= self._limits.frames_per_second:
            return True
        if self._answers:
            self._answers -= 1
            return True
        log.warning("WebSocket client %s sends too many messages and is dropped", self.address)
        self._fail(POLICY, "too many messages in a second")
        return False

    def handle_ping(self) -> None:
        if self._limits is None or self._counted():
            self._flush()
            if self._limits is not None and self.waiting > self._limits.queue_bytes:
                self._fail(TRY_AGAIN, "reads too slowly")

    def handle_pong(self, event: Frame) -> None:
        if (open_ping := self._pings.pop(bytes(event.data), None)) is not None and not open_ping[1].done():
            open_ping[1].set_result(self.loop.time() - open_ping[0])

    def handle_close(self, event: Frame) -> None:
        super().handle_close(event)
        if self.close_timer is None:  # it said goodbye, but may not take ours
            self.close_timer = self.loop.call_later(CLOSE_SECONDS, self.abandon)
        received = self.conn.close_rcvd
        self._finish(received.code if received is not None else 1005)

    def handle_parser_exception(self) -> None:
        super().handle_parser_exception()
        sent = self.conn.close_sent
        self._finish(sent.code if sent is not None else PROTOCOL_ERROR)

    # ------------------------------------------------------------------ life

    def start_keepalive(self) -> None:
        """Nothing: uvicorn's pings start before it is known who serves the connection."""

    def _heartbeat(self) -> None:
        self._beat = None
        if self.close_sent or self.ended.done() or self._limits is None:
            return
        if self._missed >= MISSED_PONGS:
            log.info("WebSocket client %s answers no more", self.address)
            self._fail(FAULT, "no answer to pings")
            return
        self._missed += 1
        self.conn.send_ping(b"beat")
        self._flush()
        self._beat = self.loop.call_later(self._limits.ping_seconds, self._heartbeat)

    def _fail(self, code: int, reason: str) -> None:
        """Close without waiting for the client, which is at fault."""
        self.close(code, reason)
        self.transport.close()

    def _flush(self) -> None:
        self.transport.write(b"".join(self.conn.data_to_send()))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._frames_waiting = 0

    def shutdown(self) -> None:
        """The server stops while the handshake is going on."""
        if self._handler is None:
            super().shutdown()
        else:
            self.close(SERVER_LEAVES, "the server stops")

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.add(self)  # it was taken out in `serve`, and uvicorn wants to do that
        super().connection_lost(exc)
        self._traffic.incoming -= self._held
        self._held = 0
        self._finish(1006)

    def _finish(self, code: int) -> None:
        """The handler is told once, as soon as nothing more can be sent."""
        self._traffic.open.discard(self)
        if self.ended.done():
            return
        self.ended.set_result(code)
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
        for _, answered in self._pings.values():
            if not answered.done():
                answered.set_result(None)
        if self._handler is not None:
            self._guarded(self._handler.closed, code)


class _OpenSocket:
    """The connection as its handler sees it; uvicorn's has a ``send`` of its own."""

    __slots__ = ("_connection",)

    def __init__(self, connection: SocketConnection) -> None:
        self._connection = connection

    @property
    def address(self) -> str:
        return self._connection.address

    @property
    def waiting(self) -> int:
        return self._connection.waiting

    def send(self, text: str | bytes) -> bool:
        return self._connection.transmit(text)

    def close(self, code: int = 1000, reason: str = "") -> None:
        self._connection.close(code, reason)

    async def ping(self, seconds: float) -> float | None:
        return await self._connection.ping(seconds)
