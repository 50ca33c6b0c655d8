"""An index and vectors in memory, over prepared passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from math import log

import numpy as np
from numpy.typing import NDArray

from app.memory.embedders.embedder import Calibration, Matrix, Vector
from app.memory.index.records import ChunkRecord, IndexChange, NotebookState
from app.memory.index.words import document_words
from app.protocol.recall_query import reference_tokens
from bench.memory.embedding import Embedder
from bench.memory.sets import Passage

K1, B = 1.2, 0.75
TAG_LINE = "Tag: "


class PreparedIndex:
    """``SearchableIndex`` over passages; a document is a note, a passage is a chunk of it."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.ids = [one.id for one in passages]
        self.names = [one.notebook or "all" for one in passages]
        notes = {name: number for number, name in enumerate(dict.fromkeys(one.document for one in passages), 1)}
        self._notes: dict[int, list[int]] = {}
        self._records: dict[int, ChunkRecord] = {}
        for number, one in enumerate(passages, 1):
            note = notes[one.document]
            before = self._notes.setdefault(note, [])
            start = self._records[before[-1]].end + 1 if before else 0
            before.append(number)
            self._records[number] = ChunkRecord(
                number, note, self.names[number - 1], one.document, one.place, start, start + len(one.text),
                reference_tokens(one.text), one.text, bytes(32), one.day, "", "", _tags(one),
            )  # fmt: skip
        tags: dict[str, set[int]] = {}
        for record in self._records.values():
            for tag in record.tags:
                tags.setdefault(tag, set()).add(record.note_id)
        self._tags = {tag: frozenset(found) for tag, found in tags.items()}
        self._weights = _bm25([one.whole for one in passages])
        self._of_notebook = np.array(self.names)

    def notebooks(self) -> Mapping[str, NotebookState]:
        counts = Counter(self.names)
        return {name: NotebookState(at, name, 1, count, count) for at, (name, count) in enumerate(counts.items())}

    def changed(self, told: Callable[[IndexChange], None]) -> None:
        """Nothing changes here."""

    def inside(self, notebooks: Iterable[str] | None) -> NDArray[np.bool_]:
        """Which passages are in these notebooks."""
        everything = np.ones(len(self.ids), dtype=bool)
        return everything if notebooks is None else np.isin(self._of_notebook, list(notebooks))

    def _scores(self, words: Sequence[str]) -> NDArray[np.float64]:
        total = np.zeros(len(self.ids))
        for word in words:
            if word in self._weights:
                where, weights = self._weights[word]
                total[where] += weights
        return total

    async def lexical(
        self, words: Sequence[str], notebooks: Iterable[str] | None, limit: int, *, tags_only: bool = False
    ) -> list[tuple[int, float]]:
        scores = np.where(self.inside(notebooks), self._scores(words), 0.0)
        order = np.argsort(-scores, kind="stable")[:limit]
        return [(int(at) + 1, float(scores[at])) for at in order if scores[at] > 0]

    async def lexical_scores(self, words: Sequence[str], chunk_ids: Sequence[int]) -> dict[int, float]:
        scores = self._scores(words)
        return {chunk: float(scores[chunk - 1]) for chunk in chunk_ids if scores[chunk - 1] > 0}

    async def chunks(self, chunk_ids: Sequence[int]) -> dict[int, ChunkRecord]:
        return {chunk: self._records[chunk] for chunk in chunk_ids}

    async def in_days(self, first: date, last: date, notebooks: Iterable[str] | None, limit: int) -> list[int]:
        inside = self.inside(notebooks)
        found = [
            (-record.day.toordinal(), chunk)
            for chunk, record in self._records.items()
            if record.day is not None and first <= record.day <= last and inside[chunk - 1]
        ]
        return [chunk for _, chunk in sorted(found)[:limit]]

    async def chunks_of_notes(self, note_ids: Sequence[int]) -> dict[int, list[int]]:
        return {note: self._notes[note] for note in note_ids}

    async def tag_notes(self) -> Mapping[str, frozenset[int]]:
        return self._tags


class PreparedVectors:
    """``VectorSearch`` over the same passages; calibrated as a serving set is, by questions and chunks at random."""

    def __init__(self, index: PreparedIndex, passages: Sequence[Passage], embedder: Embedder) -> None:
        self._index = index
        self._embedder = embedder
        self._rows = embedder.embed([one.whole for one in passages], "passage")
        self._calibration = Calibration(0.0, 1.0)

    def expect(self, questions: Sequence[str]) -> None:
        """Measure the calibration."""
        cosines = self._embedder.embed(questions, "query") @ self._rows.T
        middle, upper = np.percentile(cosines, [50, 84.13])  # pairs of two languages only lengthen the lower tail
        self._calibration = Calibration(float(middle), float(upper - middle) or 1.0)

    def ready(self) -> bool:
        return True

    def calibration(self) -> Calibration:
        return self._calibration

    async def embed_query(self, text: str) -> Vector | None:
        vector: Vector = self._embedder.embed([text], "query")[0]
        return vector

    async def nearest(
        self, query: Vector, notebooks: Iterable[str] | None, limit: int, *, among: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        inside = self._index.inside(notebooks)
        if among is not None:
            allowed = np.zeros(len(inside), dtype=bool)
            allowed[np.array(among, dtype=np.int64) - 1] = True
            inside &= allowed
        cosines = np.where(inside, self._rows @ query, -2.0)
        order = np.argsort(-cosines, kind="stable")[:limit]
        return [(int(at) + 1, float(cosines[at])) for at in order if cosines[at] > -2.0]

    async def cosines(self, query: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        return {chunk: float(self._rows[chunk - 1] @ query) for chunk in chunk_ids}

    async def of_chunks(self, chunk_ids: Sequence[int]) -> tuple[list[int], Matrix]:
        rows: Matrix = self._rows[np.array(chunk_ids, dtype=np.int64) - 1]
        return list(chunk_ids), rows

    async def of_notebook(self, notebook: str, limit: int) -> Matrix:
        rows: Matrix = self._rows[self._index.inside([notebook])]
        return rows[:: max(1, -(-len(rows) // limit))]

    async def of_texts(self, texts: Sequence[str]) -> list[Vector | None]:
        return list(self._embedder.embed(texts, "passage"))

    async def nearest_tags(self, query: Vector, limit: int) -> list[tuple[str, float]]:
        tags = sorted(await self._index.tag_notes())
        if not tags:
            return []
        cosines = self._embedder.embed(tags, "passage") @ query
        return [(tags[at], float(cosines[at])) for at in np.argsort(-cosines, kind="stable")[:limit]]


def _tags(passage: Passage) -> tuple[str, ...]:
    for line in passage.header.splitlines():
        if line.startswith(TAG_LINE):
            return tuple(tag.strip() for tag in line[len(TAG_LINE) :].split(",") if tag.strip())
    return ()


def _bm25(texts: Sequence[str]) -> dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """For each word the places of texts that have it, and what it adds there."""
    counted = [Counter(document_words(text)) for text in texts]
    lengths = np.array([sum(counts.values()) for counts in counted], dtype=np.float64)
    share = lengths / (lengths.mean() or 1.0)
    places: dict[str, list[tuple[int, int]]] = {}
    for place, counts in enumerate(counted):
        for word, count in counts.items():
            places.setdefault(word, []).append((place, count))
    weights = {}
    for word, found in places.items():
        where, often = np.array([at for at, _ in found]), np.array([count for _, count in found], dtype=np.float64)
        rare = log(1 + (len(texts) - len(found) + 0.5) / (len(found) + 0.5))
        weights[word] = where, rare * often * (K1 + 1) / (often + K1 * (1 - B + B * share[where]))
    return weights
