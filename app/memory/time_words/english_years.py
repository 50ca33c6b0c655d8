"""English rules of what lies in a year: months, days, seasons, quarters, festivals, years (memory.md 4.2)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

from app.memory.time_words import calendar
from app.memory.time_words.calendar import Days, Found, Recurring, Today, shifted, yearly
from app.memory.time_words.chinese_years import in_year
from app.memory.time_words.festivals import ENGLISH
from app.memory.time_words.numerals import ORDINALS
from app.memory.time_words.rules import Match, Rule, rule
from app.memory.time_words.spans import Granularity

_MONTH_TEXT = "january february march april may june july august september october november december"
_MONTH_NAMES = _MONTH_TEXT.split()
MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)} | {
    name[:3]: number for number, name in enumerate(_MONTH_NAMES, 1)
} | {"sept": 9}  # fmt: skip
_SEASONS = {"spring": "spring", "summer": "summer", "fall": "autumn", "autumn": "autumn", "winter": "winter"}
_QUARTERS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
STEPS = {"last": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1}
PARTS = {"early": "early", "beginning": "early", "start": "early", "mid": "mid", "middle": "mid", "late": "late"}
PARTS |= {"end": "late"}
STEP = r"(?P<step>last|previous|this|current|next|coming)"
PART = r"(?:the )?(?P<part>early|mid|late|beginning|start|middle|end)(?:[- ]|[- ]in | of )(?:the )?"

_NAMES = "|".join(sorted(MONTHS, key=len, reverse=True))
_MONTH = rf"(?P<month>{_NAMES})\b\.?"
YEAR_TAIL = (
    r"(?:(?:,? (?:of |in )?|[ ]*,[ ]*)(?P<year>(?:19|20)[0-9]{2})\b(?![-/.][0-9])"
    r"|,? (?:of |in )?(?P<of_year>last|this|next) year\b)?"
)
_WHICH_YEAR = r"(?:the year\b|(?P<year>(?:19|20)[0-9]{2})\b|(?P<of_year>last|this|next) year\b)"
_UNTIL = r"(?P<until>[0-9]{1,2})(?:st|nd|rd|th)?\b"
_DAY = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?\b(?![0-9:.%/])"
_ORDINALS = "|".join(ORDINALS)
_FESTIVALS = "|".join(sorted(map(re.escape, ENGLISH), key=len, reverse=True))

LOOK_BACK = 40
"""Characters before a word that may say whether it is a time."""

_LEAD = re.compile(
    r"\b(?:in|during|since|of|until|till|before|after|by|from|between|through|late|early|mid)[ -](?:the )?$"
)
_RANGE_LEAD = re.compile(r"\b(?:from|between)\b.*\b(?:to|and|until|till)[ ](?:the )?$")


def _stepped(step: str, recurring: Recurring, today: Today, granularity: Granularity) -> Found | None:
    """last, this or next of what comes again."""
    days: Days | None
    if step in ("last", "previous", "past"):
        days = recurring.at_or_before(today.day)
        if days is not None and days[1] >= today.day:
            days = recurring.at_or_before(shifted(days[0], -1))
    elif step in ("next", "coming"):
        days = recurring.at_or_after(shifted(today.day, 1))
    else:
        days = in_year(lambda year: recurring.make(year), today.day.year, today, relative=0)
    return None if days is None else Found(days, granularity, 0.9)


def _year_of(match: Match, today: Today) -> int | None:
    groups = match.groupdict()
    if groups.get("year"):
        return int(groups["year"])
    return today.day.year + STEPS[groups["of_year"]] if groups.get("of_year") else None


def _yearly(
    match: Match, today: Today, make: Callable[[int], Days | None], granularity: Granularity, confidence: float,
    *, festival: bool = False,
) -> Found | None:  # fmt: skip
    """Of the year that is named, of the one that last, this or next means, or the last one."""
    year = _year_of(match, today)
    if year is not None:
        named = match.groupdict().get("of_year")
        days = in_year(make, year, today, relative=STEPS[named] if named else None)
        return None if days is None else Found(days, granularity, 1.0, festival=festival)
    recurring = yearly(make)
    if step := match.groupdict().get("step"):
        return _stepped(step, recurring, today, granularity)
    days = recurring.at_or_before(today.day)
    return None if days is None else Found(days, granularity, confidence, recurring=recurring, festival=festival)


def _led(match: Match) -> bool:
    """Whether a word stands before that makes the next one a time: in May, since spring; but not to march."""
    before = match.string[max(0, match.start() - LOOK_BACK) : match.start()]
    if _LEAD.search(before):
        return True
    return bool(_RANGE_LEAD.search(before))


def _month(match: Match, today: Today) -> Found | None:
    name = match["month"]
    month = MONTHS[name]
    groups = match.groupdict()
    part = groups.get("part")
    if not (groups.get("step") or part or _year_of(match, today) or _led(match)) and (
        name in ("may", "march", "mar", "sep", "jan", "dec") or len(name) == 3
    ):
        return None
    if part:
        return _yearly(
            match, today, lambda year: calendar.month_part(calendar.month(year, month), PARTS[part]), "part", 0.9
        )
    return _yearly(match, today, lambda year: calendar.month(year, month), "month", 0.9)


def _month_day(match: Match, today: Today) -> Found | None:
    groups = match.groupdict()
    month, day = MONTHS[match["month"]], int(groups["day"]) if groups["day"] else ORDINALS[groups["ordinal"]]
    until = groups.get("until")

    def make(year: int) -> Days | None:
        first, last = date(year, month, day), date(year, month, int(until) if until else day)
        return (first, last) if first <= last else None

    return _yearly(match, today, make, "range" if until else "day", 1.0)


def _season(match: Match, today: Today) -> Found | None:
    name = _SEASONS[match["season"]]
    groups = match.groupdict()
    if not (groups.get("step") or _year_of(match, today) or _led(match)):
        return None
    return _yearly(match, today, lambda year: calendar.season(year, name), "season", 0.7)


def _quarter(match: Match, today: Today) -> Found | None:
    groups = match.groupdict()
    number = int(groups["q"]) if groups.get("q") else _QUARTERS[groups["ordinal"]]
    return _yearly(match, today, lambda year: calendar.quarter(year, number), "quarter", 0.9)


def _half(match: Match, today: Today) -> Found | None:
    part = "first_half" if match["ordinal"] in ("first", "1st", "h1") else "second_half"
    if match.groupdict().get("month"):
        month = MONTHS[match["month"]]
        return _yearly(match, today, lambda year: calendar.month_part(calendar.month(year, month), part), "part", 0.9)
    return _yearly(match, today, lambda year: calendar.year_part(year, part), "part", 0.9)


def _festival(match: Match, today: Today) -> Found | None:
    return _yearly(match, today, ENGLISH[match["festival"]], "day", 0.9, festival=True)


def _year(match: Match, today: Today) -> Found | None:
    year = int(match["year"])
    part = match.groupdict().get("part")
    if part:
        return Found(calendar.year_part(year, PARTS[part]), "part")
    return Found(calendar.months(year, 1, 12), "year", 0.9)


def _year_alone(match: Match, today: Today) -> Found | None:
    return _year(match, today) if _led(match) or match.string.endswith("year ", 0, match.start()) else None


def _decade(match: Match, today: Today) -> Found | None:
    first = int(match["decade"])
    first += 0 if first > 99 else 1900 if first > today.day.year % 100 else 2000
    return Found((date(first, 1, 1), date(first + 9, 12, 31)), "range", 0.8)


NUMBERS: tuple[Rule, ...] = (
    rule(rf"{_DAY}(?: ?- ?{_UNTIL})? (?:of )?{_MONTH}{YEAR_TAIL}", _month_day),
    rule(r"(?P<year>(?:19|20)[0-9]{2})\b(?![-/.:][0-9]| (?:people|dollars|times|users|words))", _year_alone),
    rule(r"(?:(?<=the )|(?<='))(?P<decade>(?:19|20)?[0-9]0)'?s\b", _decade),
    rule(rf"(?P<ordinal>1st|2nd|3rd|4th) quarter\b{YEAR_TAIL}", _quarter),
    rule(rf"(?P<ordinal>1st|2nd) half of (?:{_MONTH}{YEAR_TAIL})", _half),
    rule(rf"(?P<ordinal>1st|2nd) half of {_WHICH_YEAR}", _half),
)
"""Those that begin with digits."""

WORDS: tuple[Rule, ...] = (
    rule(rf"(?:{STEP} )?{_MONTH}{YEAR_TAIL}", _month),
    rule(rf"(?:in )?{PART}(?:{STEP} )?{_MONTH}{YEAR_TAIL}", _month),
    rule(rf"(?:in )?{PART}(?P<year>(?:19|20)[0-9]{{2}})\b", _year),
    rule(rf"(?:on )?{_MONTH} (?:the )?{_DAY}(?: ?(?:-|to) ?{_UNTIL})?{YEAR_TAIL}", _month_day),
    rule(rf"(?:on )?(?:the )?(?P<day>)(?P<ordinal>{_ORDINALS}) of {_MONTH}{YEAR_TAIL}", _month_day),
    rule(
        rf"(?:{STEP} )?(?P<season>spring|summer|fall|autumn|winter)\b(?! (?:boot|festival|solstice|equinox|asleep))"
        rf"{YEAR_TAIL}",
        _season,
    ),
    rule(rf"(?:{STEP} )?(?P<festival>{_FESTIVALS})\b{YEAR_TAIL}", _festival),
    rule(rf"(?:the )?(?P<ordinal>first|second|third|fourth) quarter\b{YEAR_TAIL}", _quarter),
    rule(rf"q(?P<q>[1-4])\b{YEAR_TAIL}", _quarter),
    rule(rf"(?:the )?(?P<ordinal>first|second) half of (?:{_MONTH}{YEAR_TAIL})", _half),
    rule(rf"(?:the )?(?P<ordinal>first|second) half of {_WHICH_YEAR}", _half),
    rule(r"(?P<ordinal>h[12])\b (?P<year>(?:19|20)[0-9]{2})\b", _half),
)
"""Those that begin with a word."""
