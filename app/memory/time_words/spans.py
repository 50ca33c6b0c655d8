"""What time words stand for: ranges of whole days with their place in the text (memory.md 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Literal

WeekStart = Literal["monday", "sunday"]
"""Weeks begin on Monday (D18); on Sunday in the setting ``n2025``."""

Granularity = Literal["day", "weekend", "week", "part", "month", "quarter", "season", "year", "range"]
"""The calendar unit that the words name. ``part`` is a third or half of a month, or of a year; ``range`` any other
stretch of days."""

MAX_SPANS = 64
"""Spans that are taken from one text; what follows is not read."""

MAX_CANDIDATES = 512
"""Places of one text that are looked at closely, those without a valid date included: a lunar date costs up to a
millisecond."""

EARLIEST = date(1900, 1, 1)
"""The first day of ranges without a beginning (before Monday)."""

LAST_MOMENT = time(23, 59, 59, 999000)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """One time word or phrase and the days it stands for.

    ``text_start`` and ``text_end`` are offsets in the text, the end exclusive. ``first`` and ``last`` are days in
    ``zone``, both inclusive. ``hours``, when the words tell a part of the day, are hours of each of these days, from
    and up to: (18, 24). ``confidence`` is between 0 and 1: below 0.6 the words often mean something else. A ``soft``
    span (lately) has no edges: what is older counts less, not nothing. ``future`` says that the words themselves name
    days after today. A named unit that is not over (this week) keeps its whole extent without being ``future``.
    """

    text_start: int
    text_end: int
    first: date
    last: date
    zone: tzinfo
    granularity: Granularity
    hours: tuple[int, int] | None = None
    confidence: float = 1.0
    soft: bool = False
    future: bool = False

    @property
    def start(self) -> datetime:
        """The first moment of the first day."""
        return datetime.combine(self.first, time(), self.zone)

    @property
    def end(self) -> datetime:
        """The last millisecond of the last day."""
        return datetime.combine(self.last, LAST_MOMENT, self.zone)

    @property
    def days(self) -> int:
        """How many days the span has."""
        return (self.last - self.first + timedelta(days=1)).days
