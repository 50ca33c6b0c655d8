"""``::Associate``: what stands near the hits, appended outside k (memory.md 2.5)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from app.memory.index.records import ChunkRecord, SearchableIndex
from app.memory.ranking.candidates import WORDS_LIMIT, finite
from app.memory.ranking.requests import Hit
from app.memory.vectors.search import VectorSearch

FIRST_HITS = 3
"""The best hits, from which the hop starts."""

NEAR_EACH = 8
MOST_ASSOCIATED = 5


def associated_count(k: int) -> int:
    """How many may be appended: half of k, at least one and at most five."""
    return min(MOST_ASSOCIATED, max(1, k // 2))


async def associates(
    index: SearchableIndex,
    vectors: VectorSearch,
    words_of: Callable[[str], Sequence[str]],
    hits: Sequence[Hit],
    notebooks: Sequence[str],
    k: int,
) -> list[Hit]:
    """The nearest chunks of other notes to the best hits, by meaning and by words, in turn; best first."""
    starts = [hit.chunk for hit in hits[:FIRST_HITS]]
    seen = {hit.chunk.note_id for hit in hits}
    lists = await asyncio.gather(*(_near(index, vectors, words_of, start, notebooks) for start in starts))
    score: dict[int, float] = {}
    for start, near in zip(hits, lists, strict=False):
        for chunk, nearness in near.items():
            score[chunk] = max(score.get(chunk, 0.0), start.score * nearness)
    records = await index.chunks(list(score))
    found: list[Hit] = []
    for chunk in sorted(records, key=lambda one: (-round(score[one], 9), records[one].path, records[one].ordinal)):
        record = records[chunk]
        if record.note_id in seen or len(found) >= associated_count(k):
            continue
        seen.add(record.note_id)
        found.append(
            Hit(record, record.text, record.tokens, score[chunk], "associate", None, {"associate": score[chunk]})
        )
    return found


async def _near(
    index: SearchableIndex,
    vectors: VectorSearch,
    words_of: Callable[[str], Sequence[str]],
    start: ChunkRecord,
    notebooks: Sequence[str],
) -> dict[int, float]:
    """Nearness (0 to 1) of other chunks to one: the mean of their two places in lists by meaning and by words."""
    words = list(words_of(start.text))[:WORDS_LIMIT]
    ids, matrix = await vectors.of_chunks([start.id])
    nearest: dict[int, float] = {}
    if ids:
        nearest = finite(await vectors.nearest(matrix[0], notebooks, NEAR_EACH + 1))
    lexical = finite(await index.lexical(words, notebooks, NEAR_EACH + 1)) if words else {}
    sides = [list(side) for side in (nearest, lexical) if side]
    near: dict[int, float] = {}
    for side in sides:
        for rank, chunk in enumerate(side):
            if chunk != start.id:
                near[chunk] = near.get(chunk, 0.0) + 1.0 / (math.log2(rank + 2.0) * len(sides))
    return near
