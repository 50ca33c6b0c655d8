"""Searching notes for tools: a question with filters, and notes near to given ones (memory.md 1.7, 6.1, 6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from app.extend import MemorySearch, Remembered
from app.memory.embedders.calibration import calibrated
from app.memory.embedders.embedder import Vector
from app.memory.enhance.chains import mean_vector
from app.memory.index.records import ChunkRecord, SearchableIndex
from app.memory.index.words import query_words
from app.memory.ranking.candidates import WORDS_LIMIT, finite, folded
from app.memory.ranking.pipeline import Retriever
from app.memory.ranking.query_vector import unit_vector
from app.memory.ranking.requests import DateRange, Hit, RecallQuery, Retrieval
from app.memory.vectors.search import VectorSearch

MOST_HITS = 200
QUERY_CHARS = 8_000
DEPTH_WITH_DAYS = 100
"""With days many fragments do not pass: so many are taken before those outside are left out."""

SOURCES_LIMIT = 50
OWN_CHUNKS = 50
"""Chunks in which those of a note itself are looked for, by its own words."""

NEAR_DEPTH = 100


class NoteSearch:
    """Asks the same index, vectors and ranking as declarations do."""

    def __init__(self, index: SearchableIndex, vectors: VectorSearch, retriever: Retriever) -> None:
        self._index = index
        self._vectors = vectors
        self._retriever = retriever

    async def search(self, asked: MemorySearch, now: datetime, max_tokens: int) -> list[Remembered]:
        """The fragments that answer best, best first, at most ``k`` of them and ``max_tokens`` tokens together."""
        notebooks = self._among(asked.notebooks, asked.excluded)
        k = max(0, min(MOST_HITS, asked.k))
        question = asked.query.strip()[:QUERY_CHARS]
        if not notebooks or not k or not question:
            return []
        ranges = tuple(DateRange(first, last) for first, last in asked.ranges if first <= last)
        if asked.ranges and not ranges:
            return []
        words = asked.words or not self._vectors.ready()  # without vectors there is nothing else to go by
        retrieval = Retrieval(
            notebooks,
            max(k, DEPTH_WITH_DAYS) if ranges else k,
            max_tokens,
            time=bool(ranges),
            time_share=1.0,
            group=True,  # the question is widened by the words of the groups that it activates (6.1)
            tags=asked.tag_boost is not None and asked.tag_boost > 0,
            tag_boost=asked.tag_boost,
            rerank=asked.rerank is not None,
            rerank_fusion=asked.rerank if asked.rerank is not None and 0 < asked.rerank < 1 else None,
            bm25=None if words else 0.0,
            authors=asked.authors,
            tags_all=asked.tags_all,
            tags_any=asked.tags_any,
        )
        found = await self._retriever.retrieve(RecallQuery(question, "", now, ranges=ranges), retrieval)
        hits = [hit for hit in found.hits if not ranges or _inside(hit.chunk, ranges)]
        hits.sort(key=lambda hit: "rerank" not in hit.parts)  # a reranker's order stays, what only fills up follows
        if not any("rerank" in hit.parts for hit in hits):
            hits.sort(key=lambda hit: -_score(hit))
        return [_remembered(hit, words) for hit in hits[:k]]

    async def neighbours(
        self,
        paths: Sequence[str],
        texts: Sequence[str],
        notebooks: Sequence[str] | None,
        k: int,
        least: float,
        tag_boost: float,
    ) -> list[Remembered]:
        """Notes near to the notes at ``paths``, whose contents are ``texts``; the best fragment of each, best first.

        Nearness is the calibrated similarity to the mean of the note's vectors; without vectors it is the share of the
        note's own score by its words. Tags that both carry add up to ``tag_boost``.
        """
        names = self._among(None if notebooks is None else tuple(notebooks), ())
        best: dict[int, tuple[float, ChunkRecord, float | None, tuple[str, ...]]] = {}
        for path, text in zip(paths[:SOURCES_LIMIT], texts, strict=False):
            for score, record, similarity, shared in await self._near(path, text, names, tag_boost):
                known = best.get(record.note_id)
                if record.path not in paths and score >= least and (known is None or known[0] < score):
                    best[record.note_id] = score, record, similarity, shared
        ranked = sorted(best.values(), key=lambda one: (-round(one[0], 9), one[1].path))[: max(0, min(MOST_HITS, k))]
        return [
            _fragment(record, score, similarity, "words" if similarity is None else "vector", shared)
            for score, record, similarity, shared in ranked
        ]

    async def _near(
        self, path: str, text: str, notebooks: Sequence[str], tag_boost: float
    ) -> list[tuple[float, ChunkRecord, float | None, tuple[str, ...]]]:
        words = query_words(text)[:WORDS_LIMIT]
        book = path.partition("/")[0]
        listed = finite(await self._index.lexical(words, [book], OWN_CHUNKS)) if words else {}
        own = {
            chunk: record for chunk, record in (await self._index.chunks(list(listed))).items() if record.path == path
        }
        tags = {folded(tag) for record in own.values() for tag in record.tags}
        cosines = await self._cosines(list(own), text, notebooks)
        lexical: dict[int, float] = {}
        if not cosines and words:
            top = max((listed[chunk] for chunk in own), default=0.0)
            found = finite(await self._index.lexical(words, notebooks, NEAR_DEPTH))
            top = max(top, *found.values()) if found else top
            lexical = {chunk: score / top for chunk, score in found.items()} if top > 0 else {}
        calibration = self._vectors.calibration() if cosines else None
        records = await self._index.chunks([*cosines, *lexical])
        near = []
        for chunk, record in records.items():
            similarity = calibrated(cosines[chunk], calibration) if calibration is not None else None
            shared = tuple(tag for tag in record.tags if folded(tag) in tags)
            gain = tag_boost * len(shared) / max(1, len(tags))
            near.append(((similarity if similarity is not None else lexical[chunk]) + gain, record, similarity, shared))
        return near

    async def _cosines(self, own: Sequence[int], text: str, notebooks: Sequence[str]) -> dict[int, float]:
        """Cosines of the chunks nearest to a note, by the vectors it has already, else by one of its text."""
        if not self._vectors.ready() or not notebooks:
            return {}
        ids, matrix = await self._vectors.of_chunks(own)
        mean = mean_vector(matrix) if ids else await self._vectors.embed_query(text[:QUERY_CHARS])
        vector: Vector | None = None if mean is None else unit_vector(mean)
        return {} if vector is None else finite(await self._vectors.nearest(vector, notebooks, NEAR_DEPTH))

    def _among(self, wanted: Sequence[str] | None, excluded: Iterable[str]) -> tuple[str, ...]:
        out = frozenset(excluded)
        known = self._index.notebooks()
        return tuple(name for name in (known if wanted is None else wanted) if name in known and name not in out)


def _inside(record: ChunkRecord, ranges: Sequence[DateRange]) -> bool:
    return record.day is not None and any(span.first <= record.day <= span.last for span in ranges)


def _score(hit: Hit) -> float:
    return hit.score - hit.parts.get("range", 0.0)  # all that pass lie in the range: it tells nothing between them


def _remembered(hit: Hit, by_words: bool) -> Remembered:
    if "rerank" in hit.parts:
        kind, score = "rerank", hit.parts["rerank"]
    else:
        score = _score(hit)
        meaning, words = hit.parts.get("cosine") is not None, by_words and hit.parts.get("bm25", 0.0) > 0
        kind = "hybrid" if meaning and words else "vector" if meaning else "words"
    return _fragment(hit.chunk, score, hit.similarity, kind, hit.matched_tags, hit.text)


def _fragment(
    record: ChunkRecord,
    score: float,
    similarity: float | None,
    kind: str,
    matched: tuple[str, ...],
    text: str | None = None,
) -> Remembered:
    return Remembered(
        record.notebook,
        record.path,
        record.text if text is None else text,
        score,
        similarity,
        kind,
        record.day,
        record.author,
        record.tags,
        matched,
    )
