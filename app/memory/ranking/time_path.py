"""``::Time``: how many hits the days that a person named may add, and which (memory.md 2.7, 11.14)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.memory.ranking.requests import DateRange, Hit, RecallQuery

LEAST_TIME_HITS = 3
MOST_TIME_HITS = 50
DEFAULT_SHARE = 0.2
IN_DAYS_LIMIT = 2_000
"""Chunks of a range that are looked at, the newest."""


def time_hits(k: int, share: float) -> int:
    """How many fragments the time path may add: its share of k, at least three and at most fifty."""
    part = share if math.isfinite(share) else DEFAULT_SHARE
    wanted = round(min(1.0, max(0.0, part)) * max(0, k))
    return min(MOST_TIME_HITS, max(LEAST_TIME_HITS, wanted))


def hard_ranges(query: RecallQuery) -> tuple[DateRange, ...]:
    """The ranges that filter: those of the user's own words that are not soft, in order, each once (4.2)."""
    return tuple(dict.fromkeys(span for span in query.ranges if not span.soft and span.first <= span.last))


def raising_ranges(query: RecallQuery) -> tuple[DateRange, ...]:
    """The ranges that only raise what lies inside: all others."""
    return tuple(dict.fromkeys([*query.ranges, *query.soft_ranges]))


def newest_first(hits: Sequence[Hit]) -> list[Hit]:
    """Hits by day, newest first; notes without a day last; the order inside a day is that of the note's path."""
    return sorted(
        hits,
        key=lambda hit: (-(hit.chunk.day.toordinal() if hit.chunk.day else 0), hit.chunk.path, hit.chunk.ordinal),
    )
