"""The long memory of one installation: index, vectors, ranking, recall (memory.md).

numpy and what is built on it are imported by the functions that first need them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

from app.config.model_redirect import ModelRedirect
from app.errors import BadRequestError, both
from app.extend import Lifecycle, MemorySearch, PlaceholderSource, Preprocessor, Remembered, RouteSource
from app.hub.hub import Hub
from app.observe.bus import EventBus
from app.services.completions import PlainCompletions
from app.services.embedders_on_demand import EmbeddersOnDemand
from app.services.in_force import InForce
from app.services.memory_index import IndexService
from app.services.memory_recall import Recall, Searching
from app.services.memory_vectors import VectorsService
from app.upstream.client import UpstreamClient

if TYPE_CHECKING:
    from app.memory.embedders.rerankers.reranker import Reranker


@dataclass(frozen=True, slots=True)
class MemorySurroundings:
    """What memory gets from the rest of the program; callables are asked at each use."""

    in_force: InForce
    events: EventBus
    upstream: Callable[[], UpstreamClient]
    redirect: ModelRedirect
    complete: PlainCompletions
    http: httpx.AsyncClient
    """For services that are no model API of ours: rerankers, the model of AIMemo."""
    hub: Callable[[], Hub]


class Memory:
    """The parts of memory, made in one order; only the owner of the home writes the index (D88)."""

    def __init__(self, around: MemorySurroundings) -> None:
        self._around = around
        self.placeholders: tuple[PlaceholderSource, ...] = ()
        self.preprocessors: tuple[Preprocessor, ...] = ()
        self.routes: tuple[RouteSource, ...] = ()
        self.embedders = EmbeddersOnDemand(around)
        self.lifecycles: tuple[Lifecycle, ...] = (self.embedders,)
        self.for_plugins = MemoryForPlugins()
        self.index = IndexService(around.in_force, around.events)
        self.vectors = VectorsService(around, self.index, self.embedders)
        self.lifecycles += (self.index, self.vectors)
        self.recall = Recall(around.in_force, around.events, around.http, around.hub, self._searching)
        self.placeholders += (self.recall.source,)

    def _searching(self) -> Searching | None:
        """What declarations are answered from; None while the index is not open."""
        from app.memory.vectors.of_now import VectorsOfNow
        from app.services.memory_ranking import build_ranking

        index = self.index.index
        if index is None:
            return None
        vectors = VectorsOfNow(lambda: self.vectors.vectors)
        ranking = build_ranking(index, vectors, self._around.in_force, time.monotonic, self._reranker)
        return Searching(index, vectors, ranking, lambda: vectors.version, self.index.fresh)

    def _reranker(self) -> Reranker | None:
        return self.embedders().reranker()


class MemoryForPlugins:
    """See ``PluginMemory``."""

    def notebooks(self) -> Sequence[str]:
        """See ``PluginMemory``."""
        return ()

    async def search(self, search: MemorySearch) -> Sequence[Remembered]:
        """See ``PluginMemory``."""
        raise _no_memory()

    async def neighbours(
        self,
        paths: Sequence[str],
        *,
        notebooks: Sequence[str] | None = None,
        k: int = 10,
        least: float = 0.0,
        tag_boost: float = 0.15,
    ) -> Sequence[Remembered]:
        """See ``PluginMemory``."""
        raise _no_memory()


def _no_memory() -> BadRequestError:
    return BadRequestError(both("记忆功能未启用（Memory=false）", "memory is switched off (Memory=false)"))
