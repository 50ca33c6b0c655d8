"""Dates in digits alone: 2025-11-27, 2025/11, 11/27/2025, 11.27, 20251127 (memory.md 4.2)."""

from __future__ import annotations

from datetime import date

from app.memory.time_words import calendar
from app.memory.time_words.calendar import Days, Found, Today, latest, one, yearly
from app.memory.time_words.rules import Match, Rule, rule

_FREE = r"(?<![0-9a-z_.$￥¥#:/\\-])"
_UNITS_BEHIND = (
    r"(?![0-9a-z_%‰°/\\:*+$]|[.-][0-9]"
    r"|[ ]?(?:元|块|美|万|亿|千|百|个|度|分|秒|斤|公|米|倍|版|折|级|寸|吨|升|克|岁|小时|毫|厘|人|名|次|条|页|时))"
)
_DAY_CUE = r"(?=[ ]?(?:日|号|那天|当天|这天|那次|的日记|的记录|到|至|~|-[0-9]{1,2}[.][0-9]))"


def _date(match: Match, today: Today) -> Found | None:
    return one(date(int(match["year"]), int(match["month"]), int(match["day"])))


def _compact(match: Match, today: Today) -> Found | None:
    return one(date(int(match["year"]), int(match["month"]), int(match["day"])), 0.7)


def _month(match: Match, today: Today) -> Found | None:
    return Found(calendar.month(int(match["year"]), int(match["month"])), "month", 0.9)


def _slashed(match: Match, today: Today) -> Found | None:
    """11/27/2025, and 27/11/2025 where only that is a date."""
    first, second, year = int(match["first"]), int(match["second"]), int(match["year"])
    return one(date(year, first, second) if first <= 12 else date(year, second, first), 0.8)


def _month_day(match: Match, today: Today) -> Found | None:
    month, day = int(match["month"]), int(match["day"])

    def make(year: int) -> Days:
        return date(year, month, day), date(year, month, day)

    return latest(yearly(make), today, "day", 0.5)


_SIGN = "[日号]?"
_MONTH = "(?P<month>1[0-2]|0?[1-9])"

RULES: tuple[Rule, ...] = (
    rule(
        r"(?<![0-9./-])(?P<year>[12][0-9]{3})(?P<sign>[-/.])(?P<month>[0-9]{1,2})(?P=sign)(?P<day>[0-9]{1,2})"
        rf"{_SIGN}(?![0-9])",
        _date,
    ),
    rule(r"(?<![0-9./-])(?P<year>(?:19|20)[0-9]{2})[-/.](?P<month>1[0-2]|0[1-9])(?![0-9]|[-/.][0-9])", _month),
    rule(r"(?<![0-9a-z_./\\-])(?P<year>(?:19|20)[0-9]{2})(?P<month>[0-9]{2})(?P<day>[0-9]{2})(?![0-9a-z_])", _compact),
    rule(r"(?<![0-9./-])(?P<first>[0-9]{1,2})/(?P<second>[0-9]{1,2})/(?P<year>(?:19|20)[0-9]{2})(?![0-9/])", _slashed),
    rule(rf"{_FREE}(?<![a-z] ){_MONTH}[.](?P<day>[12][0-9]|3[01]|0[1-9]){_SIGN}{_UNITS_BEHIND}", _month_day),
    rule(rf"{_FREE}(?<![a-z] ){_MONTH}[.](?P<day>[1-9])(?![0-9]){_DAY_CUE}{_SIGN}", _month_day),
    rule(rf"{_FREE}{_MONTH}/(?P<day>[12][0-9]|3[01]|0[1-9]){_SIGN}{_UNITS_BEHIND}", _month_day),
    rule(rf"{_FREE}(?P<month>1[0-2]|0[1-9])-(?P<day>[0-3][0-9])(?:[日号]|(?=那天|当天|这天))", _month_day),
)  # fmt: skip
"""All begin with a digit."""
