"""What the WebSockets of a server cost together: limits, memory, counts, and who is open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from websockets.frames import Frame, Opcode

from app.web.socket_flow import Rests

log = logging.getLogger(__name__)

END_REASONS = ("client", "server", "lost", "silent", "slow", "memory", "flood", "long", "protocol", "fault")
"""Why a WebSocket ended: its client or the server said goodbye, the line broke, pings stayed unanswered, the client
read too slowly, held too much memory, sent too often, too long a message or no WebSocket, or serving it failed."""


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """What one client may cost now; sizes in bytes. ``incoming_bytes`` is for all clients together."""

    message_bytes: int
    queue_bytes: int
    incoming_bytes: int
    frames_per_second: int
    ping_seconds: float


class Sender(Protocol):
    """A client that may hold parts of a message."""

    def give_up(self) -> None:
        """Hang up: the memory is needed."""
        ...


class SocketTraffic:
    """What unfinished messages hold, and how WebSockets ended; shared by all listeners of a server."""

    def __init__(self) -> None:
        self.ended = dict.fromkeys(END_REASONS, 0)
        self.incoming = 0
        self.rests = Rests()
        self._held: dict[Sender, int] = {}
        self._text: bytes | None = None
        self._frame = b""

    def hold(self, sender: Sender, held: int, limit: int) -> None:
        """A client holds this many bytes of unfinished messages; beyond the limit of all, who holds most is given up.

        That frees more than it would to give up who happened to send last, and hits nobody who holds little.
        """
        before = self._held.get(sender, 0)
        if held == before:
            return
        self.incoming += held - before
        if held:
            self._held[sender] = held
        else:
            del self._held[sender]
        while held > before and self.incoming > limit and self._held:
            most = max(self._held, key=self._held.__getitem__)
            self.incoming -= self._held.pop(most)
            most.give_up()

    def frame(self, text: bytes, soon: Callable[[Callable[[], None]], object]) -> bytes:
        """The frame of a text message. It is made once for all who are told the same bytes in one step of the loop.

        ``soon`` calls a function when this step is over: then the frame is forgotten.
        """
        if text is self._text:
            return self._frame
        if self._text is None:
            soon(self._forget)
        self._text, self._frame = text, Frame(Opcode.TEXT, text).serialize(mask=False)
        return self._frame

    def _forget(self) -> None:
        self._text, self._frame = None, b""


class Leaving(Protocol):
    """An open connection that can be ended."""

    gone: asyncio.Future[None]

    def leave(self) -> None:
        """Say goodbye."""
        ...

    def abandon(self) -> None:
        """Hang up at once."""
        ...


class OpenSockets:
    """The connections of one listener, and the tasks that wait for their end."""

    def __init__(self) -> None:
        self.connections: set[Leaving] = set()
        self.tasks: set[asyncio.Task[object]] = set()

    async def close_all(self, seconds: float) -> None:
        """Say goodbye to everybody, hang up on who has not gone after ``seconds``, and wait until all are gone."""
        for connection in list(self.connections):
            connection.leave()
        if waiting := [connection.gone for connection in self.connections]:
            await asyncio.wait(waiting, timeout=seconds)
        for connection in list(self.connections):
            connection.abandon()
        if waiting := [connection.gone for connection in self.connections]:
            await asyncio.wait(waiting, timeout=seconds)
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=seconds)
