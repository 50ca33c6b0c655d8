"""``::TagMemo``: the tags of the question, and what they do to the notes (memory.md 5.3, 11.13)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from app.memory.embedders.calibration import calibrated
from app.memory.embedders.embedder import Vector
from app.memory.enhance.tag_boost_n2025 import DIRECT_TAGS, bent_query, direct_score, related_tags
from app.memory.enhance.tag_graph import TagGraph
from app.memory.index.records import SearchableIndex
from app.memory.ranking.options import RankingOptions
from app.memory.ranking.steps import TagEffect
from app.memory.vectors.search import VectorSearch

LEAST_BETA = 0.2
MOST_BETA = 0.65
"""Between these the question decides when no weight is given (D5): the surer its tags, the more."""

MASS_SHARE = 0.5
"""Score that a note with the greatest mass gains at β = 1."""

NEAR_TAG = 0.5
"""Calibrated similarity from which a tag that is only near in meaning counts."""

NOTE_SEEDS = 5
NOTE_SEED_WEIGHT = 0.3
"""The best notes found until now are beginnings of the walk too, each with this part of its score."""

TOLD_TAGS = 30
_LATIN = re.compile(r"[a-z0-9]")


def named_tags(question: str, folded: Iterable[tuple[str, str]]) -> list[str]:
    """The tags that stand in the question itself, without regard to case; Latin ones as whole words.

    Each tag comes with its ``casefold``.
    """
    text = question.casefold()
    found = []
    for name, tag in folded:
        if name not in text or len(name) < 2:
            continue
        if _LATIN.match(name[0]) or _LATIN.match(name[-1]):
            whole = re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", text)
            if whole is None:
                continue
        found.append(tag)
    return found


class TagMemo:
    """Implements ``TagBoost``: the graph walk, or the reference's six steps with ``MemoryTagBoost=n2025``."""

    def __init__(self, index: SearchableIndex, vectors: VectorSearch, options: Callable[[], RankingOptions]) -> None:
        self._index = index
        self._vectors = vectors
        self._options = options
        self._graph: tuple[Mapping[str, frozenset[int]], TagGraph] | None = None

    async def effect(
        self, question: str, vector: Vector | None, beta: float | None, found: Sequence[tuple[int, float]]
    ) -> TagEffect:
        """See ``TagBoost``. A weight that is no number between 0 and 1 is brought there."""
        if self._options().n2025_tags:
            return await self._bent(vector, beta)
        graph = await self._current()
        seeds = dict.fromkeys(await asyncio.to_thread(named_tags, question, graph.folded), 1.0)
        if vector is not None:
            calibration = self._vectors.calibration()
            for tag, cosine in await self._vectors.nearest_tags(vector, DIRECT_TAGS):
                likeness = calibrated(cosine, calibration)
                if likeness >= NEAR_TAG:
                    seeds[tag] = max(seeds.get(tag, 0.0), likeness)
        notes = [(note, NOTE_SEED_WEIGHT * score) for note, score in found[:NOTE_SEEDS]]
        walk = await asyncio.to_thread(graph.walk, seeds, notes)
        if not walk.notes:
            return TagEffect()
        sureness = max(seeds.values(), default=0.0)
        share = LEAST_BETA + (MOST_BETA - LEAST_BETA) * sureness if beta is None else min(1.0, max(0.0, beta))
        told = dict(list(walk.tags.items())[: max(1, min(TOLD_TAGS, self._options().tag_expand))])
        return TagEffect(walk.notes, told, walk.reached, None, MASS_SHARE * share)

    async def _current(self) -> TagGraph:
        tag_notes = await self._index.tag_notes()
        if self._graph is not None and self._graph[0] is tag_notes:
            return self._graph[1]
        before = self._graph[1] if self._graph is not None else None
        graph = await asyncio.to_thread(TagGraph, tag_notes, before)
        self._graph = (tag_notes, graph)
        return graph

    async def _bent(self, vector: Vector | None, beta: float | None) -> TagEffect:
        """Without a number ``::TagMemo`` does nothing there."""
        if vector is None or beta is None:
            return TagEffect()
        nearest = await self._vectors.nearest_tags(vector, DIRECT_TAGS)
        direct = [(tag, direct_score(cosine)) for tag, cosine in nearest]
        if not direct:
            return TagEffect()
        tag_notes = await self._index.tag_notes()
        related = await asyncio.to_thread(related_tags, direct, tag_notes, self._options().tag_expand)
        names = [tag.name for tag in related]
        vectors = dict(zip(names, await self._vectors.of_texts(names), strict=True))
        bent = bent_query(vector, related, vectors, beta)
        return TagEffect(weights={tag.name: tag.weight for tag in related}, vector=bent.vector)
