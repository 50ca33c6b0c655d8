"""The vector search of a home without vectors: recall goes on by words alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from app.memory.embedders.embedder import Calibration, Matrix, Vector


class NoVectors:
    """See ``VectorSearch``: every answer is empty."""

    def ready(self) -> bool:
        """Never."""
        return False

    def calibration(self) -> Calibration:
        """Of nothing."""
        return Calibration(0.0, 1.0)

    async def embed_query(self, text: str) -> Vector | None:
        """No vector."""
        return None

    async def nearest(
        self, query: Vector, notebooks: Iterable[str] | None, limit: int, *, among: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """No chunks."""
        return []

    async def cosines(self, query: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        """No cosines."""
        return {}

    async def of_chunks(self, chunk_ids: Sequence[int]) -> tuple[list[int], Matrix]:
        """No vectors."""
        return [], np.zeros((0, 0), dtype=np.float32)

    async def of_notebook(self, notebook: str, limit: int) -> Matrix:
        """No vectors."""
        return np.zeros((0, 0), dtype=np.float32)

    async def of_texts(self, texts: Sequence[str]) -> list[Vector | None]:
        """No vectors."""
        return [None for _ in texts]

    async def nearest_tags(self, query: Vector, limit: int) -> list[tuple[str, float]]:
        """No tags."""
        return []
