"""One score out of two: meaning (cosines) and words (BM25), as a convex combination (memory.md 8.3, 11.7, 11.8)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DENSE_WEIGHT = 0.55
"""Share of the cosines where nothing speaks for another one (11.7; from .5 to .6 public sets are alike)."""

LEAST_DENSE_WEIGHT = 0.4
FOUND_DENSE_WEIGHT = 0.5
LOST_DENSE_WEIGHT = 0.75
MOST_DENSE_WEIGHT = 0.8

FOUND_COVER = 0.3
LOST_COVER = 0.1
"""Part of the question's words that the best fragment by words has: from the first on words have found something, down
to the second they have not, and their best is chance."""

_EXACT = re.compile(
    r"[0-9０-９]|[A-Za-z][A-Za-z0-9_.+-]*[0-9][A-Za-z0-9_.+-]*|[A-Z]{2,}|[\"“「『《][^\"”」』》]{1,64}[\"”」』》]"
)
"""What only words find: digits, identifiers, upper-case abbreviations, quoted text."""

_QUOTED_LIMIT = 4_000
"""Characters of a question that are looked at for such things."""

PARAPHRASE_LENGTH = 2.0
"""Texts that are at most so many times as long as the question say the same as it rather than answering it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and greatest score of a list: what becomes 0 and what becomes 1."""

    low: float
    high: float

    @classmethod
    def of(cls, scores: Mapping[int, float]) -> Bounds:
        """The bounds of all finite scores; (0, 0) when there are none."""
        finite = [score for score in scores.values() if math.isfinite(score)]
        return cls(min(finite), max(finite)) if finite else cls(0.0, 0.0)

    def placed(self, score: float) -> float:
        """The score between 0 and 1. Where all are equal all are 1; what lies outside is put at the border."""
        if not math.isfinite(score):
            return 0.0
        if self.high <= self.low:
            return 1.0 if score >= self.high else 0.0
        return min(1.0, max(0.0, (score - self.low) / (self.high - self.low)))


@dataclass(frozen=True, slots=True)
class Fusion:
    """A convex combination with the bounds of one question: w·norm(dense) + (1-w)·norm(lexical).

    A chunk without any of the words has 0 on that side. One without a cosine is judged by its words alone: its vector
    is still to be made, and what was written a moment ago must not lose against what is merely embedded (11.2). With
    one side only that side counts alone.
    """

    dense: Bounds | None
    lexical: Bounds | None
    weight: float

    @classmethod
    def over(cls, dense: Mapping[int, float] | None, lexical: Mapping[int, float], weight: float) -> Fusion:
        """The combination over the union of two lists; words that are missing in a chunk of it score 0.

        ``dense`` None means that there are no vectors now. A list without anything finite does not count at all.
        """
        meaning = Bounds.of(dense) if dense and any(map(math.isfinite, dense.values())) else None
        words = None
        if lexical:
            found = Bounds.of(lexical)
            incomplete = dense is not None and any(chunk not in lexical for chunk in dense)
            words = Bounds(0.0, found.high) if incomplete else found
            if words.high <= 0.0:
                words = None
        return cls(meaning, words, min(1.0, max(0.0, weight)) if math.isfinite(weight) else DENSE_WEIGHT)

    def parts(self, cosine: float | None, bm25: float | None) -> tuple[float, float]:
        """The two normalised scores of a chunk, for people who want to know why."""
        meaning = self.dense.placed(cosine) if self.dense is not None and cosine is not None else 0.0
        words = self.lexical.placed(bm25) if self.lexical is not None and bm25 is not None else 0.0
        return meaning, words

    def score(self, cosine: float | None, bm25: float | None) -> float:
        """The fused score of a chunk, 0 to 1."""
        meaning, words = self.parts(cosine, bm25)
        if self.lexical is None:
            return meaning
        if self.dense is None or cosine is None:
            return words
        return self.weight * meaning + (1.0 - self.weight) * words


def fused(dense: Mapping[int, float] | None, lexical: Mapping[int, float], weight: float) -> dict[int, float]:
    """The fused score of every chunk of the union."""
    fusion = Fusion.over(dense, lexical, weight)
    union = dict.fromkeys([*(dense or ()), *lexical])
    return {chunk: fusion.score((dense or {}).get(chunk), lexical.get(chunk)) for chunk in union}


def dense_weight(question: str, typical_length: float, cover: float | None = None) -> float:
    """The share of meaning for a question (11.8): less where words find it, more where they do not.

    ``typical_length`` is the median number of characters of the candidates. Where notes are hardly longer than the
    question, another wording is looked for. ``cover`` is the part of the question's words that the best fragment by
    words has, None when unknown: scores are placed between the least and the greatest, so chance looks like a find
    otherwise. Digits, identifiers and quoted text are exact: they give words more weight.
    """
    if same_length(question, typical_length):
        usual = MOST_DENSE_WEIGHT
    elif cover is None:
        usual = DENSE_WEIGHT
    else:
        lost = min(1.0, max(0.0, (FOUND_COVER - cover) / (FOUND_COVER - LOST_COVER)))
        usual = FOUND_DENSE_WEIGHT + (LOST_DENSE_WEIGHT - FOUND_DENSE_WEIGHT) * lost
    exact = sum(1 for _ in _EXACT.finditer(question[:_QUOTED_LIMIT]))
    return max(LEAST_DENSE_WEIGHT, usual - 0.05 * min(exact, 3))


def same_length(question: str, typical_length: float) -> bool:
    """Whether notes are hardly longer than the question, so that they say the same rather than answer it."""
    return typical_length <= PARAPHRASE_LENGTH * len(question)


def reciprocal_ranks(order: Sequence[int], constant: float = 60.0) -> dict[int, float]:
    """1/(constant + rank) by place in the order, from rank 1: reciprocal rank fusion."""
    return {chunk: 1.0 / (constant + rank) for rank, chunk in enumerate(order, 1)}
