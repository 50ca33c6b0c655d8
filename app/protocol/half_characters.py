"""Text that was cut within a character: JSON may hold the halves of a surrogate pair one by one."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def whole(text: str) -> str:
    """``text`` with the halves of characters that were cut put together again; a half alone becomes U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class PieceJoiner:
    """Makes whole text of pieces that may be cut within a character: a half waits for the piece with the rest."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """The piece as far as it is whole, with the half that waited in front of it."""
        if self._half:
            piece = self._half + piece
            self._half = ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            self._half = piece[-1]
            piece = piece[:-1]
        return whole(piece)

    def finish(self) -> str:
        """What is left when no piece comes any more."""
        rest, self._half = self._half, ""
        return whole(rest)
