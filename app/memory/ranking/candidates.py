"""The chunks that may answer a question, with their exact scores on both sides (memory.md 8.3, 11.7, 11.9)."""

from __future__ import annotations

import asyncio
import math
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.memory.embedders.embedder import Vector
from app.memory.index.records import ChunkRecord, SearchableIndex
from app.memory.ranking.neighbours import missing_neighbours
from app.memory.ranking.requests import Retrieval
from app.memory.vectors.search import VectorSearch

LIST_DEPTH = 50
"""How many of the best are taken from each side (11.7)."""

DEEPEST_LIST = 1_000
FILTERED_DEPTH = 400
"""With filters more are taken, because many will not pass."""

WORDS_LIMIT = 64
"""Words of a question that are looked for."""

TAG_NOTES = 20
"""Notes that the graph of tags may bring in."""

CHUNKS_OF_A_NOTE = 4
"""How many of a note's chunks come in with it, its first ones."""


@dataclass(slots=True)
class Pool:
    """The union of all lists. ``cosines`` is None where there are no vectors now; ``notes`` are chunk ids by note."""

    records: dict[int, ChunkRecord] = field(default_factory=dict)
    cosines: dict[int, float] | None = None
    bm25: dict[int, float] = field(default_factory=dict)
    notes: dict[int, list[int]] = field(default_factory=dict)
    listed: set[int] = field(default_factory=set)
    """What was found itself; the others are only neighbours of it."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Authors and tags as the search tools ask for them (6.2); compared without regard to case and width."""

    authors: frozenset[str]
    tags_all: frozenset[str]
    tags_any: frozenset[str]

    @classmethod
    def of(cls, retrieval: Retrieval) -> Filter | None:
        """The filter of a request, None when everything passes."""
        wanted = cls(_folded(retrieval.authors), _folded(retrieval.tags_all), _folded(retrieval.tags_any))
        return wanted if wanted.authors or wanted.tags_all or wanted.tags_any else None

    def passes(self, record: ChunkRecord) -> bool:
        """Whether the author has a wanted name in it (6.1), and the note all of the one tags, and one of the other."""
        author = folded(record.author)
        if self.authors and not any(name in author for name in self.authors):
            return False
        tags = _folded(record.tags)
        return self.tags_all <= tags and (not self.tags_any or not self.tags_any.isdisjoint(tags))

    def notes(self, tag_notes: Mapping[str, frozenset[int]]) -> frozenset[int] | None:
        """The notes that have the wanted tags; None when no tag is asked for."""
        if not (self.tags_all or self.tags_any):
            return None
        by_tag: dict[str, frozenset[int]] = {}
        for tag, notes in tag_notes.items():
            name = folded(tag)
            if name in self.tags_all or name in self.tags_any:
                by_tag[name] = by_tag.get(name, frozenset()) | notes
        sets = [by_tag.get(tag, frozenset()) for tag in sorted(self.tags_all)]
        if self.tags_any:
            sets.append(frozenset().union(*(by_tag.get(tag, frozenset()) for tag in self.tags_any)))
        return frozenset.intersection(*sets)


def folded(text: str) -> str:
    """A name or tag as it is compared: NFKC, no regard to case, trimmed."""
    return unicodedata.normalize("NFKC", text).casefold().strip()


def _folded(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(name for text in texts if (name := folded(text)))


def finite(pairs: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Scores by chunk without those that are no numbers."""
    return {chunk: float(score) for chunk, score in pairs if math.isfinite(score)}


class CandidateSearch:
    """Asks the index and the vectors."""

    def __init__(self, index: SearchableIndex, vectors: VectorSearch) -> None:
        self._index = index
        self._vectors = vectors

    async def pool(
        self,
        vector: Vector | None,
        words: Sequence[str],
        retrieval: Retrieval,
        depth: int,
        *,
        of_days: Sequence[int] = (),
    ) -> Pool:
        """The best ``depth`` of each side; of the chunks in ``of_days`` as many again, for the time path."""
        chosen = Filter.of(retrieval)
        among = await self._among(chosen)
        limit = max(depth, FILTERED_DEPTH) if chosen else depth
        limit = min(DEEPEST_LIST, max(LIST_DEPTH, limit))
        notebooks = retrieval.notebooks
        nearest, lexical, timely = await asyncio.gather(
            self._nearest(vector, notebooks, limit, among),
            self._lexical(words, notebooks, limit, tags_only=not retrieval.bm25_bodies and retrieval.bm25 is not None),
            self._nearest(vector, notebooks, LIST_DEPTH, of_days) if of_days else _nothing(),
        )
        pool = Pool(cosines=None if vector is None else {**nearest, **timely}, bm25=dict(lexical))
        newest = of_days[:LIST_DEPTH] if not timely else ()
        await self.add(pool, vector, words, [*nearest, *lexical, *timely, *newest], retrieval, chosen)
        pool.listed = set(pool.records)
        return pool

    async def add(
        self,
        pool: Pool,
        vector: Vector | None,
        words: Sequence[str],
        chunks: Iterable[int],
        retrieval: Retrieval,
        chosen: Filter | None = None,
    ) -> None:
        """Bring chunks into the pool, with exact scores; what does not pass the filter or is gone stays out."""
        wanted = [chunk for chunk in dict.fromkeys(chunks) if chunk not in pool.records]
        if not wanted:
            return
        records = await self._index.chunks(wanted)
        notebooks = frozenset(retrieval.notebooks)
        for chunk in wanted:
            record = records.get(chunk)
            if record is not None and record.notebook in notebooks and (chosen is None or chosen.passes(record)):
                pool.records[chunk] = record
        lacking = [chunk for chunk in wanted if chunk in pool.records]
        tags_only = not retrieval.bm25_bodies and retrieval.bm25 is not None
        unscored = [chunk for chunk in lacking if chunk not in pool.bm25] if words and not tags_only else []
        if unscored:
            pool.bm25.update(finite((await self._index.lexical_scores(words, unscored)).items()))
        if vector is not None and pool.cosines is not None:
            unseen = [chunk for chunk in lacking if chunk not in pool.cosines]
            if unseen:
                pool.cosines.update(finite((await self._vectors.cosines(vector, unseen)).items()))
        for side in (pool.bm25, pool.cosines or {}):
            for chunk in [chunk for chunk in side if chunk not in pool.records]:
                del side[chunk]

    async def add_neighbours(
        self, pool: Pool, vector: Vector | None, words: Sequence[str], retrieval: Retrieval
    ) -> None:
        """Bring in what stands beside a candidate in its note, so that smoothing can raise it (11.9)."""
        notes = list(dict.fromkeys(record.note_id for record in pool.records.values()))
        pool.notes.update(await self._index.chunks_of_notes([note for note in notes if note not in pool.notes]))
        lacking = missing_neighbours(dict.fromkeys(pool.records, 0.0), pool.notes)
        await self.add(pool, vector, words, lacking, retrieval, Filter.of(retrieval))

    async def add_notes(
        self, pool: Pool, vector: Vector | None, words: Sequence[str], retrieval: Retrieval, notes: Sequence[int]
    ) -> None:
        """Bring in the first chunks of notes that the tags have led to."""
        known = {record.note_id for record in pool.records.values()}
        lacking = [note for note in notes if note not in known]
        chunks = await self._index.chunks_of_notes(lacking)
        first = [chunk for note in lacking for chunk in chunks.get(note, [])[:CHUNKS_OF_A_NOTE]]
        await self.add(pool, vector, words, first, retrieval, Filter.of(retrieval))
        pool.listed |= {chunk for chunk in first if chunk in pool.records}

    async def _among(self, chosen: Filter | None) -> list[int] | None:
        if chosen is None:
            return None
        notes = chosen.notes(await self._index.tag_notes())
        if notes is None:
            return None
        by_note = await self._index.chunks_of_notes(sorted(notes))
        return [chunk for chunks in by_note.values() for chunk in chunks]

    async def _nearest(
        self, vector: Vector | None, notebooks: Collection[str], limit: int, among: Sequence[int] | None
    ) -> dict[int, float]:
        if vector is None or not notebooks or (among is not None and not among):
            return {}
        return finite(await self._vectors.nearest(vector, notebooks, limit, among=among))

    async def _lexical(
        self, words: Sequence[str], notebooks: Collection[str], limit: int, *, tags_only: bool
    ) -> dict[int, float]:
        if not words or not notebooks:
            return {}
        return finite(await self._index.lexical(words, notebooks, limit, tags_only=tags_only))


async def _nothing() -> dict[int, float]:
    return {}
