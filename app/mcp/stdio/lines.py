"""Bytes in any pieces, lines out: capped in bytes, so that nobody fills the memory with one line (STD-16, P94)."""

from __future__ import annotations

from dataclasses import dataclass

MAX_LINE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was dropped, because it has this many bytes."""

    length: int


class LineSplitter:
    """Cuts a stream at its newlines; a carriage return before one belongs to it (STD-20).

    Of a line that is longer than ``limit`` only the length is kept. No byte is looked at twice.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._length = 0

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """The lines that are complete with this piece, without their ends."""
        *complete, rest = data.split(b"\n")
        lines = [self._ended(piece) for piece in complete]
        self._keep(rest)
        return lines

    def finish(self) -> list[bytes | TooLong]:
        """The last line, when the stream ended without a newline (STD-19)."""
        return [self._ended(b"")] if self._length else []

    def _keep(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length <= self._limit:
            self._kept += piece
        else:
            self._kept = bytearray()

    def _ended(self, piece: bytes) -> bytes | TooLong:
        self._keep(piece)
        line: bytes | TooLong = bytes(self._kept).removesuffix(b"\r")
        if self._length > self._limit:
            line = TooLong(self._length)
        self._kept, self._length = bytearray(), 0
        return line
