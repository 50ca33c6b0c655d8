"""Builds the vectors of notes: what holds them, fills them and searches them. numpy is imported with the first note."""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import BadRequestError, NotFoundError, VcpError, both
from app.extend import Json
from app.services.embedders_on_demand import EmbeddersOnDemand
from app.services.in_force import InForce
from app.services.memory_index import IndexService

if TYPE_CHECKING:
    from app.memory.index.memory_index import MemoryIndex
    from app.memory.vectors.approximating import Approximating
    from app.memory.vectors.filling import Filling
    from app.memory.vectors.importing import Imported
    from app.memory.vectors.sets import VectorSets
    from app.services.memory import MemorySurroundings
    from app.services.memory_embedders import MemoryEmbedders

log = logging.getLogger(__name__)

RETRY_SECONDS = 30.0
STOP_SECONDS = 10.0


class VectorsService:
    """A ``Lifecycle`` that comes after the index's. ``vectors`` is None until there is a note to make a vector of."""

    def __init__(self, around: MemorySurroundings, index: IndexService, embedders: EmbeddersOnDemand) -> None:
        self._around = around
        self._index = index
        self._task: asyncio.Task[None] | None = None
        self._notes = asyncio.Event()
        self._embedders = embedders
        self._parts: tuple[VectorSets, Filling, Approximating] | None = None
        self._importing = asyncio.Lock()

    @property
    def embedders(self) -> MemoryEmbedders:
        """What makes vectors, and what reranks; made at the first use."""
        return self._embedders()

    @property
    def vectors(self) -> VectorSets | None:
        """The sets, when they are open."""
        return None if self._parts is None else self._parts[0]

    @property
    def filling(self) -> Filling | None:
        """What fills them."""
        return None if self._parts is None else self._parts[1]

    async def start(self) -> None:
        """Begin; nothing waits for it, since opening a million vectors takes seconds."""
        if self._index.index is not None:
            self._task = asyncio.create_task(self._begin(self._index.index), name="memory vectors begin")

    def health(self) -> str:
        """Nothing: without vectors words are searched."""
        return ""

    async def stop(self) -> None:
        """End the work and close the files."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        parts, self._parts = self._parts, None
        if parts is not None:
            sets, filling, approximating = parts
            await filling.stop()
            await approximating.stop()
        if parts is not None:
            async with asyncio.timeout(STOP_SECONDS):
                await sets.stop()

    def status(self) -> dict[str, Json]:
        """How the vectors are (11.31)."""
        if self._parts is None:
            return {"ready": False, "vectors": 0, "pending": 0}
        sets, filling, approximating = self._parts
        serving, building, embedders = sets.serving, sets.building, self.embedders.status()
        activity = embedders.activity
        return {
            "ready": sets.ready(),
            "embedder": embedders.signature,
            "serving": "" if serving is None else serving.signature,
            "vectors": 0 if serving is None else serving.count,
            "pending": len(sets.missing),
            "building": None if building is None else {"signature": building.signature, "vectors": building.count},
            "approximate": serving is not None and serving.approximate is not None,
            "approximateBuilding": approximating.building,
            "bytes": sum(one.size for one in (serving, building) if one is not None) + sets.database.size(),
            "embedded": filling.embedded,
            "textsPerSecond": 0.0 if activity is None else round(activity.texts_per_second, 2),
            "cachedQueries": embedders.cached_queries,
            "cacheHits": embedders.cache_hits,
            "cacheMisses": embedders.cache_misses,
            "calibration": {"mean": sets.calibration().mean, "deviation": sets.calibration().deviation},
            "trouble": filling.trouble or sets.fault,
            "waiting": _waiting(filling),
        }

    def reembed(self, *, confirm: bool) -> dict[str, Json]:
        """What a change of model would cost, and the word of a person that it may (11.4).

        Raises NotFoundError while there are no vectors.
        """
        sets, filling, _ = self._open_parts()
        waiting = _waiting(filling)
        confirmed = confirm and filling.confirm()
        if not confirm:
            filling.look_again()
        building = sets.building
        return {
            "waiting": waiting,
            "confirmed": confirmed,
            "building": None if building is None else {"signature": building.signature, "vectors": building.count},
        }

    async def import_store(self, path: str, *, confirm: bool) -> dict[str, Json]:
        """Take over vectors of an existing ``VectorStore``; without ``confirm`` nothing is written (3.5).

        An empty ``path`` is that of the settings (``KNOWLEDGEBASE_STORE_PATH``), below the home or absolute.

        Raises ImportRefusedError for a file that is no such store, NotFoundError while there are no vectors.
        """
        from app.memory.vectors.importing import Importing

        sets, filling, _ = self._open_parts()
        index = self._index.index
        if index is None:
            raise _off()
        if self._importing.locked():
            raise BadRequestError(both("已有一个导入正在进行", "an import is running already"))
        async with self._importing:
            in_force = self._around.in_force
            importing = Importing(sets, index, self.embedders.embedders, lambda: self._index.place.root(in_force))
            store = Path(path) if path else in_force.home / in_force.settings.knowledgebase_store_path
            imported = await importing.run(store, write=confirm)
        filling.look_again()
        return _imported(imported, written=confirm)

    async def _begin(self, index: MemoryIndex) -> None:
        index.changed(lambda _: self._notes.set())
        while self._parts is None:
            try:
                await index.open()
                if not index.notebooks():
                    await self._notes.wait()
                await self._open(index)
            except (VcpError, OSError) as error:
                log.warning("memory: vectors cannot be opened now: %s", getattr(error, "message", "") or error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _open(self, index: MemoryIndex) -> None:
        await asyncio.to_thread(_load)  # numpy takes a while, and the event loop goes on meanwhile
        from app.memory.index.database import IndexBrokenError
        from app.memory.vectors.approximating import Approximating
        from app.memory.vectors.filling import Filling
        from app.memory.vectors.sets import VectorSets

        in_force: InForce = self._around.in_force
        embedders = self.embedders
        sets = VectorSets(
            in_force.home / self._index.place.derived,
            index,
            embedders.embedders,
            embedders.queries,
            clock=time.time,
            exact_vectors=lambda: in_force.settings.memory_exact_vectors,
        )
        try:
            await sets.open()
        except IndexBrokenError as error:  # the next try finds them empty
            await sets.heal(error.message)
            await sets.stop()
            raise
        except BaseException:
            await sets.stop()
            raise
        filling = Filling(
            sets,
            index,
            embedders.embedders,
            confirm_texts=lambda: in_force.settings.memory_confirm_texts,
            price=lambda: in_force.settings.memory_embedding_price,
            clock=time.time,
        )
        approximating = Approximating(sets, lambda: in_force.settings.memory_exact_vectors)
        self._parts = sets, filling, approximating
        await filling.start()
        await approximating.start()

    def _open_parts(self) -> tuple[VectorSets, Filling, Approximating]:
        if self._parts is None:
            raise _off()
        return self._parts


def _load() -> None:
    importlib.import_module("app.memory.vectors.filling")


def _off() -> NotFoundError:
    return NotFoundError(
        both("没有向量：记忆未启用，或还没有日记", "there are no vectors: memory is off, or there is no note yet")
    )


def _waiting(filling: Filling) -> Json:
    one = filling.unconfirmed
    if one is None:
        return None
    return {"model": one.model, "texts": one.texts, "tokens": one.tokens, "cost": round(one.cost, 4)}


def _imported(found: Imported, *, written: bool) -> dict[str, Json]:
    return {
        "written": written,
        "files": found.files,
        "chunks": found.chunks,
        "matched": found.matched,
        "reused": found.reused,
        "toEmbed": found.to_embed,
        "staleFiles": found.stale_files,
        "missingFiles": found.missing_files,
        "badVectors": found.bad_vectors,
        "tags": found.tags,
        "reason": found.reason,
    }
