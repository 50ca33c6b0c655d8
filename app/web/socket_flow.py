"""What is counted on one WebSocket: messages a second, what waits for its client, and pings that are unanswered."""

from __future__ import annotations

import asyncio

ANSWERS = 1000
"""Messages to a client that are remembered, as many as may wait for it."""

FRAMES_WAITING = 1000
"""Messages that may be put behind a client that does not read, before it is given up (WS-15)."""

MISSED_PONGS = 2
"""Pings in a row without any sign of life, after which a client is gone (P81)."""

OPEN_PINGS = 16
"""Pings of ours that may be unanswered at a time, beside the regular ones."""

PIECE_BYTES = 16 * 1024
"""How much is read before it is looked at who sent too many messages, and what they cost."""

SMALL_PART_BYTES = 4 * 1024
"""A part of a message that is shorter counts like a whole one: each costs the same, however little is in it."""

TURN_SECONDS = 0.01
"""How long one client's messages are read at a stretch."""

HEAVY_SECONDS = 0.05
REST = 3.0
LONGEST_REST = 5.0
"""After a piece that took longer than ``HEAVY_SECONDS``: how many times as long nothing is read, seconds at most."""

BEAT = b"beat"
"""What a regular ping says."""


class FrameRate:
    """Messages in the second of now.

    What is sent to a client earns it an answer beyond the limit: a far node has a message for each call that it is
    sent, however many calls a second there are.
    """

    __slots__ = ("_answers", "_count", "_second")

    def __init__(self) -> None:
        self._second, self._count, self._answers = 0, 0, 0

    def earn(self) -> None:
        """A message went to the client."""
        self._answers = min(self._answers + 1, ANSWERS)

    def allows(self, now: float, limit: int) -> bool:
        """Count one at the time ``now`` (seconds); False when there were more than ``limit`` in this second."""
        second = int(now)
        if second != self._second:
            self._second, self._count = second, 0
        self._count += 1
        if self._count <= limit:
            return True
        if self._answers:
            self._answers -= 1
            return True
        return False


class Turn:
    """How long one client has been read at a stretch, from ``began`` on, by a steady clock.

    It is over after ``TURN_SECONDS``. A message that takes longer than ``HEAVY_SECONDS`` costs a ``rest`` beside: its
    seconds, otherwise 0.
    """

    __slots__ = ("_began", "_last", "rest")

    def __init__(self, began: float) -> None:
        self._began = self._last = began
        self.rest = 0.0

    def is_over(self, now: float) -> bool:
        """Whether others have their turn now; to be asked after each piece that was read."""
        took, self._last = now - self._last, now
        if took > HEAVY_SECONDS:
            self.rest = took
        return now - self._began > TURN_SECONDS


class Rests:
    """When clients that gave much to do are read again: all of them together get a part of the time."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = 0.0

    def after(self, worked: float, now: float) -> float:
        """Seconds to rest after ``worked`` seconds; those of other clients count too."""
        self._until = min(max(self._until, now) + worked * REST, now + LONGEST_REST)
        return self._until - now


class Backlog:
    """What was put behind a client that does not take what it gets.

    Messages count once the line was given a chance to take what is before them: a loop may collect what is written and
    send it at the end of its step. Bytes count beyond the message that filled the line, which may be longer than all
    that is allowed to wait.
    """

    __slots__ = ("_frames", "ahead", "stuck")

    def __init__(self) -> None:
        self._frames, self.ahead, self.stuck = 0, 0, False

    def begin(self, waiting: int) -> None:
        """The line is full, with ``waiting`` bytes in it."""
        self._frames, self.ahead, self.stuck = 0, waiting, False

    def end(self) -> None:
        """The line takes more again."""
        self.ahead, self.stuck = 0, False

    def allows(self, waiting: int, length: int, limit: int) -> bool:
        """Whether a message of ``length`` bytes may be put behind the ``waiting`` ones, of which ``limit`` may wait."""
        self._frames += self.stuck
        return self._frames <= FRAMES_WAITING and waiting + length <= self.ahead + limit


class Pings:
    """Our pings and their answers. ``missed`` counts regular ones in a row without any sign of life."""

    __slots__ = ("_beat_open", "_last", "_open", "_taken", "missed")

    def __init__(self) -> None:
        self.missed = 0
        self._last = 0
        self._beat_open = False
        self._open: dict[bytes, tuple[float, asyncio.Future[float | None]]] = {}
        self._taken: int | None = None

    def beat(self, taken: int, stuck: bool) -> bool:
        """A regular ping is due; False when the client is gone.

        ``taken`` counts the bytes that it took so far. One that takes some of what is before a ping is there: with a
        full line (``stuck``) they would not be taken if nobody was.
        """
        if self._taken is not None and taken > self._taken:
            self.missed = 0
        self._taken = taken if stuck else None
        if self.missed >= MISSED_PONGS:
            return False
        self.missed += 1
        self._beat_open = True
        return True

    def begin(self, now: float, answered: asyncio.Future[float | None]) -> bytes:
        """What a further ping says, whose answer sets the seconds that it took; empty when too many are open."""
        if len(self._open) >= OPEN_PINGS:
            return b""
        self._last += 1
        payload = b"p%d" % self._last
        self._open[payload] = (now, answered)
        return payload

    def forget(self, payload: bytes) -> None:
        """Nobody waits for this answer any more."""
        self._open.pop(payload, None)

    def answered(self, payload: bytes, now: float) -> bool:
        """Whether a pong answers one of ours; there may be any number of others, and they answer nothing."""
        if payload == BEAT:
            was_open, self._beat_open = self._beat_open, False
            return was_open
        if (found := self._open.pop(payload, None)) is None:
            return False
        began, answered = found
        if not answered.done():
            answered.set_result(now - began)
        return True

    def end(self) -> None:
        """There will be no more answers."""
        for _, answered in self._open.values():
            if not answered.done():
                answered.set_result(None)
