"""Answers that are kept for a while: results of declarations, answers of AIMemo (memory.md 3.7).

The generations of the notebooks stand in the keys, so an answer is never older than the notes; the time only bounds
memory.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")

MAX_ENTRY_CHARS = 1024 * 1024
"""A longer answer is not kept."""


def cache_key(*parts: object) -> str:
    """A key for values whose ``repr`` tells all of them apart: texts, numbers, dates, frozen dataclasses, tuples."""
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


class AnswerCache(Generic[V]):
    """At most ``size`` answers, the one that was used longest ago goes first; each lives ``seconds``.

    Both are asked at each use; a size of 0 keeps nothing.
    """

    def __init__(self, size: Callable[[], int], seconds: Callable[[], float], clock: Callable[[], float]) -> None:
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, V]] = OrderedDict()
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str) -> V | None:
        """The answer, unless it is too old."""
        kept = self._kept.get(key)
        if kept is None or self._clock() - kept[0] >= self._seconds() or not self._size():
            self._kept.pop(key, None)
            self.misses += 1
            return None
        self._kept.move_to_end(key)
        self.hits += 1
        return kept[1]

    def put(self, key: str, value: V, chars: int) -> None:
        """Keep an answer of about so many characters."""
        if chars > MAX_ENTRY_CHARS:
            return
        self._kept[key] = (self._clock(), value)
        self._kept.move_to_end(key)
        while len(self._kept) > self._size():
            self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
