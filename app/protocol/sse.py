"""Server-sent events from bytes, by the standard and without I/O.

Works on bytes on purpose: U+2028 and U+0085 inside a JSON text are no line ends, and a character cut by a network
chunk is whole again before anybody decodes it.
"""

from __future__ import annotations

from typing import NamedTuple

from app.errors import UpstreamBrokenError, both

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""Most bytes of one event: its data lines, or any single line."""

_BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event. A named tuple, because one is made for every chunk of every answer and a frozen dataclass costs twice
    as much to make.

    ``data`` is the content of its data lines joined by line feeds, ``raw`` the event in the one form in which we send
    it on (``event:`` only where it has a name), ``event`` its name, mostly empty.
    """

    data: bytes
    raw: bytes
    event: str


_make = tuple.__new__  # a third of the cost of SseEvent(...), which calls it through a Python function


class SseReader:
    """Reads the events of one stream that is fed in pieces; how it is cut makes no difference.

    Line ends may be LF, CRLF or CR; comments are counted; ``id:`` and ``retry:`` are ignored. Raises
    ``UpstreamBrokenError`` for an event over the limit, after the events before it have been handed out.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.comments = 0
        self._limit = max_event_bytes
        self._at_start = True  # a byte order mark may still come
        self._after_cr = False  # a line feed that comes next belongs to the line end before it
        self._held = bytearray()  # the line that is not complete
        self._data: list[bytes] = []  # data lines of the event that is not complete
        self._data_size = 0
        self._event = b""
        self._broken = False
        self._clean = False  # nothing at all is pending: the next piece can be read for itself

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take the next piece of the stream; return the events that it completed."""
        size = len(data)
        if (  # mostly a piece is exactly one event
            self._clean
            and data.find(b"\n") == size - 2
            and data.startswith(b"data: ")
            and data.endswith(b"\n\n")
            and data.find(b"\r") < 0
            and size <= self._limit
        ):
            return [_make(SseEvent, (data[6:-2], data, ""))]
        events = self._feed(data)
        self._clean = not (self._at_start or self._after_cr or self._held or self._data or self._event or self._broken)
        return events

    def _feed(self, data: bytes) -> list[SseEvent]:
        if self._broken:
            raise self._too_large()
        if self._at_start:
            data = self._without_mark(data)
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == 10:
                data = data[1:]
        if data.find(b"\r") >= 0:
            self._after_cr = data[-1] == 13
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[SseEvent] = []
        if not self._read(data, events):
            if not events:
                raise self._too_large()
            self._broken = True
        return events

    def finish(self) -> list[SseEvent]:
        """The stream ended. An event that lacks its blank line is delivered: some servers forget it."""
        if self._broken:
            raise self._too_large()
        self._at_start = False
        self._after_cr = False
        events: list[SseEvent] = []
        if not self._read(b"\n\n" if self._held else b"\n", events):
            raise self._too_large()
        return events

    def _read(self, data: bytes, events: list[SseEvent]) -> bool:
        """Read what has only line feeds as line ends; False when the limit is passed."""
        if self._held:
            if b"\n" not in data:
                return self._hold(data)
            data = bytes(self._held) + data
            self._held.clear()
        position = 0
        limit = self._limit
        find = data.find
        while (end := find(b"\n", position)) >= 0:
            # The common case in one step: one data line and the blank line behind it.
            if (
                data.startswith(b"\n", end + 1)
                and data.startswith(b"data: ", position)
                and not self._data
                and not self._event
                and end - position <= limit
            ):
                raw = data[position : end + 2]
                events.append(_make(SseEvent, (raw[6:-2], raw, "")))
                position = end + 2
                continue
            if not self._line(data[position:end], events):
                return False
            position = end + 1
        return self._hold(data[position:]) if position < len(data) else True

    def _hold(self, data: bytes) -> bool:
        self._held += data
        return len(self._held) + self._data_size <= self._limit

    def _line(self, line: bytes, events: list[SseEvent]) -> bool:
        if not line:
            self._dispatch(events)
            return True
        if len(line) + self._data_size > self._limit:
            return False
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data":
            self._data.append(value)
            self._data_size += len(line)
        elif not name:
            self.comments += 1
        elif name == b"event":
            self._event = value
        return True

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data:
            name = b"event: " + self._event + b"\n" if self._event else b""
            raw = name + b"data: " + b"\ndata: ".join(self._data) + b"\n\n"
            events.append(SseEvent(b"\n".join(self._data), raw, self._event.decode("utf-8", "replace")))
            self._data.clear()
            self._data_size = 0
        self._event = b""

    def _without_mark(self, data: bytes) -> bytes:
        """The stream's first bytes without a byte order mark; held back while they may still become one."""
        data = bytes(self._held) + data
        self._held.clear()
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._hold(data)
            return b""
        self._at_start = False
        return data.removeprefix(_BOM)

    def _too_large(self) -> UpstreamBrokenError:
        return UpstreamBrokenError(
            both(
                f"上游发来的一个事件超过 {self._limit} 字节",
                f"the upstream sent an event of more than {self._limit} bytes",
            )
        )
