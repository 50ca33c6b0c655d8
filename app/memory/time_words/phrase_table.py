"""The time words of the setting ``n2025``, faults included, for those who need them (memory.md 4.1).

Two stages: fixed phrases, longest first, each found once and cut out of the text; then patterns over what is left. The
text is edited while it is scanned, so that of 3天前和5天前 only the first is found.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from app.memory.time_words.calendar import Days, Today, month_part, shifted
from app.memory.time_words.spans import Granularity, TimeSpan, WeekStart

_Days = Callable[[Today], Days]


def _day(back: int) -> _Days:
    return lambda today: (shifted(today.day, -back), shifted(today.day, -back))


def _part(months: int, name: str) -> _Days:
    return lambda today: month_part(today.month(months), name)


_PHRASES: dict[str, tuple[_Days, Granularity]] = {
    "上个月初": (_part(-1, "early"), "part"),
    "上个月中": (_part(-1, "mid"), "part"),
    "上个月末": (_part(-1, "late"), "part"),
    "前一阵子": (_day(15), "day"),
    "大前天": (_day(3), "day"),
    "前几天": (_day(5), "day"),
    "上个月": (lambda today: today.month(-1), "month"),
    "这个月": (lambda today: today.month(), "month"),
    "今天": (_day(0), "day"),
    "昨天": (_day(1), "day"),
    "前天": (_day(2), "day"),
    "之前": (_day(3), "day"),
    "最近": (_day(5), "day"),
    "近期": (_day(7), "day"),
    "上周": (lambda today: today.week(-1), "week"),
    "本周": (lambda today: today.week(), "week"),
    "这周": (lambda today: today.week(), "week"),
    "本月": (lambda today: today.month(), "month"),
    "月初": (_part(0, "early"), "part"),
}
"""Longest first, which is the order in which they are looked for."""

_ONES = "一二三四五六七八九十"
_COUNT = f"([0-9]+|[{_ONES}])"
_WEEKDAYS = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
MAX_DIGITS = 5
"""Of a number in a pattern: more units than that lie outside of every calendar."""


def _number(text: str) -> int:
    return int(text[:MAX_DIGITS]) if text.isascii() else _ONES.index(text) + 1


def _weekday(text: str, today: Today) -> Days:
    """The same weekday of this week, a week earlier when that is today or later."""
    day = today.weekday(_WEEKDAYS[text])
    if day >= today.day:
        day = shifted(day, -7)
    return day, day


_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[str, Today], Days], Granularity], ...] = (
    (re.compile(f"{_COUNT}天前"), lambda text, today: _day(_number(text))(today), "day"),
    (re.compile("上周([一二三四五六日天])"), _weekday, "day"),
    (re.compile(f"{_COUNT}周前"), lambda text, today: today.week(-_number(text)), "week"),
    (re.compile(f"{_COUNT}个月前"), lambda text, today: today.month(-_number(text)), "month"),
)


def find_time_spans_n2025(text: str, now: datetime, *, week_start: WeekStart = "sunday") -> tuple[TimeSpan, ...]:
    """The ranges that the phrase table gives, in its order: fixed phrases by length, then patterns.

    ``now`` must have a zone. Equal ranges are given once. Offsets are those of the text as it was. Raises ValueError
    when ``now`` has no zone.
    """
    if now.tzinfo is None:
        raise ValueError("now has no time zone")
    today = Today(now, 6 if week_start == "sunday" else 0)
    found: dict[Days, TimeSpan] = {}
    rest, places = text, list(range(len(text)))

    def take(start: int, end: int, make: Callable[[], Days], granularity: Granularity) -> None:
        nonlocal rest
        try:
            days = make()
        except (ValueError, OverflowError):
            return
        span = TimeSpan(places[start], places[end - 1] + 1, *days, now.tzinfo, granularity)  # type: ignore[arg-type]
        found.setdefault(days, span)

    for phrase, (make, granularity) in _PHRASES.items():
        start = rest.find(phrase)
        if start >= 0:
            take(start, start + len(phrase), lambda make=make: make(today), granularity)  # type: ignore[misc]
            rest = rest[:start] + rest[start + len(phrase) :]
            del places[start : start + len(phrase)]
    for pattern, days_of, granularity in _PATTERNS:
        match = pattern.search(rest)
        if match is not None:
            take(*match.span(), lambda match=match, days_of=days_of: days_of(match[1], today), granularity)  # type: ignore[misc]
            rest = rest[: match.start()] + rest[match.end() :]
            del places[match.start() : match.end()]
    return tuple(found.values())
