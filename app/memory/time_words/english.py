"""English rules of time words (memory.md 4.2); patterns see small letters."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta

from app.memory.time_words import calendar
from app.memory.time_words.calendar import Days, Found, Recurring, Today, one, shifted, yearly
from app.memory.time_words.chinese_years import in_year
from app.memory.time_words.festivals import ENGLISH
from app.memory.time_words.numerals import ENGLISH_NUMBER, ORDINALS, english_number
from app.memory.time_words.rules import HOURS, Match, Rule, rule
from app.memory.time_words.spans import Granularity

_MONTH_NAMES = (
    "january february march april may june july august september october november december".split()
)
MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)} | {
    name[:3]: number for number, name in enumerate(_MONTH_NAMES, 1)
} | {"sept": 9}  # fmt: skip
_WEEKDAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday".split()
WEEKDAYS = {name: number for number, name in enumerate(_WEEKDAY_NAMES)} | {
    name[:3]: number for number, name in enumerate(_WEEKDAY_NAMES)
} | {"tues": 1, "thur": 3, "thurs": 3}  # fmt: skip
_SEASONS = {"spring": "spring", "summer": "summer", "fall": "autumn", "autumn": "autumn", "winter": "winter"}
_QUARTERS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_STEPS = {"last": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1}
_PARTS = {"early": "early", "beginning": "early", "start": "early", "mid": "mid", "middle": "mid", "late": "late", "end": "late"}

SOFT_WORDS = {
    "recently": 7, "lately": 30, "the other day": 7, "these days": 7, "a while ago": 30, "a while back": 30,
    "some time ago": 60, "not long ago": 30, "not so long ago": 30, "in recent days": 7, "in recent weeks": 30,
    "in recent months": 180, "in recent years": 1826,
}  # fmt: skip
"""Words for a stretch up to today without an edge -> how many days it has."""

_NAMES = "|".join(sorted(MONTHS, key=len, reverse=True))
_MONTH = rf"(?P<month>{_NAMES})\b\.?"
_WEEKDAY_FULL = "|".join(_WEEKDAY_NAMES)
_WEEKDAY_ANY = "|".join(sorted(WEEKDAYS, key=len, reverse=True))
_YEAR_TAIL = r"(?:(?:,? (?:of |in )?|[ ]*,[ ]*)(?P<year>(?:19|20)[0-9]{2})\b(?![-/.][0-9])|,? (?:of |in )?(?P<of_year>last|this|next) year\b)?"
_UNIT = r"(?P<unit>minute|hour|day|night|week|fortnight|weekend|month|quarter|year|decade)s?\b"
_COUNT = (
    rf"(?P<count>half an?|(?:a )?couple(?: of)?|(?:a )?few|several|many|one and a half|two and a half"
    rf"|{ENGLISH_NUMBER}(?: and a half)?|(?:a|one) whole) "
)
_ORDINAL = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?\b(?![0-9:.%/])"
_FESTIVALS = "|".join(sorted(map(lambda name: name.replace(" ", "[ ]"), ENGLISH), key=len, reverse=True))


LOOK_BACK = 40
"""Characters before a word that may say whether it is a time."""

_LEAD = re.compile(r"\b(?:in|during|since|of|until|till|before|after|by|from|between|through|late|early|mid)[ -](?:the )?$")
_RANGE_LEAD = re.compile(r"\b(?:from|between)\b.*\b(?:to|and|until|till)[ ](?:the )?$")


def _day_word(match: Match, today: Today) -> Found | None:
    word = match["word"]
    if word == "tonight":
        return one(today.day, hours=HOURS["night"])
    if word == "last night":
        return one(shifted(today.day, -1), hours=HOURS["night"])
    if word.startswith("this "):
        return one(today.day, hours=HOURS[word.removeprefix("this ")])
    step = {"today": 0, "yesterday": -1, "tomorrow": 1}[word.split()[-1]]
    return one(shifted(today.day, step * 2 if " " in word else step))


def _number_of(text: str) -> tuple[int, int, bool, bool] | None:
    """Least, most, half a unit on top, vague."""
    text = text.strip()
    if text.startswith("half"):
        return 0, 0, True, False
    if "couple" in text:
        return 2, 2, False, False
    if text.endswith("few") or text in ("several", "many"):
        return 2, 9, False, True
    half = text.endswith(" and a half")
    value = english_number(text.removesuffix(" and a half").removesuffix(" whole"))
    return None if value is None else (value, value, half, False)


def _place(amount: int, half: bool, unit: str, sign: int, today: Today) -> tuple[Days, Granularity]:
    match unit:
        case "day" | "night":
            day = shifted(today.day, sign * amount)
            return (day, day), "day"
        case "week":
            return today.week(sign * amount), "week"
        case "fortnight":
            return today.week(sign * 2 * amount), "week"
        case "weekend":
            return today.weekend(sign * amount), "weekend"
        case "month" if half and not amount:
            return (shifted(today.day, sign * 15 - 3), shifted(today.day, sign * 15 + 3)), "range"
        case "month":
            day = calendar.month_shifted(today.day, sign * amount)
            day = shifted(day, sign * 15) if half else day
            return calendar.month(day.year, day.month), "month"
        case "quarter":
            return today.quarter(sign * amount), "quarter"
        case "year" if half:
            return today.month(sign * (12 * amount + 6)), "month"
        case "year":
            return calendar.months(today.day.year + sign * amount, 1, 12), "year"
        case "decade":
            return calendar.months(today.day.year + sign * 10 * amount, 1, 12), "year"
        case _:
            day = (today.now + sign * timedelta(**{f"{unit}s": amount})).date()
            return (day, day), "day"


def _counted(match: Match, today: Today) -> Found | None:
    """3 days ago, two weeks earlier, a year and a half ago, in five days."""
    amount = _number_of(match["count"])
    if amount is None:
        return None
    least, most, half, vague = amount
    groups = match.groupdict()
    half = half or bool(groups.get("half"))
    direction = groups.get("direction") or "later"
    sign = 1 if direction in ("later", "from now", "hence") else -1
    near, granularity = _place(least, half, match["unit"], sign, today)
    far, _ = _place(most, half, match["unit"], sign, today)
    confidence = 1.0 if direction in ("ago", "from now") and not vague else 0.7 if direction != "later" else 0.5
    days = min(near[0], far[0]), max(near[1], far[1])
    return Found(days, "range" if vague else granularity, confidence, soft=vague, ago=True)


def _counted_range(match: Match, today: Today) -> Found | None:
    low, high = english_number(match["low"]), english_number(match["high"])
    if low is None or high is None:
        return None
    near, far = _place(low, False, match["unit"], -1, today)[0], _place(high, False, match["unit"], -1, today)[0]
    return Found((min(near[0], far[0]), max(near[1], far[1])), "range", 0.9, ago=True)


_SPAN_DAYS = {"day": 1, "night": 1, "week": 7, "fortnight": 14, "weekend": 7}
_SPAN_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
_VAGUE_DAYS = {"day": 7, "night": 7, "week": 30, "weekend": 30, "month": 180, "quarter": 365, "year": 1826}


def _span(match: Match, today: Today) -> Found | None:
    """the last 3 days, past few weeks, next two months."""
    amount = _number_of(match["count"]) if match["count"] else (1, 1, False, False)
    if amount is None:
        return None
    _, most, half, vague = amount
    unit = match["unit"]
    if match["lead"] in ("next", "coming", "following"):
        return Found((shifted(today.day, 1), _moved(today.day, most, half, unit, 1)), "range", 0.9)
    if vague:
        return Found((shifted(today.day, 1 - _VAGUE_DAYS.get(unit, 1)), today.day), "range", 0.8, soft=True, ago=True)
    first = _moved(today.day, most, half, unit, -1)
    if unit in _SPAN_DAYS and (most, unit) != (1, "day"):
        first = shifted(first, 1)
    return Found((min(first, today.day), today.day), "range", 0.95, ago=True)


def _moved(day: date, amount: int, half: bool, unit: str, sign: int) -> date:
    if unit in _SPAN_DAYS:
        return shifted(day, sign * (_SPAN_DAYS[unit] * amount + half * _SPAN_DAYS[unit] // 2))
    if unit in _SPAN_MONTHS:
        moved = calendar.month_shifted(day, sign * (_SPAN_MONTHS[unit] * amount + half * _SPAN_MONTHS[unit] // 2))
        return shifted(moved, sign * 15) if half and unit == "month" else moved
    return shifted(day, sign * (amount // 24 if unit == "hour" else 0))


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
    return today.day.year + _STEPS[groups["of_year"]] if groups.get("of_year") else None


def _yearly(
    match: Match, today: Today, make: Callable[[int], Days | None], granularity: Granularity, confidence: float,
    *, festival: bool = False,
) -> Found | None:  # fmt: skip
    """Of the year that is named, of the one that last, this or next means, or the last one."""
    year = _year_of(match, today)
    if year is not None:
        named = match.groupdict().get("of_year")
        days = in_year(make, year, today, relative=_STEPS[named] if named else None)
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
    if not (groups.get("step") or part or _year_of(match, today) or _led(match)) and (name in ("may", "march", "mar", "sep", "jan", "dec") or len(name) == 3):
        return None
    if part:
        return _yearly(match, today, lambda year: calendar.month_part(calendar.month(year, month), _PARTS[part]), "part", 0.9)
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


def _unit_step(match: Match, today: Today) -> Found | None:
    """last week, this month, next year, early last month, end of this year."""
    step, unit = _STEPS[match["step"]], match["unit"]
    if match.groupdict().get("before") is not None:
        step = -2
    part = match.groupdict().get("part")
    match unit:
        case "week":
            return Found(today.week(step), "week")
        case "weekend":
            return Found(today.weekend(step), "weekend")
        case "month":
            days = today.month(step)
            return Found(calendar.month_part(days, _PARTS[part]) if part else days, "part" if part else "month")
        case "quarter":
            return Found(today.quarter(step), "quarter")
        case _:
            year = today.day.year + step
            return Found(calendar.year_part(year, _PARTS[part]) if part else calendar.months(year, 1, 12), "part" if part else "year")


def _weekday_of_week(match: Match, today: Today) -> Found | None:
    return one(today.weekday(WEEKDAYS[match["weekday"]], _STEPS[match["step"]]))


def _weekday(match: Match, today: Today) -> Found | None:
    """Friday and last Friday are the last one before today, this Friday is of this week, next Friday the next one."""
    recurring = calendar.weekly(WEEKDAYS[match["weekday"]])
    match match.groupdict().get("step"):
        case "this":
            return one(today.weekday(WEEKDAYS[match["weekday"]]))
        case "next" | "coming":
            days = recurring.at_or_after(shifted(today.day, 1))
            return None if days is None else Found(days, "day", 0.9)
        case step:
            days = recurring.at_or_before(shifted(today.day, -1))
            return None if days is None else Found(days, "day", 0.9 if step else 0.8, recurring=None if step else recurring)


def _year(match: Match, today: Today) -> Found | None:
    year = int(match["year"])
    part = match.groupdict().get("part")
    if part:
        return Found(calendar.year_part(year, _PARTS[part]), "part")
    return Found(calendar.months(year, 1, 12), "year", 0.9)


def _year_alone(match: Match, today: Today) -> Found | None:
    return _year(match, today) if _led(match) or match.string.endswith("year ", 0, match.start()) else None


def _decade(match: Match, today: Today) -> Found | None:
    first = int(match["decade"])
    first += 0 if first > 99 else 1900 if first > today.day.year % 100 else 2000
    return Found((date(first, 1, 1), date(first + 9, 12, 31)), "range", 0.8)


def _day_of_month(match: Match, today: Today) -> Found | None:
    day = int(match["day"])
    if not 1 <= day <= 31:
        return None
    return calendar.latest(calendar.monthly(day), today, "day", 0.7)


def _soft(match: Match, today: Today) -> Found | None:
    return Found((shifted(today.day, 1 - SOFT_WORDS[match[0]]), today.day), "range", 0.7, soft=True, ago=True)


_WHICH_YEAR = r"(?:the year\b|(?P<year>(?:19|20)[0-9]{2})\b|(?P<of_year>last|this|next) year\b)"
_PART = r"(?:the )?(?P<part>early|mid|late|beginning|start|middle|end)(?:[- ]|[- ]in | of )(?:the )?"
_STEP = r"(?P<step>last|previous|this|current|next|coming)"
_NOT_EVERY = r"(?<!every )(?<!each )"
_UNITS_STEP = r"(?P<unit>week(?:end)?|month|quarter|year)\b(?!s)"

COUNTED = (
    rule(rf"{_COUNT}{_UNIT}(?P<half> and a half)? (?P<direction>ago|earlier|back|before now|prior|from now|later|hence)\b", _counted),
    rule(rf"(?P<low>{ENGLISH_NUMBER})(?: ?- ?| to | or )(?P<high>{ENGLISH_NUMBER}) {_UNIT} (?:ago|back|earlier)\b", _counted_range),
)
"""Begin with a number, in digits or words."""

NUMBERS: tuple[Rule, ...] = (
    *COUNTED,
    rule(rf"{_ORDINAL}(?: ?- ?(?P<until>[0-9]{{1,2}})(?:st|nd|rd|th)?\b)? (?:of )?{_MONTH}{_YEAR_TAIL}", _month_day),
    rule(r"(?P<year>(?:19|20)[0-9]{2})\b(?![-/.:][0-9]| (?:people|dollars|times|users|words))", _year_alone),
    rule(r"(?:(?<=the )|(?<='))(?P<decade>(?:19|20)?[0-9]0)'?s\b", _decade),
    rule(r"(?:(?<=on the )|(?<=since the )|(?<=until the )|(?<=from the )|(?<=to the ))(?P<day>[0-9]{1,2})(?:st|nd|rd|th)\b"
         r"(?! (?:floor|of|time|page|place|century|day|line|row|try|attempt|birthday|anniversary|street|st|avenue))", _day_of_month),
    rule(rf"(?P<ordinal>1st|2nd|3rd|4th) quarter\b{_YEAR_TAIL}", _quarter),
    rule(rf"(?P<ordinal>1st|2nd) half of (?:{_MONTH}{_YEAR_TAIL})", _half),
    rule(rf"(?P<ordinal>1st|2nd) half of {_WHICH_YEAR}", _half),
)  # fmt: skip

WORDS: tuple[Rule, ...] = (
    *COUNTED,
    rule(
        r"(?P<word>the day before yesterday|day before yesterday|the day after tomorrow|day after tomorrow|today|tonight"
        r"|yesterday|tomorrow|last night|this (?:morning|afternoon|evening))\b",
        _day_word,
    ),
    rule(rf"(?<!in )(?P<lead>last|past|previous|preceding|next|coming|following) {_COUNT}{_UNIT}", _span),
    rule(rf"(?P<lead>past|coming)(?P<count>) {_UNIT}", _span),
    rule(rf"(?P<lead>last|past|next)(?P<count>) (?P<unit>decade|fortnight)\b", _span),
    rule(rf"in {_COUNT}{_UNIT}(?!')(?P<half> and a half)?", _counted),
    rule(rf"(?:{_PART})?{_STEP} {_UNITS_STEP}", _unit_step),
    rule(rf"the {_UNITS_STEP} before (?P<before>)(?P<step>last)\b", _unit_step),
    rule(rf"(?:the )?(?P<weekday>{_WEEKDAY_FULL})(?: of)? {_STEP} week\b", _weekday_of_week),
    rule(rf"{_STEP} week(?:'s)?(?: on)? (?P<weekday>{_WEEKDAY_ANY})\b", _weekday_of_week),
    rule(rf"{_STEP} (?P<weekday>{_WEEKDAY_ANY})\b", _weekday),
    rule(rf"{_NOT_EVERY}(?P<weekday>{_WEEKDAY_FULL})\b", _weekday),
    rule(r"on (?P<weekday>mon|tues?|wed|thu(?:rs?)?|fri)\b", _weekday),
    rule(rf"(?:{_STEP} )?{_MONTH}{_YEAR_TAIL}", _month),
    rule(rf"(?:in )?{_PART}(?:{_STEP} )?{_MONTH}{_YEAR_TAIL}", _month),
    rule(rf"(?:in )?{_PART}(?P<year>(?:19|20)[0-9]{{2}})\b", _year),
    rule(rf"(?:on )?{_MONTH} (?:the )?{_ORDINAL}(?: ?(?:-|to) ?(?P<until>[0-9]{{1,2}})(?:st|nd|rd|th)?\b)?{_YEAR_TAIL}", _month_day),
    rule(rf"(?:on )?(?:the )?(?P<day>)(?P<ordinal>{'|'.join(ORDINALS)}) of {_MONTH}{_YEAR_TAIL}", _month_day),
    rule(rf"(?:{_STEP} )?(?P<season>spring|summer|fall|autumn|winter)\b(?! (?:boot|festival|solstice|equinox))"
         rf"{_YEAR_TAIL}", _season),
    rule(rf"(?:{_STEP} )?(?P<festival>{_FESTIVALS})\b{_YEAR_TAIL}", _festival),
    rule(rf"(?:the )?(?P<ordinal>first|second|third|fourth) quarter\b{_YEAR_TAIL}", _quarter),
    rule(rf"q(?P<q>[1-4])\b{_YEAR_TAIL}", _quarter),
    rule(rf"(?:the )?(?P<ordinal>first|second) half of (?:{_MONTH}{_YEAR_TAIL})", _half),
    rule(rf"(?:the )?(?P<ordinal>first|second) half of {_WHICH_YEAR}", _half),
    rule(rf"(?P<ordinal>h[12])\b (?P<year>(?:19|20)[0-9]{{2}})\b", _half),
    rule("|".join(rf"{word}\b" for word in sorted(SOFT_WORDS, key=len, reverse=True)), _soft),
)  # fmt: skip
