"""Keeps the approximate index of a large set fresh, in the background (memory.md 9.3, 11.25)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import numpy as np

from app.memory.vectors import approximate
from app.memory.vectors.sets import VectorSets
from app.memory.vectors.vector_set import VectorSet

log = logging.getLogger(__name__)

LOOK_SECONDS = 60.0
TROUBLE_SECONDS = 600.0


class Approximating:
    """A ``Lifecycle``. While an index is built, or cannot be, search is exact."""

    def __init__(self, sets: VectorSets, exact_vectors: Callable[[], int]) -> None:
        self._sets = sets
        self._exact_vectors = exact_vectors
        self._task: asyncio.Task[None] | None = None
        self._looked_for = 0
        self.building = False

    async def start(self) -> None:
        """Begin; the sets are open already."""
        self._task = asyncio.create_task(self._run(), name="memory approximate index")

    def health(self) -> str:
        """Nothing: search is slower without it, and exact."""
        return ""

    async def stop(self) -> None:
        """End, and the process that builds with it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def step(self) -> bool:
        """Look once, and build if it is time; false when that went wrong. Raises OSError without room."""
        one = self._sets.serving
        if one is None or one.count <= self._exact_vectors():
            return True
        if one.approximate is None and self._looked_for != one.id:
            self._looked_for = one.id
            one.approximate = await asyncio.to_thread(approximate.load, one.path.parent, one.id)
        if not _is_stale(one):
            return True
        self.building = True
        try:
            log.info("memory: building the approximate index of %d vectors", one.count)
            marks = one.marks.copy()
            built = await approximate.build(one.path.parent, one.id, one.path, one.dimension, marks)
            if built and self._sets.serving is one:
                one.approximate = await asyncio.to_thread(approximate.load, one.path.parent, one.id)
            return built
        finally:
            self.building = False

    async def _run(self) -> None:
        while True:
            try:
                well = await self.step()
            except OSError as error:
                log.warning("memory: the approximate index cannot be kept now: %s", error.strerror or error)
                well = False
            await asyncio.sleep(LOOK_SECONDS if well else TROUBLE_SECONDS)


def _is_stale(one: VectorSet) -> bool:
    if one.approximate is None:
        return True
    fresh = one.count - int(np.count_nonzero(one.approximate.covers(one.marks)))
    return fresh > max(approximate.FRESH_ROWS, one.count // approximate.FRESH_SHARE)
