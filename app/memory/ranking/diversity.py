"""k fragments are k different memories: near-duplicates go, and what repeats comes later (memory.md 11.12)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.memory.embedders.embedder import Calibration, Matrix

RELEVANCE_SHARE = 0.9
"""λ of maximal marginal relevance: the share of the score against that of being different.

0.7, as often proposed, cost two points of recall@10 on generated diaries; 0.9 costs none.
"""

DUPLICATE_COSINE = 0.95
DUPLICATE_DEVIATIONS = 5.0
"""A duplicate's cosine is above the first, and so many deviations above chance: the E5 family reaches .95 early."""

DUPLICATE_SHINGLES = 0.8
"""What a text repeats at least of what was chosen before, as a part of its own pieces."""

NEAR_SHINGLES = 0.5
"""The same, where the cosine is a duplicate's too. Alone it says little: short texts reach it that mean the same of
different people."""

SHORT_SHINGLES = 40
"""Texts with fewer pieces repeat another only if they have the same: a single word may be the whole difference (nine
points of recall@10 on pairs of sentences)."""

SHINGLE_CHARACTERS = 4
SHINGLE_TEXT_LIMIT = 4_000
"""Characters of a text that are compared."""

_BLANK = re.compile(r"[\s\W_]+")
_NUMBER = re.compile(r"\d+(?:[.:/-]\d+)*|[零一二两三四五六七八九十百千万]+")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a text is compared by: its overlapping pieces, and its numbers."""

    shingles: frozenset[str]
    numbers: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Shape:
        """The shape of the beginning of a text, without regard to case, blanks and punctuation."""
        head = text[:SHINGLE_TEXT_LIMIT].casefold()
        plain = _BLANK.sub("", head)
        last = max(1, len(plain) - SHINGLE_CHARACTERS + 1)
        pieces = frozenset(plain[at : at + SHINGLE_CHARACTERS] for at in range(last)) if plain else frozenset()
        return cls(pieces, frozenset(_NUMBER.findall(head)))

    def within(self, other: Shape) -> float:
        """Which part of its pieces the other has too, 0 to 1."""
        return len(self.shingles & other.shingles) / len(self.shingles) if self.shingles else 0.0

    def tells_other_numbers(self, other: Shape) -> bool:
        """Whether each has a number that the other has not: two measurements, not one told twice."""
        return bool(self.numbers - other.numbers) and bool(other.numbers - self.numbers)


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen ids in their order, and for each near-duplicate which one it repeats."""

    chosen: tuple[int, ...]
    repeats: Mapping[int, int]


def duplicate_cosine(calibration: Calibration | None) -> float:
    """Above which cosine two chunks say the same, under one model."""
    if calibration is None:
        return DUPLICATE_COSINE
    return min(0.995, max(DUPLICATE_COSINE, calibration.mean + DUPLICATE_DEVIATIONS * calibration.deviation))


def similarities(ids: Sequence[int], with_vectors: Sequence[int], matrix: Matrix) -> NDArray[np.float64]:
    """Cosines between all ids, shape (n, n); 0 where one has no vector or no finite one."""
    place = {chunk: row for row, chunk in enumerate(ids)}
    rows = np.zeros((len(ids), matrix.shape[1] if matrix.ndim == 2 else 0), dtype=np.float64)
    for chunk, vector in zip(with_vectors, matrix, strict=False):
        if chunk in place and bool(np.all(np.isfinite(vector))):
            rows[place[chunk]] = vector
    found: NDArray[np.float64] = rows @ rows.T
    return found


def select(
    ids: Sequence[int],
    scores: Mapping[int, float],
    shape: Callable[[int], Shape],
    cosines: NDArray[np.float64] | None,
    k: int,
    *,
    calibration: Calibration | None = None,
    relevance: float = RELEVANCE_SHARE,
    in_order: bool = False,
) -> Selection:
    """At most k of ``ids``, which come best first: each time the one with the greatest λ·score - (1-λ)·repetition.

    Repetition is the greatest cosine with a chosen one, placed between chance (``calibration``) and 1, so that the step
    means the same under all models. ``shape`` gives what the text of an id is compared by. Near-duplicates of a chosen
    one are left out. Equal values keep the given order.
    ``in_order``: the order given is final (a reranker's), only near-duplicates go.
    """
    chosen: list[int] = []
    repeats: dict[int, int] = {}
    chance = calibration.mean if calibration is not None else 0.0
    limit = duplicate_cosine(calibration)
    values = np.asarray([scores[one] for one in ids], np.float64)
    repetition = np.zeros(len(ids))
    left = np.ones(len(ids), bool)

    while bool(left.any()) and len(chosen) < k:
        gains = relevance * values - (1.0 - relevance) * repetition
        best = int(np.argmax(left)) if in_order else int(np.argmax(np.where(left, gains, -np.inf)))
        left[best] = False
        # texts are compared only when it is a candidate's turn, since most of them never have one
        near = np.zeros(len(ids)) if cosines is None else cosines[best]
        same = (ids[one] for one in chosen if _repeats(shape(ids[best]), shape(ids[one]), float(near[one]), limit))
        repeated = next(same, None)
        if repeated is not None:
            repeats[ids[best]] = repeated
            continue
        chosen.append(best)
        if chance < 1.0:
            repetition = np.maximum(repetition, np.clip((near - chance) / (1.0 - chance), 0.0, 1.0))
    return Selection(tuple(ids[at] for at in chosen), repeats)


def _repeats(later: Shape, chosen: Shape, cosine: float, limit: float) -> bool:
    if later.tells_other_numbers(chosen):
        return False
    if len(later.shingles) < SHORT_SHINGLES:
        return later.shingles == chosen.shingles
    shared = later.within(chosen)
    return shared > DUPLICATE_SHINGLES or (cosine > limit and shared > NEAR_SHINGLES)
