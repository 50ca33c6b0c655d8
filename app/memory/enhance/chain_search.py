"""The search of a stage of a thinking chain (memory.md 5.5)."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import both
from app.memory.embedders.embedder import Vector
from app.memory.enhance.chains import StageFound, StageHit
from app.memory.index.records import SearchableIndex
from app.memory.index.words import query_words
from app.memory.ranking.candidates import WORDS_LIMIT, finite
from app.memory.vectors.search import VectorSearch


class ChainSearch:
    """Looks into one cluster at a time."""

    def __init__(self, index: SearchableIndex, vectors: VectorSearch) -> None:
        self._index = index
        self._vectors = vectors

    async def stage(self, question: str, vector: Vector | None, cluster: str, k: int) -> StageFound:
        """The k modules nearest to the thought; without vectors, or while the cluster has none, those by its words.

        A cluster that is no notebook gives nothing, with a fault that says so.
        """
        if cluster not in self._index.notebooks():
            return StageFound((), None, both(f"没有日记本 {cluster}", f"there is no notebook {cluster}"))
        found: Sequence[tuple[int, float]] = ()
        if vector is not None:
            found = list(finite(await self._vectors.nearest(vector, [cluster], k)).items())
        if not found:
            words = query_words(question)[:WORDS_LIMIT]
            found = list(finite(await self._index.lexical(words, [cluster], k)).items()) if words else []
        records = await self._index.chunks([chunk for chunk, _ in found])
        hits = tuple(StageHit(chunk, records[chunk].text, score) for chunk, score in found if chunk in records)
        ids, matrix = await self._vectors.of_chunks([hit.chunk_id for hit in hits])
        return StageFound(hits, matrix if ids else None)
