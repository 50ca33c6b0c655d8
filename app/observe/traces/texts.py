"""Texts as traces keep them: without pictures and secrets, and not too long; or only how long they were."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from app.extend import Json
from app.observe.digests import MAX_DEPTH, without_base64
from app.protocol.secret_texts import masked

MAX_TEXT = 200_000
"""Characters of one text."""

MAX_ALL = 3_000_000
"""Characters of all texts of one trace; what comes beyond is kept with its beginning."""

BEGINNING = 200
MAX_NAME = 200

Mask = Callable[[Json], Json]
"""Takes the installation's own secrets out of a value."""

MARGIN = 10_000
"""Longer than any secret."""

MAX_VALUES = 20_000
"""Values inside of arguments, results and fields of one trace."""


class Texts:
    """Prepares the texts of one trace; with ``full`` false no text is kept at all, only its length."""

    def __init__(self, mask: Mask, *, full: bool) -> None:
        self._mask = mask
        self._full = full
        self._left = MAX_ALL
        self._values = MAX_VALUES
        self._cleaned: dict[str, str] = {}  # what a client wrote stands in the prompt before and after

    @property
    def full(self) -> bool:
        """Whether texts are kept."""
        return self._full

    def shortened(self, text: str) -> str:
        """As much of a text as is looked at: a little more than is kept, so that no secret is cut in two."""
        return text if len(text) <= MAX_TEXT + MARGIN or text.startswith("data:") else text[: MAX_TEXT + MARGIN]

    def clean(self, text: str) -> str:
        """A shortened text without pictures and secrets."""
        cleaned = self._cleaned.get(text)
        if cleaned is None:
            cleaned = self._cleaned[text] = str(self._mask(masked(without_base64(text))))
        return cleaned

    def name(self, name: str) -> str:
        """A name, which is kept without texts too, short and without secrets."""
        return str(self._mask(name[: 10 * MAX_NAME]))[:MAX_NAME]

    def text(self, text: str) -> str | dict[str, int]:
        """The text, cut where it is too long, or its length."""
        if not self._full:
            return {"chars": len(text)}
        short = self.shortened(text)
        return self.cut(self.clean(short), len(text) - len(short))

    def cut(self, text: str, missing: int = 0) -> str:
        """A clean text as it is kept; it says how much is missing, with what was left out before."""
        kept = min(len(text), MAX_TEXT, max(self._left, BEGINNING))
        self._left -= kept
        missing += len(text) - kept
        return f"{text[:kept]}… (+{missing} characters)" if missing else text

    def value(self, value: Json) -> Json:
        """A JSON value with all its texts cleaned and cut, or how large it is."""
        if value is None:
            return None
        if not self._full:
            return {"chars": _length(value)}
        return self._cut_value(self._mask(masked(without_base64(self._plain(value)))))

    def _cut_value(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.cut(value)
        if isinstance(value, Mapping):
            return {str(name)[:MAX_TEXT]: self._cut_value(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._cut_value(item) for item in value]
        return value

    def _plain(self, value: Json, depth: int = MAX_DEPTH) -> Json:
        """Lists in place of tuples, nothing too deep, long or much, and what is no JSON as what it is called."""
        if isinstance(value, str):
            return self.shortened(value)
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if not isinstance(value, Mapping | list | tuple):
            return f"({type(value).__name__})"
        if depth == 0 or self._values <= 0:
            return "…"
        kept = min(len(value), self._values)
        self._values -= kept
        if isinstance(value, Mapping):
            return {str(name): self._plain(item, depth - 1) for name, item in islice(value.items(), kept)}
        more = [f"… (+{len(value) - kept} items)"] if len(value) > kept else []
        return [*(self._plain(item, depth - 1) for item in value[:kept]), *more]


def _length(value: Any, depth: int = 12) -> int:
    """Characters of all texts and numbers, as far as a look that is not deep finds them."""
    if isinstance(value, str):
        return len(value)
    if depth and isinstance(value, Mapping):
        return sum(_length(item, depth - 1) for item in value.values())
    if depth and isinstance(value, list | tuple):
        return sum(_length(item, depth - 1) for item in value)
    return len(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else 0
