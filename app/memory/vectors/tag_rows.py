"""Which row of the serving set is the vector of which tag; kept until anything changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.memory.index.chunks import embedded_sha
from app.memory.index.memory_index import MemoryIndex
from app.memory.vectors.vector_set import VectorSet

Known = tuple[list[str], NDArray[np.int64]]
"""Tags as they are displayed, and the row of each."""


class TagRows:
    """Of the tags that have a vector. ``version`` says whether anything has changed."""

    def __init__(self, index: MemoryIndex) -> None:
        self._index = index
        self._known: tuple[int, Known] | None = None

    async def of(self, serving: VectorSet, version: int) -> Known:
        """Raises the errors of ``Database``."""
        if self._known is not None and self._known[0] == version:
            return self._known[1]
        tags = list(await self._index.tag_notes())
        rows = await serving.rows_of([embedded_sha(tag) for tag in tags])
        pairs = [(tag, rows[sha]) for tag in tags if (sha := embedded_sha(tag)) in rows]
        known = [tag for tag, _ in pairs], np.asarray([row for _, row in pairs], np.int64)
        self._known = version, known
        return known
