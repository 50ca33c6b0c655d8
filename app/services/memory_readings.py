"""What ``/metrics`` tells of memory: queues, what is missing, how old, how quick, how often a cache helps (11.31)."""

from __future__ import annotations

import time
from collections.abc import Mapping

from app.services.memory_index import IndexService
from app.services.memory_recall import Recall
from app.services.memory_vectors import VectorsService

OF_VECTORS = ("vectors", "pending", "bytes", "embedded", "textsPerSecond", "cacheHits", "cacheMisses")
"""The numbers of ``VectorsService.status`` that are told."""


def memory_readings(index: IndexService, vectors: VectorsService, recall: Recall) -> Mapping[tuple[str, ...], float]:
    """Numbers by what they count. Nothing is read from the disk but the sizes of files."""
    status = vectors.status()
    found: dict[tuple[str, ...], float] = {}
    for name in OF_VECTORS:
        value = status.get(name, 0)
        if isinstance(value, int | float):
            found[name,] = float(value)
    hits, misses = recall.cache_use()
    found |= {("resultCacheHits",): hits, ("resultCacheMisses",): misses}
    if index.index is not None and index.sync is not None:
        books, state = index.index.notebooks().values(), index.sync.state
        found |= {
            ("notes",): sum(book.notes for book in books),
            ("chunks",): sum(book.chunks for book in books),
            ("waitingNotes",): state.pending,
            ("staleSeconds",): max(0.0, time.time() - state.stale_since) if state.stale_since else 0.0,
        }
    return found
