"""Finding time words in a text: one pass, the longest match of all rules at each place (memory.md 4.2).

Time is linear in the length of the text: rules are tried only where a first word or character of theirs stands, each of
them reads a bounded number of characters, and rows of numerals are passed over as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from app.memory.time_words import chinese, chinese_years, english, english_years, numeric
from app.memory.time_words.calendar import Days, Found, Today, shifted
from app.memory.time_words.festivals import ENGLISH
from app.memory.time_words.letters import plain
from app.memory.time_words.numerals import CHARACTERS, MAX_CHARACTERS, WORDS, english_number, number
from app.memory.time_words.rules import HOURS, NUMBER, Match, Rule
from app.memory.time_words.spans import EARLIEST, MAX_CANDIDATES, MAX_SPANS, TimeSpan, WeekStart

_NUMBER_RULES = (
    *numeric.RULES,
    *chinese.COUNT_RULES,
    *chinese_years.NUMBER_YEAR_RULES,
    *english.NUMBERS,
    *english_years.NUMBERS,
)
_ENGLISH_RULES = (*english.WORDS, *english_years.WORDS)
_WORD_RULES = (
    *chinese.WORD_RULES, *chinese.COUNT_RULES, *chinese_years.YEAR_RULES, *chinese_years.WORD_YEAR_RULES,
)  # fmt: skip
_FIRST = "".join(sorted(chinese.FIRST_CHARACTERS | chinese_years.FIRST_CHARACTERS - frozenset("q")))
_TOKEN = re.compile(rf"[{CHARACTERS}]+|[a-z]+|[{_FIRST}]")
_NUMERAL = re.compile(rf"[{CHARACTERS}]")
_FURTHER_FIRST = (
    "the day today tonight yesterday tomorrow last this past previous preceding next coming following current in "
    "on half couple few several many first second third fourth q h early mid late beginning start middle end recently lately "
    "these some not spring summer fall autumn winter twenty thirty forty fifty sixty seventy eighty ninety"
)
_ENGLISH_FIRST = frozenset(WORDS) | frozenset(english_years.MONTHS) | frozenset(english.WEEKDAYS) | frozenset(
    _FURTHER_FIRST.split()
) | frozenset(re.split("[ '-]", name)[0] for name in ENGLISH)  # fmt: skip

_PERIODS = "|".join(sorted((word for word in HOURS if not word.isascii() and len(word) > 1), key=len, reverse=True))
_CHINESE_HOURS = re.compile(
    rf"[的 ,，]?(?P<period>{_PERIODS}|[早晚夜](?=[{CHARACTERS}]{{1,3}}点))?"
    rf"(?:(?P<hour>{NUMBER})(?:点钟?|时(?![候间段代]))(?:半|整|{NUMBER}分?)?)?"
)
_ENGLISH_HOURS = re.compile(
    r"(?: in the| at)? (?P<period>morning|afternoon|evening|night|noon)\b"
    r"|(?: at)? (?P<hour>[0-9]{1,2})(?::[0-9]{2})? ?(?P<half>am|pm|a\.m\.|p\.m\.)(?![a-z])"
)
_FESTIVAL_BEHIND = re.compile(
    r"(?P<whole>期间|假期|假日|长假)|(?:的?(?P<day>当天|那天|那日|这天))|(?P<around>前后)|(?P<eve>前夕)"
    r"|(?P<day_before>前一天|前一晚)|(?P<day_after>第二天|后一天)"
    r"|(?P<before>前(?![后夕面往天一]))|(?P<after>后(?![面来天一]))"
)
_BEHIND = re.compile(
    r"(?P<since>以来|至今|到(?:现在|今(?!天|年|晚|日)|目前|如今))|(?P<after>[之以]后)|(?P<before>[之以]前(?!的?[0-9]))"
    r"|(?P<from>起(?![床来身飞])|开始)"
)
_FROM_BEFORE = re.compile(r"(?:从|自从?|打)(?:大概|大约)?$")
_ENGLISH_BEFORE = re.compile(r"\b(?P<word>since|after|before|until|till) (?:the )?$")
_TO = re.compile(r"[ ]?(?:,[ ]?)?(?:一直|直)?(?:到|至|~|-{1,2}|→|to|until|till|through|thru|up to)[ ]?(?:the |了)?")
_AND = re.compile(r"[ ]?(?:和|与|跟|and)[ ](?:the )?|[ ]?(?:和|与|跟)[ ]?")
_BETWEEN_BEHIND = re.compile(r"(?:这段时间)?(?:之间|间(?!隔))")
_BETWEEN_BEFORE = re.compile(r"\bbetween (?:the )?$")
AROUND_FESTIVAL = 3
"""Days on either side of 中秋前后."""
BESIDE_FESTIVAL = 14
"""Days of 春节前 and 国庆后."""
GAP = 12
"""Most characters between the two ends of a range."""


@dataclass(frozen=True, slots=True)
class _Place:
    start: int
    end: int
    found: Found


def find_time_spans(text: str, now: datetime, *, week_start: WeekStart = "monday") -> tuple[TimeSpan, ...]:
    """The time words of a text, in Chinese and English, in the order of the text; they never overlap.

    ``now`` must have a zone, whose days are meant. At most MAX_SPANS are found. Words for dates that do not exist give
    nothing. Raises ValueError when ``now`` has no zone, and for nothing in the text.
    """
    if now.tzinfo is None:
        raise ValueError("now has no time zone")
    today = Today(now, 6 if week_start == "sunday" else 0)
    plain_text = plain(text)
    places = _ranges(plain_text, list(_places(plain_text, today)), today)
    return tuple(_span(place, today) for place in places)


def _span(place: _Place, today: Today) -> TimeSpan:
    found, zone = place.found, today.now.tzinfo
    assert zone is not None
    first, last = found.days
    return TimeSpan(
        place.start, place.end, first, last, zone, found.granularity, found.hours, found.confidence, found.soft,
        future=last > today.day and (found.future or first > today.day),
    )  # fmt: skip


def _places(text: str, today: Today) -> Iterator[_Place]:
    position = candidates = spans = 0
    while spans < MAX_SPANS and candidates < MAX_CANDIDATES and (token := _TOKEN.search(text, position)):
        start, word = token.start(), token.group()
        match, rule = _longest(text, start, _rules_for(word))
        if match is None or rule is None:
            position = token.end()
            continue
        candidates += 1
        position = match.end()
        found = _built(rule, match, today)
        if found is not None and found.days[0] <= found.days[1]:
            end, found = _with_hours(text, position, found)
            end, found = _with_words_around(text, start, end, found, today)
            position = end
            spans += 1
            yield _Place(start, end, found)


def _rules_for(word: str) -> Iterable[Rule]:
    if "a" <= word[0] <= "z":
        return _ENGLISH_RULES if word in _ENGLISH_FIRST else chinese_years.WORD_YEAR_RULES if word == "q" else ()
    if _NUMERAL.match(word):
        return _NUMBER_RULES if len(word) <= MAX_CHARACTERS else ()
    return _WORD_RULES


def _longest(text: str, start: int, rules: Iterable[Rule]) -> tuple[Match | None, Rule | None]:
    best: tuple[Match | None, Rule | None] = None, None
    end = start
    for rule in rules:
        match = rule.pattern.match(text, start)
        if match is not None and match.end() > end:
            best, end = (match, rule), match.end()
    return best


def _built(rule: Rule, match: Match, today: Today) -> Found | None:
    try:
        return rule.build(match, today)
    except (ValueError, OverflowError):
        return None  # a day that no calendar has: 2月30日, 9999 years ago


def _with_hours(text: str, position: int, found: Found) -> tuple[int, Found]:
    """What is said of the day's part behind a day: 昨天晚上, 11月27日下午三点, yesterday evening, Friday at 3 pm."""
    if found.granularity not in ("day", "weekend"):
        return position, found
    match = _CHINESE_HOURS.match(text, position)
    if match is not None and (match["period"] or match["hour"]):
        hours = HOURS.get(match["period"] or "", found.hours)
        return match.end(), replace(found, hours=_hour(number(match["hour"] or ""), hours))
    match = _ENGLISH_HOURS.match(text, position)
    if match is None:
        return position, found
    if match["period"]:
        return match.end(), replace(found, hours=HOURS[match["period"]])
    hour = (english_number(match["hour"]) or 0) % 12 + (12 if match["half"][0] == "p" else 0)
    return match.end(), replace(found, hours=(hour, hour + 1))


def _hour(hour: int | None, part: tuple[int, int] | None) -> tuple[int, int] | None:
    """The hour that a clock shows in a part of the day; without a part, an hour up to twelve may be either."""
    if hour is None or hour > 24:
        return part
    if part is None:
        return (hour, hour + 1) if 12 < hour < 24 else None
    if part[0] >= 11 and hour < 12 and hour + 12 >= part[0]:
        hour += 12
    if hour == 12 and part[0] >= 17:
        hour = 23
    if hour == 12 and part == (0, 6):
        hour = 0
    return (hour, hour + 1) if hour < 24 else part


def _with_words_around(text: str, start: int, end: int, found: Found, today: Today) -> tuple[int, Found]:
    """Words that move or open a span: 国庆前后, 上周以来, 11月20日之前, since Monday."""
    first, last = found.days
    if found.festival and (match := _FESTIVAL_BEHIND.match(text, end)):
        days: Days = {
            "whole": (first, last),
            "day": (first, first),
            "around": (shifted(first, -AROUND_FESTIVAL), shifted(last, AROUND_FESTIVAL)),
            "eve": (shifted(first, -AROUND_FESTIVAL), shifted(first, -1)),
            "day_before": (shifted(first, -1), shifted(first, -1)),
            "day_after": (shifted(first, 1), shifted(first, 1)),
            "before": (shifted(first, -BESIDE_FESTIVAL), shifted(first, -1)),
            "after": (shifted(last, 1), shifted(last, BESIDE_FESTIVAL)),
        }[match.lastgroup or "whole"]
        if match.lastgroup in ("around", "after") and first <= today.day:
            days = min(days[0], today.day), min(days[1], today.day)
        single = days[0] == days[1]
        return match.end(), replace(found, days=days, granularity="day" if single else "range", recurring=None)
    if found.soft:
        return end, found
    kind, behind = "", end
    if not found.ago or found.granularity == "day":
        match = _BEHIND.match(text, end)
        if match is not None and not (
            match.lastgroup == "from" and not _FROM_BEFORE.search(text[max(0, start - 4) : start])
        ):
            kind, behind = match.lastgroup or "", match.end()
    if not kind and (match := _ENGLISH_BEFORE.search(text[max(0, start - 12) : start])):
        kind = {"since": "since", "after": "after"}.get(
            match["word"], "until" if match["word"][0] in "ut" else "before"
        )
    opened = _opened(kind, found.days, today)
    if opened is None:
        return end, found
    return behind, replace(
        found, days=opened, granularity="range", hours=None, recurring=None, confidence=min(found.confidence, 0.9)
    )


def _opened(kind: str, days: Days, today: Today) -> Days | None:
    """The days since, after, before or until a span; None where nothing sensible is left."""
    first, last = days
    if kind in ("since", "from"):
        return (first, today.day) if first <= today.day else None
    if kind == "after":
        return (shifted(last, 1), today.day) if last < today.day else None
    if kind == "before":
        return (EARLIEST, shifted(first, -1)) if first > EARLIEST else None
    if kind == "until":
        return (EARLIEST, last) if last >= EARLIEST else None
    return None


def _ranges(text: str, places: list[_Place], today: Today) -> Iterator[_Place]:
    """The places, with two that are the ends of a range made one."""
    position = 0
    while position < len(places):
        left = places[position]
        position += 1
        if position < len(places) and (joined := _joined(text, left, places[position], today)):
            yield joined
            position += 1
        else:
            yield left


def _joined(text: str, left: _Place, right: _Place, today: Today) -> _Place | None:
    if right.start - left.end > GAP or left.found.soft or right.found.soft:
        return None
    gap, end = text[left.end : right.start], right.end
    if not _TO.fullmatch(gap):
        if not _AND.fullmatch(gap):
            return None
        behind = _BETWEEN_BEHIND.match(text, end)
        if behind is None and not _BETWEEN_BEFORE.search(text[max(0, left.start - 12) : left.start]):
            return None
        end = behind.end() if behind else end
    first, last = _ends(left.found, right.found)
    found = Found(
        (min(first[0], last[0]), max(first[1], last[1])),
        "range",
        min(1.0, max(left.found.confidence, right.found.confidence)),
        future=right.found.days[0] > today.day or last[0] > today.day,
    )
    return _Place(left.start, end, found)


def _ends(left: Found, right: Found) -> tuple[Days, Days]:
    """Which occurrences are meant: the words that say more decide for those that say less.

    去年10月到12月: both in last year. 25号到28号 on the 27th: both in the month before.
    10月1日到7号: the seventh after that first.
    """
    first, last = left.days, right.days
    if left.recurring is None or (right.recurring is not None and right.recurring.order < left.recurring.order):
        if right.recurring is not None:
            last = right.recurring.at_or_after(first[0]) or last
    elif last[0] < first[0] or right.recurring is None:
        first = left.recurring.at_or_before(last[1] if right.recurring is None else last[0]) or first
    return first, last
