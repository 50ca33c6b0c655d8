"""Lines out of a stream of bytes, in bounded memory (P94). Pure."""

from __future__ import annotations

from dataclasses import dataclass

KEPT_BYTES = 4096
"""So much of the beginning and of the end of a line that is too long is kept."""


@dataclass(frozen=True, slots=True)
class Oversize:
    """A line that was longer than the limit: how many bytes it had, and both its ends."""

    size: int
    head: bytes
    tail: bytes


class LineCutter:
    """Cuts at newlines; a carriage return before one is dropped. ``limit`` is that of one line, in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._head = b""
        self._tail = b""

    @property
    def waiting(self) -> int:
        """Bytes of the line that is not at its end."""
        return self._size

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """The lines that are complete with ``data``, without their ends; lines that are empty are none."""
        *ended, rest = data.split(b"\n")
        lines = []
        for piece in ended:
            if piece or self._size:
                self._add(piece)
                lines.append(self._taken())
        self._add(rest)
        return lines

    def end(self) -> list[bytes | Oversize]:
        """What stands behind the last newline when the stream ends."""
        return [self._taken()] if self._size else []

    def _add(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        if self._size <= self._limit:
            self._pieces.append(piece)
            return
        if self._pieces:
            whole = b"".join(self._pieces)
            self._pieces = []
            self._head, self._tail = whole[:KEPT_BYTES], whole[-KEPT_BYTES:]
        if len(self._head) < KEPT_BYTES:
            self._head += piece[: KEPT_BYTES - len(self._head)]
        self._tail = (self._tail + piece[-KEPT_BYTES:])[-KEPT_BYTES:]

    def _taken(self) -> bytes | Oversize:
        if self._size > self._limit:
            line: bytes | Oversize = Oversize(self._size, self._head, self._tail)
        else:
            line = b"".join(self._pieces).removesuffix(b"\r")
        self._pieces, self._size, self._head, self._tail = [], 0, b"", b""
        return line
