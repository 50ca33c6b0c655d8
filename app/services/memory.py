"""The long memory of one installation: index, vectors, ranking, recall (memory.md).

numpy and what is built on it are imported by the functions that first need them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

from app.config.model_redirect import ModelRedirect
from app.extend import Lifecycle, PlaceholderSource, Preprocessor, RouteSource
from app.hub.hub import Hub
from app.observe.bus import EventBus
from app.services.completions import PlainCompletions
from app.services.embedders_on_demand import EmbeddersOnDemand
from app.services.in_force import InForce
from app.services.memory_index import IndexService
from app.services.memory_knowledge import ColdKnowledge
from app.services.memory_recall import Recall, Searching
from app.services.memory_search import MemoryForPlugins
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
        self.for_plugins = MemoryForPlugins(around.in_force, self._searching)
        self.index = IndexService(around.in_force, around.events)
        self.vectors = VectorsService(around, self.index, self.embedders)
        self.lifecycles += (self.index, self.vectors)
        self.knowledge = ColdKnowledge(around, self.embedders, self._build)
        self.lifecycles += (self.knowledge,)
        self.recall = Recall(
            around.in_force, around.events, around.http, around.hub, self._searching, self.knowledge.searching
        )
        self.placeholders += (self.recall.source,)
        self._made: Searching | None = None

    def _searching(self) -> Searching | None:
        """What declarations are answered from; None while the index is not open."""
        if self._made is None or self._made.index is not self.index.index:
            self._made = self._build(self.index, self.vectors)
        return self._made

    def _build(self, index: IndexService, vectors: VectorsService) -> Searching | None:
        from app.memory.vectors.of_now import VectorsOfNow
        from app.services.memory_ranking import build_ranking

        opened = index.index
        if opened is None:
            return None
        of_now = VectorsOfNow(lambda: vectors.vectors)
        ranking = build_ranking(opened, of_now, self._around.in_force, time.monotonic, self._reranker)
        return Searching(opened, of_now, ranking, lambda: of_now.version, index.fresh)

    def _reranker(self) -> Reranker | None:
        return self.embedders().reranker()
