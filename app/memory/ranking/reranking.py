"""What a reranker's scores do to an order (memory.md 2.8, 11.11)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from app.memory.embedders.rerankers.reranker import order as places_by
from app.memory.ranking.fusion import reciprocal_ranks

MOST_RERANKED = 200


def rerank_depth(k: int, multiplier: float) -> int:
    """How many candidates are read: max(1, round(k · RerankMultiplier)), at most two hundred (2.4)."""
    times = multiplier if math.isfinite(multiplier) and multiplier > 0 else 1.0
    return min(MOST_RERANKED, max(1, math.floor(min(k, MOST_RERANKED) * min(times, float(MOST_RERANKED)) + 0.5)))


def reranked(order: Sequence[int], scores: Mapping[int, float]) -> list[int]:
    """The order by the reranker: scored ones change places among themselves, unscored ones keep theirs."""
    by_place = {at: scores[chunk] for at, chunk in enumerate(order) if math.isfinite(scores.get(chunk, math.nan))}
    return [order[at] for at in places_by(len(order), by_place)]


def rank_fused(order: Sequence[int], scores: Mapping[int, float], weight: float) -> list[int]:
    """``::Rerank+``: both orders fused by reciprocal ranks, ``weight`` being the reranker's share (default 0.5)."""
    share = min(1.0, max(0.0, weight)) if math.isfinite(weight) else 0.5
    first, second = reciprocal_ranks(order), reciprocal_ranks(reranked(order, scores))
    return sorted(order, key=lambda chunk: -((1.0 - share) * first[chunk] + share * second[chunk]))
