"""Cold bases of knowledge: ``[[X知识库]]`` over the folders of ``knowledge/``, with an index of their own (2.5).

Nothing of it is made before a prompt asks for one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import VcpError
from app.services.embedders_on_demand import EmbeddersOnDemand
from app.services.in_force import InForce
from app.services.memory_index import IndexService, NotesPlace
from app.services.memory_recall import Searching
from app.services.memory_vectors import VectorsService

if TYPE_CHECKING:
    from app.services.memory import MemorySurroundings

log = logging.getLogger(__name__)

FIRST_SECONDS = 10.0
"""The first question waits so long for the files to be read; what is not read by then comes later."""


def knowledge_root(in_force: InForce) -> Path:
    """The folder whose folders are bases of knowledge."""
    return in_force.home / "knowledge"


KNOWLEDGE = NotesPlace(knowledge_root, Path(".vcp") / "memory" / "knowledge")


class ColdKnowledge:
    """A ``Lifecycle``. ``build`` makes what declarations are answered from out of an index and its vectors."""

    def __init__(
        self,
        around: MemorySurroundings,
        embedders: EmbeddersOnDemand,
        build: Callable[[IndexService, VectorsService], Searching | None],
    ) -> None:
        self._around = around
        self._embedders = embedders
        self._build = build
        self._opening = asyncio.Lock()
        self._parts: tuple[IndexService, VectorsService] | None = None
        self._made: Searching | None = None

    async def start(self) -> None:
        """Nothing: the first declaration opens it."""

    def health(self) -> str:
        """Nothing: what is wrong with it costs its declarations only."""
        return ""

    async def stop(self) -> None:
        """Close what was opened."""
        parts, self._parts, self._made = self._parts, None, None
        if parts is not None:
            index, vectors = parts
            await vectors.stop()
            await index.stop()

    async def searching(self) -> Searching | None:
        """What answers declarations; None where there is no folder ``knowledge``, or no memory here."""
        async with self._opening:
            if self._made is None:
                self._made = await self._open()
            return self._made

    async def _open(self) -> Searching | None:
        in_force = self._around.in_force
        if not await asyncio.to_thread(knowledge_root(in_force).is_dir):
            return None
        index = IndexService(in_force, self._around.events, KNOWLEDGE)
        await index.start()
        if index.sync is None:
            return None
        vectors = VectorsService(self._around, index, self._embedders)
        self._parts = index, vectors
        try:
            async with asyncio.timeout(FIRST_SECONDS):
                await index.sync.settled()
        except TimeoutError:
            log.info("memory: knowledge/ is being read")
        except (VcpError, OSError) as error:
            log.warning("memory: knowledge/ cannot be read now: %s", getattr(error, "message", "") or error)
        await vectors.start()
        return self._build(index, vectors)
