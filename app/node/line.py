"""The one WebSocket to the main server: opened, kept alive, bounded both ways."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.protocol import Event, State

from app.hub.clients import Message, encoded

log = logging.getLogger(__name__)

OPEN_SECONDS = 20.0
CLOSE_SECONDS = 2.0
MISSED_PINGS = 2
"""Pings without any sign of life before a line is given up (P81)."""

QUEUED_FRAMES = 2
"""Whole frames that are read ahead; together with the longest frame this bounds what a main server can make us hold."""

SMALL_BYTES = 16 * 1024
"""Messages up to this are given to a network that takes them without waiting for it; they fill no memory."""

MEBIBYTE = 1024 * 1024


Taken = Callable[[bytes], bool]
"""Takes a message at once, or says False and leaves it to who receives."""


class _Wire(ClientConnection):
    """A connection that counts what it hears. ``takes`` gets whole text messages in the step in which they come.

    ``ahead`` are the messages that wait for who receives, with the one that he works on: as long as there are any,
    further ones stay behind them.
    """

    heard = 0
    ahead = 0
    takes: Taken | None = None

    def data_received(self, data: bytes) -> None:
        self.heard += 1
        super().data_received(data)

    def process_event(self, event: Event) -> None:
        if isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.BINARY):
            at_once = self.takes if event.fin and not self.ahead and len(event.data) <= SMALL_BYTES else None
            if at_once is not None and event.opcode is Opcode.TEXT and at_once(bytes(event.data)):
                return
            self.ahead += 1
        super().process_event(event)

    def send_at_once(self, text: bytes) -> bool:
        """Give a text message to the network if it takes more now; False, and nothing has happened, if not.

        What the library's own ``send`` does in this case, without its wait and at half the price.
        """
        if self.paused or self.protocol.state is not State.OPEN or self.transport.is_closing():
            return False
        self.protocol.send_text(text)
        self.send_data()
        return True


class _Opening(connect):
    """An opening that goes to its address and nowhere else: the address holds the key."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Line:
    """An open connection.

    ``max_queued`` gives the most bytes that may wait for a main server that does not read; more closes the line.
    """

    def __init__(self, wire: _Wire, max_queued: Callable[[], int]) -> None:
        self._wire = wire
        self._max_queued = max_queued
        self._turn = asyncio.Lock()
        self._queued = 0
        self._sent = 0
        self._received = False

    @property
    def open(self) -> bool:
        """False once the connection is closing or closed."""
        return self._wire.state is State.OPEN

    @property
    def local_address(self) -> str:
        """This machine's address, as the main server's network sees it; empty when the line is gone."""
        name = self._wire.transport.get_extra_info("sockname")
        return str(name[0]) if isinstance(name, tuple) and name else ""

    async def send(self, message: Message | bytes) -> bool:
        """Send a message and wait until the network has taken it; False when the line is gone.

        A frame at a time is given to the network; the others wait here, and are counted.
        """
        data = message if isinstance(message, bytes) else encoded(message)
        if not self.open:
            return False
        if not self._queued and len(data) <= SMALL_BYTES and self._wire.send_at_once(data):
            self._sent += 1
            return True
        if self._queued and self._queued + len(data) > self._max_queued():
            self.cut(f"{self._queued} bytes wait already for the main server, which does not take them")
            return False
        self._queued += len(data)
        try:
            async with self._turn:
                await self._wire.send(data, text=True)
        except ConnectionClosed:
            return False
        finally:
            self._queued -= len(data)
            self._sent += 1
        return True

    async def deliver(self, message: bytes) -> bool:
        """Send a message and wait until the main server has read it; False when the line is gone before.

        The answer to a ping that is sent behind the message is the receipt that the protocol does not have.
        """
        if not await self.send(message):
            return False
        try:
            await (await self._wire.ping())
        except ConnectionClosed:
            return False
        return self.open  # a server that refused the message says goodbye right behind its answer

    def take_at_once(self, takes: Taken) -> None:
        """Offer short messages to ``takes`` in the step in which they come, unless others are before them."""
        self._wire.takes = takes

    async def receive(self) -> bytes:
        """The next message that was not taken at once; the one before is done. Raises ConnectionClosed at the end."""
        if self._received:
            self._wire.ahead -= 1
            self._received = False
        data = await self._wire.recv(decode=False)
        self._received = True
        return data

    async def keep(self, seconds: Callable[[], float]) -> None:
        """Ping every so many seconds until the line is gone; give it up when there is no sign of life.

        Signs of life are bytes that come and bytes that are taken: a long message holds up pings on its way.
        """
        missed, seen = 0, self._signs()
        while self.open:
            await asyncio.sleep(seconds())
            now = self._signs()
            missed, seen = (missed + 1, now) if now == seen else (0, now)
            if missed >= MISSED_PINGS:
                self.cut("the main server is silent")
                return
            if not self._wire.transport.get_write_buffer_size():  # else a ping would stand behind what waits
                try:
                    await self._wire.ping()
                except ConnectionClosed:
                    return

    def _signs(self) -> tuple[int, int, int]:
        return self._wire.heard, self._sent, self._wire.transport.get_write_buffer_size()

    def cut(self, reason: str) -> None:
        """Break the line off at once."""
        log.warning("the line to the main server is given up: %s", reason)
        self._wire.transport.abort()

    async def close(self) -> None:
        """Say goodbye and hang up, within ``CLOSE_SECONDS`` or so."""
        try:
            async with asyncio.timeout(2 * CLOSE_SECONDS):
                await self._wire.close(1001, "the node is stopping")
        except TimeoutError:
            self._wire.transport.abort()


async def open_line(
    address: str,
    headers: dict[str, str],
    *,
    tls: ssl.SSLContext | None,
    proxy: str | None,
    max_frame: int,
    max_queued: Callable[[], int],
    agent: str,
) -> Line:
    """Connect; ``max_frame`` is the longest message in bytes that is taken.

    Raises what the library raises: OSError, TimeoutError, WebSocketException. Their words may hold the address.
    """
    quiet = logging.getLogger(f"{__name__}.wire")
    quiet.setLevel(logging.WARNING)  # what the library logs below that holds the address, and with it the key
    wire = await _Opening(
        address,
        additional_headers=headers,
        user_agent_header=agent,
        proxy=proxy,
        ssl=tls,
        compression=None,
        open_timeout=OPEN_SECONDS,
        close_timeout=CLOSE_SECONDS,
        ping_interval=None,
        max_size=max_frame,
        max_queue=QUEUED_FRAMES,
        logger=quiet,
        create_connection=_Wire,
    )
    assert isinstance(wire, _Wire)
    return Line(wire, max_queued)
