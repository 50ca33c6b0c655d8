"""The tokens of a whole request, shared among its declarations (memory.md 11.17)."""

from __future__ import annotations

from collections.abc import Sequence

from app.memory.ranking.requests import Dropped, Hit


def allowances(wanted: Sequence[int], budget: int) -> list[int]:
    """How much each may have of what it wants: those that want little get it, the others share the rest evenly."""
    allowed = [0] * len(wanted)
    left = budget
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for place, index in enumerate(order):
        allowed[index] = min(wanted[index], left // (len(order) - place))
        left -= allowed[index]
    return allowed


def within(hits: Sequence[Hit], allowance: int) -> tuple[tuple[Hit, ...], tuple[Dropped, ...]]:
    """The hits that fit, taken from the front, and those that do not; no hit is cut."""
    kept: list[Hit] = []
    left = allowance
    for hit in hits:
        if hit.tokens > left:
            break
        kept.append(hit)
        left -= hit.tokens
    return tuple(kept), tuple(Dropped(hit.chunk.id, hit.score, "request budget") for hit in hits[len(kept) :])
