"""The vector search of now: that of the open sets, or none while they are not open yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from app.memory.embedders.embedder import Calibration, Matrix, Vector
from app.memory.vectors.none import NoVectors
from app.memory.vectors.search import VectorSearch
from app.memory.vectors.sets import VectorSets


class VectorsOfNow:
    """See ``VectorSearch``; ``sets`` is asked at each use, since opening a million vectors takes a while."""

    def __init__(self, sets: Callable[[], VectorSets | None]) -> None:
        self._sets = sets
        self._none = NoVectors()

    @property
    def version(self) -> object:
        """Another one whenever answers may have become others: a part of cache keys (3.7)."""
        sets = self._sets()
        return None if sets is None else sets.version

    def _now(self) -> VectorSearch:
        return self._sets() or self._none

    def ready(self) -> bool:
        """See ``VectorSearch``."""
        return self._now().ready()

    def calibration(self) -> Calibration:
        """See ``VectorSearch``."""
        return self._now().calibration()

    async def embed_query(self, text: str) -> Vector | None:
        """See ``VectorSearch``."""
        return await self._now().embed_query(text)

    async def nearest(
        self, query: Vector, notebooks: Iterable[str] | None, limit: int, *, among: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """See ``VectorSearch``."""
        return await self._now().nearest(query, notebooks, limit, among=among)

    async def cosines(self, query: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        """See ``VectorSearch``."""
        return await self._now().cosines(query, chunk_ids)

    async def of_chunks(self, chunk_ids: Sequence[int]) -> tuple[list[int], Matrix]:
        """See ``VectorSearch``."""
        return await self._now().of_chunks(chunk_ids)

    async def of_notebook(self, notebook: str, limit: int) -> Matrix:
        """See ``VectorSearch``."""
        return await self._now().of_notebook(notebook, limit)

    async def of_texts(self, texts: Sequence[str]) -> list[Vector | None]:
        """See ``VectorSearch``."""
        return await self._now().of_texts(texts)

    async def nearest_tags(self, query: Vector, limit: int) -> list[tuple[str, float]]:
        """See ``VectorSearch``."""
        return await self._now().nearest_tags(query, limit)
