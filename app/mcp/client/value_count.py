"""How many values JSON has, before it is parsed: eight megabytes of ``[],[],…`` become a gigabyte of objects. Pure."""

from __future__ import annotations

import re

MAX_VALUES = 250_000
"""Values of one message of a server; parsing that many takes about a tenth of a second, in which nothing else runs."""

UNCOUNTED_BYTES = 1024 * 1024
"""A message that is shorter than this can do no harm."""

PIECE_BYTES = 64 * 1024

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("|\\?\Z)', re.DOTALL)
"""A string up to its end or that of the data; the group is what it ends with: a quote, half an escape, nothing."""

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class ValueCount:
    """Counts what stands outside of strings in JSON that comes in pieces.

    ``values`` is at least the number of objects that parsing would make, but for the names of members.
    """

    def __init__(self) -> None:
        self.values = 0
        self._before = b""

    def feed(self, piece: bytes) -> None:
        """The next piece."""
        parts = _STRING.split(self._before + piece)
        open_end = parts[-2] if len(parts) > 1 and parts[-2] != b'"' else None
        self._before = b"" if open_end is None else b'"' + open_end  # so that the next piece begins inside a string
        outside = b"".join(parts[::2])
        self.values += outside.count(b",") + outside.count(b"[") + outside.count(b"{")


class EventCount:
    """The same for a stream of events, each of which is a message of its own."""

    def __init__(self) -> None:
        self._count = ValueCount()
        self._ends = b""

    def feed(self, piece: bytes) -> int:
        """The next piece; the most values that an event has had in it."""
        data = self._ends + piece
        self._ends = data[len(data.rstrip(b"\r\n")) :][-3:]  # an event's end may come in two pieces
        most = begin = 0
        for end in _EVENT_END.finditer(data):
            self._count.feed(data[begin : end.end()])
            most, begin = max(most, self._count.values), end.end()
            self._count = ValueCount()
        self._count.feed(data[begin:])
        return max(most, self._count.values)


def has_too_many_values(message: bytes) -> bool:
    """Whether a message has more than ``MAX_VALUES``; takes at most about a tenth of a second."""
    if len(message) < UNCOUNTED_BYTES:
        return False
    if message.count(b",") + message.count(b"[") + message.count(b"{") <= MAX_VALUES:
        return False
    count = ValueCount()
    for begin in range(0, len(message), PIECE_BYTES):
        count.feed(message[begin : begin + PIECE_BYTES])
        if count.values > MAX_VALUES:
            return True
    return False
