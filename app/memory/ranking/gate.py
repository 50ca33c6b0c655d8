"""Whether a notebook is about the question at all (memory.md 2.6)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from app.memory.embedders.calibration import STEP, calibrated
from app.memory.embedders.embedder import Matrix, Vector
from app.memory.index.records import SearchableIndex
from app.memory.index.words import document_words, query_words
from app.memory.ranking.candidates import WORDS_LIMIT
from app.memory.ranking.centroids import centroids
from app.memory.ranking.options import RankingOptions
from app.memory.ranking.requests import GateValue
from app.memory.vectors.search import VectorSearch

DEFAULT_THRESHOLD = 0.6

CENTROID_ROWS = 1_000
"""Chunks of a notebook that its centroids are made of, evenly taken."""

CENTROIDS_KEPT = 256
"""Notebooks whose centroids are remembered."""

WORDS_THAT_OPEN = 0.5
"""Without vectors: the part of the question's words, found together in one chunk, that is worth 0.6."""

CHUNKS_READ = 3

WORDS_WORTH = 1.0
"""With vectors: what all of the question's words, found together in one chunk, add to the nearest one's value; some of
them add their part. On generated diaries (seed 1) gates open for 0.73 of the questions with an answer then, for 0.24
with a worth of 0.4, and for 0.16 of those without one.
"""

ORDINARY_FRAGMENTS = 125
"""Of so many fragments or more the nearest one's value counts as it is; that of fewer gains (``gain_of_few``)."""


class Topics(Protocol):
    """What people say about notebooks in rag_tags.json (5.2)."""

    def threshold(self, notebook: str) -> float | None:
        """The least value that opens its gate, None when nothing is said; 0 is 0."""
        ...

    def enhanced_text(self, notebook: str) -> str | None:
        """A text of its name and tags to be embedded, None without tags."""
        ...


def aggregate(values: Sequence[GateValue]) -> GateValue:
    """The gate of several notebooks together: the greatest value against the mean of their thresholds (2.5)."""
    best = max(values, key=lambda one: one.value)
    mean = sum(one.threshold for one in values) / len(values)
    return GateValue("|".join(one.notebook for one in values), best.value, best.raw, best.by, mean)


def gain_of_few(fragments: int) -> float:
    """What the nearest of few fragments gains against the nearest of ``ORDINARY_FRAGMENTS``.

    By chance the nearest of n unrelated texts lies about sqrt(2 ln n) deviations above their mean: of ten 2.1, of 125
    3.1. So in a young notebook the same nearness tells more.
    """
    by_chance = math.sqrt(2 * math.log(max(1, fragments)))
    return STEP * max(0.0, math.sqrt(2 * math.log(ORDINARY_FRAGMENTS)) - by_chance)


class Gates:
    """Gate values by vectors; by words where there is no vector of the question."""

    def __init__(
        self, index: SearchableIndex, vectors: VectorSearch, topics: Topics, options: Callable[[], RankingOptions]
    ) -> None:
        self._index = index
        self._vectors = vectors
        self._topics = topics
        self._options = options
        self._centroids: dict[str, tuple[object, Matrix]] = {}

    async def values(self, question: str, vector: Vector | None, notebooks: Sequence[str]) -> list[GateValue]:
        """One value for each name, in their order; names that no notebook has get what their own words are worth."""
        if vector is None:
            words = query_words(question)[:WORDS_LIMIT]
            return list(await asyncio.gather(*(self._by_words(name, words) for name in notebooks)))
        texts = [text for name in notebooks for text in (name, self._topics.enhanced_text(name) or "") if text]
        known = list(dict.fromkeys(texts))
        embedded = dict(zip(known, await self._vectors.of_texts(known), strict=True))
        means = await asyncio.gather(*(self._means(name) for name in notebooks))
        values = [self._by_vectors(name, vector, embedded, mean) for name, mean in zip(notebooks, means, strict=True)]
        if self._options().raw_gate:
            return values
        words = query_words(question)[:WORDS_LIMIT]
        nearest = await asyncio.gather(*(self._by_chunk(name, vector, words) for name in notebooks))
        return [max(one, other, key=lambda value: value.value) for one, other in zip(values, nearest, strict=True)]

    def threshold(self, notebook: str) -> float:
        """What rag_tags.json says, else 0.6."""
        said = self._topics.threshold(notebook)
        return DEFAULT_THRESHOLD if said is None else said

    def _by_vectors(
        self, notebook: str, vector: Vector, embedded: dict[str, Vector | None], means: Matrix
    ) -> GateValue:
        signals = [("name", _cosine(vector, embedded.get(notebook)))]
        enhanced = self._topics.enhanced_text(notebook)
        if enhanced:
            signals.append(("tags", _cosine(vector, embedded.get(enhanced))))
        if len(means) and means.shape[1] == vector.shape[0]:
            signals.append(("centroid", float(np.max(means @ vector))))
        by, raw = max(signals, key=lambda signal: signal[1])
        value = raw if self._options().raw_gate else calibrated(raw, self._vectors.calibration())
        return GateValue(notebook, value, raw, by, self.threshold(notebook))

    async def _means(self, notebook: str) -> Matrix:
        """The centroids, made anew when the notebook or its vectors have changed; none for the plain gate of n2025."""
        state = self._index.notebooks().get(notebook)
        if state is None or self._options().raw_gate:
            return np.zeros((0, 0), dtype=np.float32)
        rows = await self._vectors.of_notebook(notebook, CENTROID_ROWS)
        mark = (state.generation, rows.shape, float(rows[0].sum()) if len(rows) else 0.0)
        kept = self._centroids.get(notebook)
        if kept is not None and kept[0] == mark:
            return kept[1]
        made = await asyncio.to_thread(centroids, rows)
        while len(self._centroids) >= CENTROIDS_KEPT:
            del self._centroids[next(iter(self._centroids))]
        self._centroids[notebook] = (mark, made)
        return made

    async def _by_chunk(self, notebook: str, vector: Vector, words: Sequence[str]) -> GateValue:
        """The nearest chunk's value, and what the words add that are found together in one.

        A notebook about many things has centroids that are near to nothing; one of its notes may be the answer.
        """
        nearest = await self._vectors.nearest(vector, [notebook], 1)
        raw = max((score for _, score in nearest if np.isfinite(score)), default=-1.0)
        value = calibrated(raw, self._vectors.calibration())
        if nearest:
            state = self._index.notebooks().get(notebook)
            if state is not None and value > 0:
                value += gain_of_few(state.chunks)
            value = min(1.0, value + WORDS_WORTH * await self._words_together(notebook, words))
        return GateValue(notebook, value, raw, "chunk", self.threshold(notebook))

    async def _words_together(self, notebook: str, words: Sequence[str]) -> float:
        """Which part of the question's words the best chunk by words has."""
        if not words:
            return 0.0
        found = await self._index.lexical(words, [notebook], CHUNKS_READ)
        records = await self._index.chunks([chunk for chunk, _ in found])
        wanted = set(words)
        parts = (len(wanted & set(document_words(record.text))) / len(wanted) for record in records.values())
        return max(parts, default=0.0)

    async def _by_words(self, notebook: str, words: Sequence[str]) -> GateValue:
        """How many of the question's words one chunk has: half of them are worth 0.6, all of them 1."""
        best = await self._words_together(notebook, words)
        rising = best * DEFAULT_THRESHOLD / WORDS_THAT_OPEN
        above = DEFAULT_THRESHOLD + (best - WORDS_THAT_OPEN) * (1.0 - DEFAULT_THRESHOLD) / (1.0 - WORDS_THAT_OPEN)
        return GateValue(notebook, rising if best < WORDS_THAT_OPEN else above, best, "words", self.threshold(notebook))


def _cosine(one: Vector, other: Vector | None) -> float:
    if other is None or other.shape != one.shape:
        return -1.0
    length = float(np.linalg.norm(one)) or 1.0
    cosine = float(one @ other) / length
    return cosine if np.isfinite(cosine) else -1.0
