"""A client's WebSocket: uvicorn's, with limits of its own, that leads messages straight to who serves them.

uvicorn hands each message through a queue to a task, has one message limit for all paths, and waits for slow clients.
Here a message is handed over in the step that completed it, each path has its limit, and nobody is waited for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.exceptions import InvalidState, PayloadTooBig
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State

from app.extend import SocketHandler
from app.web.open_socket import OpenSocket
from app.web.socket_flow import BEAT, PIECE_BYTES, SMALL_PART_BYTES, Backlog, FrameRate, Pings, Turn
from app.web.socket_traffic import OpenSockets, SocketLimits, SocketTraffic

log = logging.getLogger(__name__)

# Handshakes hold keys, and these loggers would write them down.
_quiet = logging.getLogger("app.web.socket_connection.library")
_quiet.setLevel(logging.CRITICAL)

EXTENSION = "vcp.socket"
"""Key of the ASGI scope's extensions under which the application finds the connection."""

EARLY_BYTES = 64 * 1024
"""What a client may send before it was let in."""

CLOSE_SECONDS = 5.0
"""How long a client may take to say goodbye, or to take what was sent before."""

CONTROL_BYTES = 125
"""The longest ping; it may come inside a message that is as long as it may be."""

SERVER_LEAVES, PROTOCOL_ERROR, NO_TEXT, POLICY, TOO_LONG, FAULT, TRY_AGAIN = 1001, 1002, 1007, 1008, 1009, 1011, 1013
NO_CODE, NO_GOODBYE = 1005, 1006


class SocketConnection(WebSocketsSansIOProtocol):
    """One WebSocket. Until :meth:`serve` it is uvicorn's, which asks the application; from then on its handler's.

    ``ended`` has the close code as soon as nothing more can be sent, ``gone`` is done when the line is down.
    """

    _limits: Callable[[], SocketLimits]

    def __init__(self, opened: OpenSockets, config: Config, server_state: ServerState, **others: object) -> None:
        super().__init__(config, server_state, **others)  # type: ignore[arg-type]  # app_state, which differs by version
        self.logger = _quiet
        self.conn.logger = _quiet
        self.conn.debug = False
        self.conn.max_message_size = EARLY_BYTES
        self.address = ""
        self.ended: asyncio.Future[int] = self.loop.create_future()
        self.gone: asyncio.Future[None] = self.loop.create_future()
        self._opened = opened
        self._early = bytearray()
        self._handler: SocketHandler | None = None
        self._traffic = SocketTraffic()
        self._message = bytearray()
        self._kind = Opcode.TEXT
        self._rate, self._backlog, self._pings = FrameRate(), Backlog(), Pings()
        self._sent = 0
        self._unread = bytearray()
        self._resting: asyncio.Handle | None = None
        self._beat: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------------ what the application and handlers use

    def serve(
        self, handler: SocketHandler, address: str, limits: Callable[[], SocketLimits], traffic: SocketTraffic
    ) -> None:
        """The handshake is done: from now on ``handler`` gets everything. It gets nothing if the client is gone again.

        uvicorn's lists forget the connection, since a stop of the server waits for those in them.
        """
        if self.ended.done() or self.transport.is_closing():
            self._finish(NO_GOODBYE, "lost")
            return
        self.address = address
        self._handler, self._limits, self._traffic = handler, limits, traffic
        self.connections.discard(self)
        self._opened.connections.add(self)
        if (task := asyncio.current_task()) is not None:
            self.tasks.discard(task)
            self._opened.tasks.add(task)
            task.add_done_callback(self._opened.tasks.discard)
        self._beat = self.loop.call_later(limits().ping_seconds, self._heartbeat)
        self._guarded(handler.opened, OpenSocket(self))
        if self._early and not self.transport.is_closing():
            early, self._early = bytes(self._early), bytearray()
            self.data_received(early)

    @property
    def waiting(self) -> int:
        """Bytes that the client has not taken yet."""
        return self.transport.get_write_buffer_size()

    def transmit(self, text: str | bytes) -> bool:
        """Put a text message on its way; False when the socket is closed, also because the client is too slow.

        A client that is given up here hears of it, and its handler too, in a later step: whoever tells many something
        is not interrupted by the ends of those that he tells it to.
        """
        if self.close_sent or self._handler is None or self.transport.is_closing() or self.conn.state is not State.OPEN:
            return False
        data = text.encode("utf-8", "replace") if isinstance(text, str) else text
        if not (self.writable.is_set() or self._backlog.allows(self.waiting, len(data), self._limits().queue_bytes)):
            log.warning("WebSocket client %s reads too slowly and is dropped", self.address)
            self._say_goodbye(TRY_AGAIN, "reads too slowly")
            self.loop.call_soon(self._finish, TRY_AGAIN, "slow")
            self._leave()
            return False
        self._rate.earn()
        self._write(self._traffic.frame(data, self.loop.call_soon))
        return True

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Say goodbye and hang up; what was sent before has ``CLOSE_SECONDS`` to be taken.

        Raises ProtocolError, and nothing has happened, for a code that must not be sent (RFC 6455 7.4).
        """
        self._close(code, reason, "server")

    def leave(self) -> None:
        """The server stops."""
        self.close(SERVER_LEAVES, "the server stops")

    async def ping(self, seconds: float) -> float | None:
        """Seconds until the answer to a ping, or None when none came in time."""
        answered: asyncio.Future[float | None] = self.loop.create_future()
        if self.close_sent or self.ended.done() or not (payload := self._pings.begin(self.loop.time(), answered)):
            return None
        try:
            self.conn.send_ping(payload)
            self._flush()
            async with asyncio.timeout(seconds):
                return await answered
        except (TimeoutError, InvalidState):
            return None
        finally:
            self._pings.forget(payload)

    def abandon(self) -> None:
        """Hang up at once."""
        self.transport.abort()

    def give_up(self) -> None:
        """All clients together hold too much, and this one holds most of it."""
        log.warning("WebSocket client %s is dropped: unfinished messages take too much memory", self.address)
        self._fail(TRY_AGAIN, "too much at once", "memory")

    # ------------------------------------------------------------------ what comes from the network

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.handshake_complete:  # the task that asks the application has not begun yet
            self.scope["extensions"][EXTENSION] = {"connection": self}

    def data_received(self, data: bytes) -> None:
        self._pings.missed = 0
        if self._handler is None:
            self._received_early(data)
        elif self._resting is not None:
            self._unread += data
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        limits, turn = self._limits(), Turn(time.perf_counter())
        self.conn.max_message_size = limits.message_bytes + CONTROL_BYTES
        for start in range(0, len(data), PIECE_BYTES):
            self.conn.receive_data(data[start : start + PIECE_BYTES])
            for frame in self.conn.events_received():
                assert isinstance(frame, Frame)
                self._take(frame, limits)
                if self.transport.is_closing():
                    return
            if self.conn.parser_exc is not None:
                self.handle_parser_exception()
                return
            if turn.is_over(time.perf_counter()):
                self._unread += data[start + PIECE_BYTES :]
                self._rest(turn.rest)
                break
        self._traffic.hold(
            self, len(self.conn.reader.buffer) + len(self._message) + len(self._unread), limits.incoming_bytes
        )

    def _rest(self, seconds: float) -> None:
        """Others have their turn: nothing is read of this client until ``seconds`` of work have been rested from."""
        self.transport.pause_reading()
        pause = self._traffic.rests.after(seconds, self.loop.time()) if seconds else 0.0
        self._resting = self.loop.call_later(pause, self._read_on)

    def _read_on(self) -> None:
        self._resting = None
        if self.transport.is_closing():
            return
        unread, self._unread = bytes(self._unread), bytearray()
        self.transport.resume_reading()
        if unread:
            self._read(unread)

    def _received_early(self, data: bytes) -> None:
        if not self.handshake_initiated:
            super().data_received(data)
            if not self.handshake_initiated:  # no handshake at all: the library wants to say so, uvicorn waits
                self._flush()
                self._leave()
        elif self.handshake_complete:  # another application, or nobody any more
            super().data_received(data)
        elif len(self._early) + len(data) > EARLY_BYTES:
            self.abandon()
        else:
            self._early += data  # nobody may send before he was let in (RFC 6455 4.1), but it does no harm

    def _take(self, frame: Frame, limits: SocketLimits) -> None:
        opcode = frame.opcode
        if opcode is Opcode.CLOSE:
            self.handle_close(frame)
            return
        if opcode is Opcode.PONG and self._pings.answered(bytes(frame.data), self.loop.time()):
            return
        if (frame.fin or len(frame.data) < SMALL_PART_BYTES) and not self._counted(limits):
            return
        if opcode is Opcode.PING:
            self._flush()  # the library made the answer
            if self.waiting > self._backlog.ahead + limits.queue_bytes:
                self._fail(TRY_AGAIN, "reads too slowly", "slow")
        elif opcode is not Opcode.PONG and not self.close_sent:
            self._take_part(frame, limits)

    def _take_part(self, frame: Frame, limits: SocketLimits) -> None:
        if frame.opcode is not Opcode.CONT:
            self._kind = frame.opcode
        if len(self._message) + len(frame.data) > limits.message_bytes:
            self._fail(TOO_LONG, "the message is too long", "long")
        elif not frame.fin:
            self._message += frame.data
        elif self._message:
            self._message += frame.data
            message, self._message = self._message, bytearray()
            self._complete(message)
        else:
            self._complete(frame.data)

    def _complete(self, data: bytes | bytearray | memoryview) -> None:
        assert self._handler is not None
        if self._kind is Opcode.BINARY:
            self._guarded(self._handler.binary, bytes(data))
            return
        try:
            text = str(data, "utf-8")
        except UnicodeDecodeError:
            self._fail(NO_TEXT, "not UTF-8", "protocol")
            return
        self._guarded(self._handler.text, text)

    def _guarded(self, method: Callable[..., None], *arguments: object) -> None:
        try:
            method(*arguments)
        except Exception:  # the boundary of who serves it: a fault costs this client, not the server
            log.exception("serving WebSocket client %s failed", self.address)
            self._close(FAULT, "internal error", "fault")

    def _counted(self, limits: SocketLimits) -> bool:
        """Count one message, ping or small part; one beyond the limit of a second ends the connection."""
        if self._rate.allows(self.loop.time(), limits.frames_per_second):
            return True
        log.warning("WebSocket client %s sends too many messages and is dropped", self.address)
        self._fail(POLICY, "too many messages in a second", "flood")
        return False

    def handle_close(self, event: Frame) -> None:
        if self._handler is None:
            super().handle_close(event)
        self._flush()
        received = self.conn.close_rcvd
        self._finish(received.code if received is not None else NO_CODE, "client")
        self._leave()

    def handle_parser_exception(self) -> None:
        too_long = isinstance(self.conn.parser_exc, PayloadTooBig)
        super().handle_parser_exception()
        sent = self.conn.close_sent
        self._finish(sent.code if sent is not None else PROTOCOL_ERROR, "long" if too_long else "protocol")
        self._leave()

    def eof_received(self) -> None:
        """The client sends no more: without a goodbye, and it need not take what waits for it."""
        self._finish(NO_GOODBYE, "lost")
        self._leave()

    # ------------------------------------------------------------------ what goes to the network

    def pause_writing(self) -> None:
        super().pause_writing()
        self._backlog.begin(self.waiting)
        self.loop.call_soon(self._still_waiting)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._backlog.end()

    def _still_waiting(self) -> None:
        self._backlog.stuck = not self.writable.is_set()

    def _write(self, data: bytes) -> None:
        self._sent += len(data)
        self.transport.write(data)

    def _flush(self) -> None:
        self._write(b"".join(self.conn.data_to_send()))

    # ------------------------------------------------------------------ life

    def start_keepalive(self) -> None:
        """Nothing: uvicorn's pings start before it is known who serves the connection."""

    def _heartbeat(self) -> None:
        self._beat = None
        if self.close_sent or self.ended.done():
            return
        if not self._pings.beat(self._sent - self.waiting, stuck=not self.writable.is_set()):
            log.info("WebSocket client %s answers no more", self.address)
            self._fail(FAULT, "no answer to pings", "silent")
            return
        self.conn.send_ping(BEAT)
        self._flush()
        self._beat = self.loop.call_later(self._limits().ping_seconds, self._heartbeat)

    def _close(self, code: int, reason: str, why: str) -> None:
        if not self.close_sent and not self.transport.is_closing():
            self._say_goodbye(code, reason)
        self._finish(code, why)

    def _say_goodbye(self, code: int, reason: str) -> None:
        Close(code, "").check()
        try:
            self.conn.send_close(code, reason.encode()[:120].decode("utf-8", "ignore"))
        except InvalidState:  # the client said goodbye first, and the library has answered
            self._leave()
        self.close_sent = True
        self._flush()
        self._hang_up_later()

    def _fail(self, code: int, reason: str, why: str) -> None:
        """Close without waiting for the client, which is at fault, and free what it holds."""
        self._close(code, reason, why)
        self._message = bytearray()
        self.conn.reader.buffer.clear()
        self._traffic.hold(self, 0, 0)
        self._leave()

    def _leave(self) -> None:
        """Read no more; the line is cut when what waits for the client was taken, or after a time."""
        self.close_sent = True
        self._hang_up_later()
        self.transport.close()

    def _hang_up_later(self) -> None:
        if self.close_timer is None and not self.gone.done():
            self.close_timer = self.loop.call_later(CLOSE_SECONDS, self.abandon)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.add(self)  # it was taken out in `serve`, and uvicorn wants to do that
        super().connection_lost(exc)
        self._finish(NO_GOODBYE, "lost")
        self._traffic.hold(self, 0, 0)
        self._message, self._early, self._unread = bytearray(), bytearray(), bytearray()
        if self._resting is not None:
            self._resting.cancel()
        self._opened.connections.discard(self)
        if not self.gone.done():
            self.gone.set_result(None)

    def _finish(self, code: int, why: str) -> None:
        """The handler is told once, as soon as nothing more can be sent."""
        if self.ended.done():
            return
        self.ended.set_result(code)
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
        self._pings.end()
        if self._handler is not None:
            self._traffic.ended[why] += 1
            self._guarded(self._handler.closed, code)
