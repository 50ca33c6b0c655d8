"""What speaks for a note before it is read: that it is new, or of the days asked for (memory.md 11.14, 11.15)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from app.memory.ranking.requests import DateRange

RECENCY_WEIGHT = 0.05
RECENCY_HALF_LIFE = 90.0
"""Days after which the prior is half as much."""

TIMELESS_ENDINGS = ("的知识", "簇")
"""Notebooks whose contents do not grow old."""

SOFT_RANGE_WEIGHT = 0.1
"""What a note gains whose day lies in a range that only raises (4.2)."""


def age_in_days(day: date | None, today: date) -> int | None:
    """Whole days between two calendar days, so no zone and no clock change matters; 0 for the future, None unknown."""
    return None if day is None else max(0, (today - day).days)


def recency(day: date | None, today: date, notebook: str) -> float:
    """0.05·0.5^(age/90 d); nothing for notes without a date and for notebooks of knowledge and of thinking (11.15)."""
    age = age_in_days(day, today)
    if age is None or notebook.endswith(TIMELESS_ENDINGS):
        return 0.0
    return RECENCY_WEIGHT * float(0.5 ** (age / RECENCY_HALF_LIFE))


def in_any(day: date | None, ranges: Iterable[DateRange]) -> bool:
    """Whether the day is in at least one of the ranges, both ends included."""
    return day is not None and any(span.first <= day <= span.last for span in ranges)
