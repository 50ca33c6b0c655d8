"""Texts as traces keep them: without pictures and secrets, and not too long; or only how long they were."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from app.extend import Json
from app.observe.digests import MAX_DEPTH, without_base64
from app.protocol.secret_texts import masked

MAX_TEXT = 400_000
"""Characters of one text."""

MAX_ALL = 3_000_000
"""Characters of all texts of one trace; what comes beyond is kept with its beginning."""

BEGINNING = 200
MAX_NAME = 200

Mask = Callable[[Json], Json]
"""Takes the installation's own secrets out of a value."""

FORMS = 8
"""Keys of objects and items of lists are counted as so many characters each."""


class Texts:
    """Prepares the texts of one trace; with ``full`` false no text is kept at all, only its length."""

    def __init__(self, mask: Mask, *, full: bool) -> None:
        self._mask = mask
        self._full = full
        self._left = MAX_ALL
        self._cleaned: dict[str, str] = {}  # what a client wrote stands in the prompt before and after

    @property
    def full(self) -> bool:
        """Whether texts are kept."""
        return self._full

    def clean(self, text: str) -> str:
        """The text without pictures and secrets, however long."""
        cleaned = self._cleaned.get(text)
        if cleaned is None:
            cleaned = self._cleaned[text] = str(self._mask(masked(without_base64(text))))
        return cleaned

    def name(self, name: str) -> str:
        """A name, which is kept without texts too, short and without secrets."""
        return str(self._mask(name[: 10 * MAX_NAME]))[:MAX_NAME]

    def room(self, length: int) -> int:
        """How many of so many characters may be kept; they count as kept."""
        allowed = min(length, MAX_TEXT, max(self._left, BEGINNING))
        self._left -= allowed
        return allowed

    def text(self, text: str) -> str | dict[str, int]:
        """The text, cut where it is too long, or its length."""
        if not self._full:
            return {"chars": len(text)}
        return self.cut(self.clean(text))

    def cut(self, text: str) -> str:
        """A clean text, with a word about how much of it is missing."""
        kept = self.room(len(text))
        return text if kept == len(text) else f"{text[:kept]}… (+{len(text) - kept} characters)"

    def value(self, value: Json) -> Json:
        """A JSON value with all its texts cleaned and cut, or how large it is."""
        if value is None:
            return None
        if not self._full:
            return {"chars": _length(value)}
        return self._cut_value(self._mask(masked(without_base64(_plain(value)))))

    def _cut_value(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.cut(value)
        if isinstance(value, Mapping):
            self._left -= FORMS * len(value)
            return {str(name)[:MAX_TEXT]: self._cut_value(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            self._left -= FORMS * len(value)
            if self._left < 0 and len(value) > BEGINNING:
                return [*(self._cut_value(item) for item in value[:BEGINNING]), f"… (+{len(value) - BEGINNING} items)"]
            return [self._cut_value(item) for item in value]
        return value


def _plain(value: Json, depth: int = MAX_DEPTH) -> Json:
    """Lists in place of tuples, nothing too deep, and what is no JSON as what it is called."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if not isinstance(value, Mapping | list | tuple):
        return f"({type(value).__name__})"
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return {str(name): _plain(item, depth - 1) for name, item in value.items()}
    return [_plain(item, depth - 1) for item in value]


def _length(value: Any, depth: int = 12) -> int:
    if isinstance(value, str):
        return len(value)
    if depth and isinstance(value, Mapping):
        return sum(_length(item, depth - 1) for item in value.values())
    if depth and isinstance(value, list | tuple):
        return sum(_length(item, depth - 1) for item in value)
    return len(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else 0
