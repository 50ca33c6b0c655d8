"""One connection to the main server, from the introduction to its end (spec 6.4, node side)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from app.extend import Json
from app.hub.clients import decoded, has_too_many_values
from app.node.calls import Calls
from app.node.line import Line

log = logging.getLogger(__name__)

FIRST_TEXTS_SECONDS = 2.0
TEXTS_SECONDS = 30.0
SETTLE_SECONDS = 0.2
"""How long plugins may go on changing before the tools are told anew."""

BIG_BYTES = 256 * 1024
"""Messages above this are parsed in a thread."""

MAX_COMPLAINTS = 20
"""Faulty messages of one connection that are logged; of the rest only that there are more."""


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What a session tells and whom it asks.

    ``registration`` and ``texts`` give the messages of now (``texts`` None: there were never any); ``addresses`` makes
    the message about this machine's addresses, given the one of the line. ``ping_seconds`` is the pause between pings.
    """

    calls: Calls
    registration: Callable[[], bytes]
    texts: Callable[[], bytes | None]
    addresses: Callable[[str], Awaitable[bytes]]
    ping_seconds: Callable[[], float]
    first_texts_seconds: float = FIRST_TEXTS_SECONDS
    texts_seconds: float = TEXTS_SECONDS


class Session:
    """Serves one line."""

    def __init__(self, line: Line, parts: SessionParts, joined: Callable[[], None]) -> None:
        self._line = line
        self._parts = parts
        self._joined = joined
        self._changed = asyncio.Event()
        self._complaints = 0

    def changed(self) -> None:
        """The tools may be different ones."""
        self._changed.set()

    async def serve(self) -> None:
        """Introduce this node and serve until the line ends; raises ConnectionClosed then.

        Calls that still run go on; their results have no way back.
        """
        registered = self._parts.registration()
        await self._line.send(registered)
        await self._line.send(await self._parts.addresses(self._line.local_address))
        self._joined()
        beside = [
            asyncio.create_task(work)
            for work in (
                self._register_again(registered),
                self._send_texts(),
                self._line.keep(self._parts.ping_seconds),
            )
        ]
        self._line.take_at_once(self._take_at_once)
        try:
            await self._listen()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
            for task in beside:
                if not task.cancelled() and (fault := task.exception()) is not None:
                    log.error("a part of the connection to the main server failed", exc_info=fault)

    async def _listen(self) -> None:
        while True:
            data = await self._line.receive()
            message = await asyncio.to_thread(_read, data) if len(data) > BIG_BYTES else _read(data)
            kind = message.get("type") if message is not None else None
            body: Json = message.get("data") if message is not None else None
            if kind == "execute_tool":
                self._complain(await self._parts.calls.take(self._line, body, len(data)))
            elif kind == "cancel_tool":
                self._complain(self._parts.calls.cancel(self._line, body))
            elif message is None:
                self._complain("a message that is no JSON object; ignored")
            else:
                log.debug("a message of another type from the main server; ignored")

    def _take_at_once(self, data: bytes) -> bool:
        """Begin the call that a short message asks for; whatever else it says is left to ``_listen``."""
        message = _read(data)
        if message is None or message.get("type") != "execute_tool":
            return False
        return self._parts.calls.begin(self._line, message.get("data"), len(data)) is None

    def _complain(self, what: str) -> None:
        if not what:
            return
        self._complaints += 1
        if self._complaints <= MAX_COMPLAINTS:
            log.warning("main server: %s", what)
        if self._complaints == MAX_COMPLAINTS:
            log.warning("main server: further faults of this connection are not logged")

    async def _register_again(self, registered: bytes) -> None:
        """Tell the tools anew whenever they are others than those told."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._changed.clear()
            now = self._parts.registration()
            if now != registered:
                registered = now
                if await self._line.send(registered):
                    log.info("the changed tools were told to the main server")

    async def _send_texts(self) -> None:
        """Send the texts of static plugins, and again when they are others."""
        sent: bytes | None = None
        await asyncio.sleep(self._parts.first_texts_seconds)
        while True:
            now = self._parts.texts()
            if now is not None and now != sent and await self._line.send(now):
                sent = now
            await asyncio.sleep(self._parts.texts_seconds)


def _read(data: bytes) -> dict[str, Json] | None:
    """The object of a message, or None when it is none, no UTF-8, or has too many values."""
    if has_too_many_values(data):
        return None
    with suppress(UnicodeDecodeError):
        message = decoded(data.decode("utf-8"))
        return dict(message) if message is not None else None
    return None
