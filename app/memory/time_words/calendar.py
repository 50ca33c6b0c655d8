"""Days, weeks, months and what comes again each week, month or year; nothing here knows any words.

Functions raise OverflowError or ValueError where the calendar ends; the finder takes that as no date.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from app.memory.time_words.spans import Granularity

Days = tuple[date, date]
"""First and last day, both inclusive."""

YEARS_AROUND = 9
"""How far the next or last occurrence of a yearly day may be: 29 February is missing for eight years around 1900."""


def shifted(day: date, days: int) -> date:
    """The day so many days later."""
    return day + timedelta(days=days)


def month_shifted(day: date, months: int) -> date:
    """The same day of another month, or that month's last one."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def month(year: int, number: int) -> Days:
    """All days of a month."""
    return date(year, number, 1), date(year, number, calendar.monthrange(year, number)[1])


def months(year: int, first: int, last: int) -> Days:
    """From the first day of one month to the last one of another in the same year."""
    return month(year, first)[0], month(year, last)[1]


def month_part(days: Days, part: str) -> Days:
    """A part of a month: ``early`` 1-10, ``mid`` 11-20, ``late`` from 21, ``first_half``, ``second_half``."""
    first, last = days
    match part:
        case "early":
            return first, first.replace(day=10)
        case "mid":
            return first.replace(day=11), first.replace(day=20)
        case "late":
            return first.replace(day=21), last
        case "first_half":
            return first, first.replace(day=15)
        case _:
            return first.replace(day=16), last


def year_part(year: int, part: str) -> Days:
    """Two months of a year: ``early``, ``mid``, ``late``; or a half."""
    span = {"early": (1, 2), "mid": (6, 7), "late": (11, 12), "first_half": (1, 6), "second_half": (7, 12)}
    return months(year, *span[part])


def quarter(year: int, number: int) -> Days:
    """The three months of a quarter, 1 to 4."""
    return months(year, number * 3 - 2, number * 3)


def season(year: int, name: str) -> Days:
    """Three months; winter is from December of ``year`` to February of the next."""
    if name == "winter":
        return date(year, 12, 1), month(year + 1, 2)[1]
    first = {"spring": 3, "summer": 6, "autumn": 9}[name]
    return months(year, first, first + 2)


def nth_weekday(year: int, number: int, weekday: int, nth: int) -> date:
    """The n-th such weekday (0 is Monday) of a month; -1 is the last."""
    first, last = month(year, number)
    if nth < 0:
        return shifted(last, -((last.weekday() - weekday) % 7))
    return shifted(first, (weekday - first.weekday()) % 7 + 7 * (nth - 1))


def easter(year: int) -> date:
    """Easter Sunday of the Gregorian calendar (the method of Meeus, Jones and Butcher)."""
    a, (b, c) = year % 19, divmod(year, 100)
    d, e = divmod(b, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    leap = (32 + 2 * e + 2 * i - h - k) % 7
    m = (a + 11 * h + 22 * leap) // 451
    number, day = divmod(h + leap - 7 * m + 114, 31)
    return date(year, number, day + 1)


@dataclass(frozen=True, slots=True)
class Recurring:
    """What comes again: ``make`` gives the days of the occurrence with a number, or None where there is none.

    ``number`` tells about where a day lies in the row. ``order`` compares how often things come: 1 weekly, 2 monthly,
    3 yearly.
    """

    make: Callable[[int], Days | None]
    number: Callable[[date], int]
    order: int

    def at_or_before(self, day: date) -> Days | None:
        """The last occurrence that has begun on ``day``."""
        around = self.number(day)
        return next(
            (days for step in range(1, -YEARS_AROUND, -1) if (days := self._made(around + step)) and days[0] <= day),
            None,
        )

    def at_or_after(self, day: date) -> Days | None:
        """The first occurrence that begins on ``day`` or later."""
        around = self.number(day)
        return next(
            (days for step in range(-1, YEARS_AROUND) if (days := self._made(around + step)) and days[0] >= day), None
        )

    def _made(self, number: int) -> Days | None:
        try:
            return self.make(number)
        except (ValueError, OverflowError):
            return None


def yearly(make: Callable[[int], Days | None]) -> Recurring:
    """What comes once a year; ``make`` takes the year in which it begins."""
    return Recurring(make, lambda day: day.year, 3)


def monthly(day_of_month: int) -> Recurring:
    """A day of the month."""

    def make(number: int) -> Days:
        day = date(number // 12, number % 12 + 1, day_of_month)
        return day, day

    return Recurring(make, lambda day: day.year * 12 + day.month - 1, 2)


def weekly(weekday: int, days: int = 1) -> Recurring:
    """A weekday (0 is Monday) and as many days from it."""

    def make(number: int) -> Days:
        first = date.fromordinal(number * 7 + weekday + 1)  # ordinal 1 is a Monday
        return first, shifted(first, days - 1)

    return Recurring(make, lambda day: (day.toordinal() - 1) // 7, 1)


@dataclass(frozen=True, slots=True)
class Today:
    """The moment that everything is counted from; ``first_weekday`` is 0 for Monday, 6 for Sunday."""

    now: datetime
    first_weekday: int = 0

    @property
    def day(self) -> date:
        """The day of now."""
        return self.now.date()

    def week(self, weeks: int = 0, day: date | None = None) -> Days:
        """The calendar week of today or of ``day``, or the one so many weeks later."""
        day = day or self.day
        first = shifted(day, -((day.weekday() - self.first_weekday) % 7) + 7 * weeks)
        return first, shifted(first, 6)

    def weekday(self, weekday: int, weeks: int = 0) -> date:
        """That weekday (0 is Monday) of this calendar week, or of the one so many weeks later."""
        first = self.week(weeks)[0]
        return shifted(first, (weekday - first.weekday()) % 7)

    def weekend(self, weeks: int = 0) -> Days:
        """Saturday and the Sunday after it; of the week that the Saturday is in."""
        first = self.weekday(5, weeks)
        return first, shifted(first, 1)

    def month(self, months: int = 0) -> Days:
        """The calendar month so many months later."""
        day = month_shifted(self.day.replace(day=1), months)
        return month(day.year, day.month)

    def quarter(self, quarters: int = 0) -> Days:
        """The quarter so many quarters later."""
        day = month_shifted(self.day.replace(day=1), quarters * 3)
        return quarter(day.year, (day.month + 2) // 3)


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule made of its words. ``recurring`` when the words leave open which occurrence is meant; ``ago`` when
    they count back from now, so that 之前 behind them says nothing more."""

    days: Days
    granularity: Granularity
    confidence: float = 1.0
    soft: bool = False
    hours: tuple[int, int] | None = None
    recurring: Recurring | None = None
    ago: bool = False
    festival: bool = False
    future: bool = False


def one(day: date, confidence: float = 1.0, *, hours: tuple[int, int] | None = None, ago: bool = False) -> Found:
    """A single day."""
    return Found((day, day), "day", confidence, hours=hours, ago=ago)


def latest(recurring: Recurring, today: Today, granularity: Granularity, confidence: float) -> Found | None:
    """The occurrence that is running or was last."""
    days = recurring.at_or_before(today.day)
    return None if days is None else Found(days, granularity, confidence, recurring=recurring)
