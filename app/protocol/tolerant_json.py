"""JSON as people write it by hand: with comments, commas behind the last item, a byte-order mark (D73, P89)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from app.protocol.json_text import strict_json

MAX_ODDITIES = 20
"""Most that are told of one text."""

_COMMENTS = re.compile(r'"(?:[^"\\]+|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_COMMAS = re.compile(r'"(?:[^"\\]+|\\.)*"?|,(?=\s*[}\]])', re.DOTALL)
_NO_LINE_END = re.compile(r"[^\n]")


@dataclass(frozen=True, slots=True)
class Oddity:
    """Something that JSON does not have and that was passed over; ``line`` counts from 1."""

    line: int
    what: str


def tolerant_json(text: str) -> tuple[Any, tuple[Oddity, ...]]:
    """The value of a text, and what was passed over in it.

    Raises what ``strict_json`` raises; places that its errors name are places in ``text``.
    """
    odd: list[tuple[int, str]] = []

    def blank(found: re.Match[str]) -> str:
        if found[0].startswith('"'):
            return found[0]
        odd.append((found.start(), "a trailing comma" if found[0] == "," else "a comment"))
        return _NO_LINE_END.sub(" ", found[0])  # so that everything else keeps its place

    bare = text
    if bare.startswith("\ufeff"):
        odd.append((0, "a byte-order mark"))
        bare = " " + bare[1:]
    bare = _COMMAS.sub(blank, _COMMENTS.sub(blank, bare))
    value = strict_json(bare)
    return value, tuple(Oddity(text.count("\n", 0, place) + 1, what) for place, what in sorted(odd)[:MAX_ODDITIES])
