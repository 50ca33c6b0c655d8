"""Thinking chains end to end: which chain, its stages one after another (memory.md 5.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from app.memory.embedders.embedder import Vector
from app.memory.enhance.chain_search import ChainSearch
from app.memory.enhance.chains import DEFAULT_CHAIN, Chain, ChainMode, ChainsFile, chosen_theme, walk_chain
from app.memory.ranking.requests import RecallQuery
from app.memory.ranking.steps import GroupBoost, GroupEffect
from app.memory.recall.answer import ChainAnswer, ChainStage
from app.memory.vectors.search import VectorSearch
from app.protocol.recall_chains import ChainCall


class QueryVectors(Protocol):
    """Who makes the vector of a question."""

    async def query_vector(self, query: RecallQuery) -> Vector | None:
        """The vector, None when it cannot be had."""
        ...


class ThinkingChains:
    """See ``Thinking``. ``raw`` says whether thresholds are plain cosines (``MemoryGate=raw``)."""

    def __init__(
        self,
        chains: ChainsFile,
        search: ChainSearch,
        vectors: VectorSearch,
        questions: QueryVectors,
        groups: GroupBoost,
        mode: Callable[[], ChainMode],
        raw: Callable[[], bool],
    ) -> None:
        self._chains = chains
        self._search = search
        self._vectors = vectors
        self._questions = questions
        self._groups = groups
        self._mode = mode
        self._raw = raw

    async def walk(self, call: ChainCall, query: RecallQuery) -> ChainAnswer:
        """See ``Thinking``."""
        chains = await asyncio.to_thread(self._chains.chains)
        vector = await self._questions.query_vector(query)
        name = await self._theme(call, chains, vector) if call.auto else call.chain
        chain = chains.get(name)
        if chain is None:
            return ChainAnswer(name, known=False, auto=call.auto)
        groups = GroupEffect((), vector)
        if call.group:
            groups = await self._groups.boosted(query.user, vector)
        stages = await walk_chain(
            chain.clusters,
            chain.sequence(call.ks),
            vector,
            groups.vector,
            lambda thought, cluster, k: self._search.stage(query.user or query.assistant, thought, cluster, k),
            self._mode(),
        )
        return ChainAnswer(
            name,
            known=True,
            auto=call.auto,
            stages=tuple(
                ChainStage(
                    stage.cluster,
                    stage.k,
                    tuple((hit.text, hit.score) for hit in stage.hits),
                    stage.degraded,
                    stage.fault,
                )
                for stage in stages
            ),
            groups=groups.activations,
        )

    async def _theme(self, call: ChainCall, chains: Mapping[str, Chain], vector: Vector | None) -> str:
        """The chain that the question is nearest to, by its description or its name."""
        names = [
            name
            for name in chains
            if name != DEFAULT_CHAIN and (not call.only or name in call.only) and name not in call.without
        ]
        themes = await self._vectors.of_texts([chains[name].description or name for name in names])
        calibration = None if self._raw() else self._vectors.calibration()
        return chosen_theme(vector, dict(zip(names, themes, strict=True)), call.threshold, calibration)
