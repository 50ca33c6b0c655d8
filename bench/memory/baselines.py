"""What ours is compared with: BM25, vectors alone, and both joined by their ranks, over the very same passages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import log
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.memory.embedding import Embedder, Vectors
from bench.memory.sets import Passage
from bench.memory.words import words

K1, B = 1.2, 0.75
RRF_K = 60
OPENS_AT = 0.6
"""A gate value from here on lets a question in (memory.md 2.6)."""

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Found:
    """The ids of passages, best first, and where a method has one, the value of its gate (from 0 to 1)."""

    ids: tuple[str, ...]
    gate: float | None = None


class System(Protocol):
    """A method that is measured."""

    @property
    def name(self) -> str:
        """What it is called in tables."""
        ...

    def build(self, corpora: Mapping[str, Sequence[Passage]]) -> None:
        """Take in all passages; each corpus is searched on its own."""
        ...

    def search(self, corpus: str, question: str, now: datetime | None, k: int) -> Found:
        """At most ``k`` passages of the corpus for the question, asked at ``now``."""
        ...


class Bm25:
    """Exact BM25 over one corpus: every passage is scored."""

    def __init__(self, texts: Sequence[str]) -> None:
        counted = [Counter(words(text)) for text in texts]
        lengths = np.array([sum(counts.values()) for counts in counted], dtype=np.float64)
        self._size = len(texts)
        share = lengths / lengths.mean() if lengths.sum() else np.ones(len(texts))
        postings: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for place, counts in enumerate(counted):
            for word, count in counts.items():
                places, numbers = postings[word]
                places.append(place)
                numbers.append(count)
        self._weights: dict[str, tuple[NDArray[np.int64], Scores]] = {}
        for word, (places, numbers) in postings.items():
            where, often = np.array(places), np.array(numbers, dtype=np.float64)
            rare = log(1 + (self._size - len(places) + 0.5) / (len(places) + 0.5))
            self._weights[word] = where, rare * often * (K1 + 1) / (often + K1 * (1 - B + B * share[where]))

    def scores(self, question: str) -> Scores:
        """The score of every passage; 0 where no word is shared."""
        total = np.zeros(self._size)
        for word in dict.fromkeys(words(question)):
            if word in self._weights:
                where, weights = self._weights[word]
                total[where] += weights
        return total


@dataclass(slots=True)
class _Corpus:
    ids: tuple[str, ...]
    lexical: Bm25 | None = None
    vectors: Vectors | None = None
    expected: tuple[float, float] = (0.0, 1.0)


def best(ids: Sequence[str], scores: Scores, k: int) -> tuple[str, ...]:
    """The ids of the ``k`` highest scores, the earlier one first where they are equal."""
    order = np.argsort(-scores, kind="stable")[:k]
    return tuple(ids[place] for place in order)


@dataclass(slots=True)
class Words:
    """BM25 over words and pairs of characters."""

    name: str = "BM25"
    _corpora: dict[str, _Corpus] = field(default_factory=dict)

    def build(self, corpora: Mapping[str, Sequence[Passage]]) -> None:
        """Count the words."""
        self._corpora = {
            name: _Corpus(tuple(one.id for one in passages), lexical=Bm25([one.whole for one in passages]))
            for name, passages in corpora.items()
        }

    def scores(self, corpus: str, question: str) -> Scores:
        """The score of every passage."""
        lexical = self._corpora[corpus].lexical
        assert lexical is not None
        return lexical.scores(question)

    def search(self, corpus: str, question: str, now: datetime | None, k: int) -> Found:
        """Passages that share a word with the question."""
        scores = self.scores(corpus, question)
        return Found(best(self._corpora[corpus].ids, scores, min(k, int((scores > 0).sum()))))


@dataclass(slots=True)
class Dense:
    """Cosine of vectors, over all passages; its gate is the calibrated one of memory.md 2.6 on the best passage.

    ``chance`` are questions whose cosines to all passages say what is usual by chance.
    """

    embedder: Embedder
    chance: Sequence[str] = ()
    name: str = "dense"
    _corpora: dict[str, _Corpus] = field(default_factory=dict)

    def build(self, corpora: Mapping[str, Sequence[Passage]]) -> None:
        """Embed all passages."""
        self._corpora = {}
        for name, passages in corpora.items():
            vectors = self.embedder.embed([one.whole for one in passages], "passage")
            known = _Corpus(tuple(one.id for one in passages), vectors=vectors)
            if self.chance:
                cosines = self.embedder.embed(self.chance, "query") @ vectors.T
                known.expected = float(cosines.mean()), float(cosines.std()) or 1.0
            self._corpora[name] = known

    def scores(self, corpus: str, question: str) -> Scores:
        """The cosine of every passage."""
        vectors = self._corpora[corpus].vectors
        assert vectors is not None
        asked = self.embedder.embed([question], "query")[0]
        cosines: Scores = (vectors @ asked).astype(np.float64)
        return cosines

    def search(self, corpus: str, question: str, now: datetime | None, k: int) -> Found:
        """The nearest passages."""
        known = self._corpora[corpus]
        scores = self.scores(corpus, question)
        mean, spread = known.expected
        value = 0.6 + 0.1 * ((float(scores.max()) - mean) / spread - 3)
        return Found(best(known.ids, scores, k), gate=min(1.0, max(0.0, value)))


@dataclass(slots=True)
class ByRanks:
    """Reciprocal rank fusion of the two, k = 60, over the whole of both rankings."""

    lexical: Words
    dense: Dense
    name: str = "RRF"
    _ids: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def build(self, corpora: Mapping[str, Sequence[Passage]]) -> None:
        """Nothing of its own: both parts are built by then."""
        self._ids = {name: tuple(one.id for one in passages) for name, passages in corpora.items()}

    def search(self, corpus: str, question: str, now: datetime | None, k: int) -> Found:
        """Passages by the sum of their reciprocal ranks."""
        near, shared = self.dense.scores(corpus, question), self.lexical.scores(corpus, question)
        total = 1 / (RRF_K + _ranks(near)) + np.where(shared > 0, 1 / (RRF_K + _ranks(shared)), 0.0)
        return Found(best(self._ids[corpus], total, k))


def _ranks(scores: Scores) -> Scores:
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks
