"""English rules that count from now: days, weeks, weekdays, so many units ago, lately (memory.md 4.2).

Patterns see small letters.
"""

from __future__ import annotations

from datetime import date, timedelta

from app.memory.time_words import calendar
from app.memory.time_words.calendar import Days, Found, Today, one, shifted
from app.memory.time_words.english_years import PART, PARTS, STEP, STEPS
from app.memory.time_words.numerals import ENGLISH_NUMBER, english_number
from app.memory.time_words.rules import HOURS, Match, Rule, rule
from app.memory.time_words.spans import Granularity

_WEEKDAY_TEXT = "monday tuesday wednesday thursday friday saturday sunday"
_WEEKDAY_NAMES = _WEEKDAY_TEXT.split()
WEEKDAYS = {name: number for number, name in enumerate(_WEEKDAY_NAMES)} | {
    name[:3]: number for number, name in enumerate(_WEEKDAY_NAMES)
} | {"tues": 1, "thur": 3, "thurs": 3}  # fmt: skip

SOFT_WORDS = {
    "recently": 7, "lately": 30, "the other day": 7, "these days": 7, "a while ago": 30, "a while back": 30,
    "some time ago": 60, "not long ago": 30, "not so long ago": 30, "in recent days": 7, "in recent weeks": 30,
    "in recent months": 180, "in recent years": 1826,
}  # fmt: skip
"""Words for a stretch up to today without an edge -> how many days it has."""

_WEEKDAY_FULL = "|".join(_WEEKDAY_NAMES)
_WEEKDAY_ANY = "|".join(sorted(WEEKDAYS, key=len, reverse=True))
_UNIT = r"(?P<unit>minute|hour|day|night|week|fortnight|weekend|month|quarter|year|decade)s?\b"
_COUNT = (
    rf"(?P<count>half an?|(?:a )?couple(?: of)?|(?:a )?few|several|many|one and a half|two and a half"
    rf"|{ENGLISH_NUMBER}(?: and a half)?|(?:a|one) whole) "
)


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


def _unit_step(match: Match, today: Today) -> Found | None:
    """last week, this month, next year, early last month, end of this year."""
    step, unit = STEPS[match["step"]], match["unit"]
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
            return Found(calendar.month_part(days, PARTS[part]) if part else days, "part" if part else "month")
        case "quarter":
            return Found(today.quarter(step), "quarter")
        case _:
            year = today.day.year + step
            return Found(
                calendar.year_part(year, PARTS[part]) if part else calendar.months(year, 1, 12),
                "part" if part else "year",
            )


def _weekday_of_week(match: Match, today: Today) -> Found | None:
    return one(today.weekday(WEEKDAYS[match["weekday"]], STEPS[match["step"]]))


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
            return (
                None
                if days is None
                else Found(days, "day", 0.9 if step else 0.8, recurring=None if step else recurring)
            )


def _day_of_month(match: Match, today: Today) -> Found | None:
    day = int(match["day"])
    if not 1 <= day <= 31:
        return None
    return calendar.latest(calendar.monthly(day), today, "day", 0.7)


def _soft(match: Match, today: Today) -> Found | None:
    return Found((shifted(today.day, 1 - SOFT_WORDS[match[0]]), today.day), "range", 0.7, soft=True, ago=True)


_NOT_EVERY = r"(?<!every )(?<!each )"
_UNITS_STEP = r"(?P<unit>week(?:end)?|month|quarter|year)\b(?!s)"

_COUNTED = (
    rule(
        rf"{_COUNT}{_UNIT}(?P<half> and a half)? "
        r"(?P<direction>ago|earlier|back|before now|prior|from now|later|hence)\b",
        _counted,
    ),
    rule(
        rf"(?P<low>{ENGLISH_NUMBER})(?: ?- ?| to | or )(?P<high>{ENGLISH_NUMBER}) {_UNIT} (?:ago|back|earlier)\b",
        _counted_range,
    ),
)

NUMBERS: tuple[Rule, ...] = (
    *_COUNTED,
    rule(
        r"(?:(?<=on the )|(?<=since the )|(?<=until the )|(?<=from the )|(?<=to the ))"
        r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)\b(?! (?:floor|of|time|page|place|century|day|line|row|try|attempt"
        r"|birthday|anniversary|street|st|avenue))",
        _day_of_month,
    ),
)
"""Those that begin with digits."""

WORDS: tuple[Rule, ...] = (
    *_COUNTED,
    rule(
        r"(?P<word>the day before yesterday|day before yesterday|the day after tomorrow|day after tomorrow|today|tonight"
        r"|yesterday|tomorrow|last night|this (?:morning|afternoon|evening))\b",
        _day_word,
    ),
    rule(rf"(?P<lead>last|past|previous|preceding|next|coming|following) {_COUNT}{_UNIT}", _span),
    rule(rf"(?P<lead>past|coming)(?P<count>) {_UNIT}", _span),
    rule(r"(?P<lead>last|past|next)(?P<count>) (?P<unit>decade|fortnight)\b", _span),
    rule(rf"in {_COUNT}{_UNIT}(?!')(?P<half> and a half)?", _counted),
    rule(rf"(?:{PART})?{STEP} {_UNITS_STEP}", _unit_step),
    rule(rf"the {_UNITS_STEP} before (?P<before>)(?P<step>last)\b", _unit_step),
    rule(rf"(?:the )?(?P<weekday>{_WEEKDAY_FULL})(?: of)? {STEP} week\b", _weekday_of_week),
    rule(rf"{STEP} week(?:'s)?(?: on)? (?P<weekday>{_WEEKDAY_ANY})\b", _weekday_of_week),
    rule(rf"{STEP} (?P<weekday>{_WEEKDAY_ANY})\b", _weekday),
    rule(rf"{_NOT_EVERY}(?P<weekday>{_WEEKDAY_FULL})\b", _weekday),
    rule(r"on (?P<weekday>mon|tues?|wed|thu(?:rs?)?|fri)\b", _weekday),
    rule("|".join(rf"{word}\b" for word in sorted(SOFT_WORDS, key=len, reverse=True)), _soft),
)
"""Those that begin with a word."""
