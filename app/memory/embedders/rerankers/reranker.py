"""The one interface of all rerankers, and what to do with their scores (memory.md 2.8, 11.11)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from app.protocol.token_estimate import CHARS_PER_TOKEN

CHINESE_TOKENS = 1.5
"""Estimated tokens of a character of U+4E00 to U+9FA5 by the rule of 2.8; any other is a quarter."""


class Reranker(Protocol):
    """Scores documents by how well they answer a query. Never raises for what a service does: it only scores less."""

    async def rerank(self, query: str, documents: Sequence[str]) -> Mapping[int, float]:
        """A score for each place in ``documents`` that could be scored; higher is better. Missing: not scored."""
        ...


def order(count: int, scores: Mapping[int, float]) -> list[int]:
    """The places 0..count-1 in their new order: those with a score by it, best first, those without stay in place.

    Equal scores keep their order. Nothing is ever compared with a missing score (2.8).
    """
    scored = [place for place in range(count) if place in scores]
    best = iter(sorted(scored, key=lambda place: -scores[place]))
    return [next(best) if place in scores else place for place in range(count)]


def batch_tokens(text: str) -> int:
    """The estimate of 2.8: one and a half for each Chinese character, a quarter for each other, rounded up (M7)."""
    chinese = sum("\u4e00" <= character <= "\u9fa5" for character in text)
    return math.ceil(chinese * CHINESE_TOKENS + (len(text) - chinese) / CHARS_PER_TOKEN)


def shortened(text: str, tokens: int) -> str:
    """As much of the beginning as has so many tokens by that estimate."""
    if batch_tokens(text) <= tokens:
        return text
    used = 0.0
    for place, character in enumerate(text):
        used += CHINESE_TOKENS if "\u4e00" <= character <= "\u9fa5" else 1 / CHARS_PER_TOKEN
        if used > tokens:
            return text[:place]
    return text


def batches(query: str, documents: Sequence[str], limit: int) -> Iterator[list[tuple[int, str]]]:
    """Places and documents in greedy batches that stay with the query within ``limit`` tokens (2.8).

    A document that alone is too long is cut to what fits.
    """
    room = max(1, limit - batch_tokens(query))
    batch: list[tuple[int, str]] = []
    used = 0
    for place, whole in enumerate(documents):
        document = shortened(whole, room)
        tokens = batch_tokens(document)
        if batch and used + tokens > room:
            yield batch
            batch, used = [], 0
        batch.append((place, document))
        used += tokens
    if batch:
        yield batch


def sound_scores(entries: Iterable[tuple[object, object]], places: Sequence[int]) -> dict[int, float]:
    """Scores by place in the whole list from ``(index in the batch, score)``; what makes no sense is left out.

    A service may name an index twice, or one that it was not given, or a score that is no number.
    """
    scores: dict[int, float] = {}
    for index, score in entries:
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(places):
            continue
        if isinstance(score, bool) or not isinstance(score, int | float):
            continue
        try:
            value = float(score)
        except OverflowError:
            continue
        if math.isfinite(value):
            scores.setdefault(places[index], value)
    return scores
