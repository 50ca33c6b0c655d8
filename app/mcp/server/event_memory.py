"""What clients of streamable HTTP may have missed, kept in memory for as long as there is room (mcp.md MCP-43)."""

from __future__ import annotations

import secrets
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse

from app.extend import Json

MAX_EVENTS = 20_000
MAX_CHARS = 16 * 1024 * 1024
"""Events of all sessions together, and characters in them; beyond, the oldest are forgotten."""

ENDED_AT_ONCE = 50
"""When so many sessions have ended, their events are forgotten, all in one go."""

MAX_VALUES = 200_000
"""A message with more values than this is not kept: whoever misses it has to ask again."""


@dataclass(frozen=True, slots=True)
class _Event:
    session: str
    stream: StreamId
    number: int
    message: JSONRPCMessage | None
    chars: int


class EventMemory:
    """The events of all sessions; those of ended sessions go first, then the oldest, whoever they belong to."""

    def __init__(self, max_events: int = MAX_EVENTS, max_chars: int = MAX_CHARS) -> None:
        self._events: deque[_Event] = deque()
        self._chars = 0
        self._ended: set[str] = set()
        self._max_events = max_events
        self._max_chars = max_chars

    def session(self) -> SessionEvents:
        """The store of a new session."""
        return SessionEvents(self)

    def add(self, event: _Event) -> None:
        """Keep an event, and forget those for which there is no room any more."""
        if len(self._ended) >= ENDED_AT_ONCE:
            self._forget_ended()
        self._events.append(event)
        self._chars += event.chars
        while len(self._events) > self._max_events or self._chars > self._max_chars:
            self._chars -= self._events.popleft().chars

    def of(self, session: str) -> Iterator[_Event]:
        """The events of one session that are still known, oldest first."""
        return (event for event in tuple(self._events) if event.session == session)

    def ended(self, session: str) -> None:
        """Nobody can ask for the events of this session any more. May be called at any moment."""
        self._ended.add(session)

    def _forget_ended(self) -> None:
        ended, self._ended = self._ended, set()
        self._events = deque(event for event in self._events if event.session not in ended)
        self._chars = sum(event.chars for event in self._events)

    @property
    def chars(self) -> int:
        """Characters in all events."""
        return self._chars


class SessionEvents(EventStore):
    """The events of one session. Ids of other sessions mean nothing here, so nobody reads another's messages."""

    def __init__(self, memory: EventMemory) -> None:
        self._memory = memory
        self._mark = secrets.token_hex(8)
        self._last = 0
        weakref.finalize(self, memory.ended, self._mark).atexit = False  # the SDK does not say when a session ends

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Keep a message of a stream (None: the empty event that opens it) and return the id of its event."""
        self._last += 1
        chars = _chars(message)
        if chars is not None:
            self._memory.add(_Event(self._mark, stream_id, self._last, message, chars))
        return f"{self._mark}-{self._last}"

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Send what its stream had after this event.

        The stream is returned if it goes on; None if its answer is among what was sent, if it was the last event, and
        for an event that is not known (any more).
        """
        mark, _, number = last_event_id.partition("-")
        if mark != self._mark or not number.isdecimal() or len(number) > 20:
            return None
        known = tuple(self._memory.of(self._mark))
        last = next((event for event in known if event.number == int(number)), None)
        if last is None:
            return None
        answered = isinstance(last.message, JSONRPCResponse | JSONRPCError)
        for event in known:
            if event.stream == last.stream and event.number > last.number and event.message is not None:
                await send_callback(EventMessage(event.message, f"{self._mark}-{event.number}"))
                answered = answered or isinstance(event.message, JSONRPCResponse | JSONRPCError)
        return None if answered else last.stream


def _chars(message: JSONRPCMessage | None) -> int | None:
    """Characters of all texts in a message, and some for each value; None for one with too many values."""
    chars, values = 100, 0
    waiting: list[Json] = [None if message is None else vars(message)]
    while waiting:
        value = waiting.pop()
        values += 1
        if values > MAX_VALUES:
            return None
        if isinstance(value, str):
            chars += len(value)
        elif isinstance(value, dict):
            chars += sum(len(key) for key in value if isinstance(key, str))
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        chars += 8
    return chars
