"""Chinese rules that count from now: days, weeks, weekdays, months, so many units ago, lately (memory.md 4.2)."""

from __future__ import annotations

from datetime import date, timedelta

from app.memory.time_words import calendar
from app.memory.time_words.calendar import Days, Found, Today, latest, one, shifted
from app.memory.time_words.numerals import CHARACTERS, count, number
from app.memory.time_words.rules import (
    DAY_SIGN,
    HOURS,
    MONTH_PART,
    NUMBER,
    WEEKDAY,
    WEEKDAYS,
    Match,
    Rule,
    month_part_name,
    rule,
)
from app.memory.time_words.spans import Granularity

_DAYS = {"大前": -3, "前": -2, "昨": -1, "今": 0, "明": 1, "后": 2, "大后": 3}
_STEPS = {"大上": -2, "本": 0, "这": 0}

SOFT_WORDS = {
    "最近": 7, "近日": 7, "这几天": 7, "前几天": 7, "这几日": 7, "前几日": 7, "这些天": 7, "这两天": 3,
    "前两天": 4, "前些天": 14, "前些日子": 30, "这些日子": 30, "近期": 30, "近来": 30, "前阵子": 30, "前一阵子": 30,
    "前一阵": 30, "前段时间": 30, "前一段时间": 30, "前段日子": 30, "这阵子": 30, "这一阵子": 30, "这段时间": 30,
    "最近这段时间": 30, "最近一段时间": 30, "近一段时间": 30, "这段日子": 30, "不久前": 30, "前不久": 30,
    "不久之前": 30, "不久以前": 30, "之前": 30, "早前": 30, "日前": 7, "近年": 1826,
    "近年来": 1826, "近些年": 1826, "这些年": 1826, "前些年": 1826,
}  # fmt: skip
"""Words for a stretch up to today without an edge -> how many days it has."""

_SOFT_GUARDS = {"最近": "(?!的?一次|的一个|一面|处)", "日前": "", "之前": "", "这些年": "(?!轻)"}
_SOFT_BEFORE = {"日前": f"(?<![{CHARACTERS}节假生当今近昨前])", "近日": "(?<![最临])", "近期": "(?<!最)"}
LOW_CONFIDENCE = {"之前": 0.3, "日前": 0.6, "早前": 0.5}

VAGUE_DAYS = {"天": 7, "日": 7, "周": 30, "月": 180, "年": 1826, "季": 365, "小": 1, "分": 1}
"""How many days the last few of a unit are."""

_UNIT = r"(?P<unit>天|日|周|星期|礼拜|(?<=[个半多])月|年|小时|钟头|分钟|季度)"
_COUNT = (
    rf"(?P<count>好几|几十|几|数|半|{NUMBER}[多来几]?)(?P<piece>个)?(?P<half>半)?(?P<more>多)?{_UNIT}"
    r"(?P<half_behind>半)?(?P<more_behind>多)?"
)


def _day_word(match: Match, today: Today) -> Found | None:
    return one(shifted(today.day, _DAYS[match["day"]]), hours=HOURS.get(match["rest"]), ago=True)


def _step(word: str) -> int:
    if word in _STEPS:
        return _STEPS[word]
    return -len(word) if word[0] == "上" else len(word)


def _week(match: Match, today: Today) -> Found | None:
    weeks = _step(match["step"])
    weekday = match["weekday"] or match["weekday_again"]
    if weekday is None:
        return Found(today.week(weeks), "week")
    if weekday == "末":
        return Found(today.weekend(weeks), "weekend")
    return one(today.weekday(WEEKDAYS[weekday], weeks))


def _weekday(match: Match, today: Today) -> Found | None:
    if match["weekday"] == "末":
        return latest(calendar.weekly(5, 2), today, "weekend", 0.8)
    recurring = calendar.weekly(WEEKDAYS[match["weekday"]])
    days = recurring.at_or_before(shifted(today.day, -1))
    return None if days is None else Found(days, "day", 0.8, recurring=recurring)


def _month(match: Match, today: Today) -> Found | None:
    days = today.month(_step(match["step"]))
    if match["part"]:
        return Found(calendar.month_part(days, month_part_name(match["part"])), "part")
    if match["day"]:
        day = number(match["day"])
        return None if day is None or day > days[1].day or day < 1 else one(days[0].replace(day=day))
    return Found(days, "month")


def _month_part(match: Match, today: Today) -> Found | None:
    """月初, 月底 and 下旬 without a month: of this month, or of the last one when this has not come so far."""
    part = month_part_name(match["part"])
    recurring = calendar.Recurring(
        lambda index: calendar.month_part(calendar.month(index // 12, index % 12 + 1), part),
        lambda day: day.year * 12 + day.month - 1,
        2,
    )
    return latest(recurring, today, "part", 0.8)


def _quarter(match: Match, today: Today) -> Found | None:
    return Found(today.quarter(_step(match["step"])), "quarter")


def _counted(match: Match, today: Today) -> Found | None:
    """三天前, 两周以后, 一年半前, 十几天前, 半年来."""
    least_most, half = _amount(match)
    if least_most is None:
        return None
    least, most = least_most
    direction = match["direction"]
    sign = 1 if "后" in direction else -1
    unit = match["unit"][0]
    if direction in ("来", "以来", "内", "之内", "以内"):
        return _up_to_today(
            most, half, unit, today, vague=_is_vague(match), confidence=0.9 if "来" in direction else 0.5
        )
    if unit == "月" and not match["piece"]:
        return None
    vague = _is_vague(match)
    near, far = _place(least, half, unit, sign, today), _place(most, half, unit, sign, today)
    days = min(near[0], far[0]), max(near[1], far[1])
    granularity = _NAMES[unit]
    if half and unit == "年":
        granularity = "month"
    elif least != most or (half and unit == "月" and not least):
        granularity = "range"
    confidence = 0.7 if sign > 0 or vague else 0.8 if least != most or half else 1.0
    return Found(days, granularity, confidence, soft=vague, ago=True)


_NAMES: dict[str, Granularity] = {
    "天": "day", "日": "day", "周": "week", "星": "week", "礼": "week", "月": "month", "年": "year", "季": "quarter",
    "小": "day", "钟": "day", "分": "day",
}  # fmt: skip


def _amount(match: Match) -> tuple[tuple[int, int] | None, bool]:
    """Least and most of the number in front of a unit, and whether half a unit comes on top."""
    half = bool(match["half"] or match["half_behind"])
    if match["count"] == "半":
        return (0, 0), True
    amount = count(match["count"])
    if amount and (match["more"] or match["more_behind"] or (match["count"][-1] == "多" and amount[0] == amount[1])):
        amount = amount[0], amount[1] + 1
    return amount, half


def _is_vague(match: Match) -> bool:
    return match["count"] in ("几", "好几", "数", "几十")


def _place(amount: int, half: bool, unit: str, sign: int, today: Today) -> Days:
    """The day, week, month, … that lies so many units from now; ``sign`` is -1 for the past."""
    match unit:
        case "天" | "日":
            day = shifted(today.day, sign * amount)
            return day, day
        case "周" | "星" | "礼":
            return today.week(sign * amount)
        case "月" if half and not amount:
            return shifted(today.day, sign * 15 - 3), shifted(today.day, sign * 15 + 3)
        case "月":
            day = calendar.month_shifted(today.day, sign * amount)
            day = shifted(day, sign * 15) if half else day
            return calendar.month(day.year, day.month)
        case "季":
            return today.quarter(sign * amount)
        case "年" if half:
            return today.month(sign * (12 * amount + 6))
        case "年":
            return calendar.months(today.day.year + sign * amount, 1, 12)
        case _:
            day = (today.now + sign * timedelta(**{"minutes" if unit == "分" else "hours": amount})).date()
            return day, day


def _year_and_months(match: Match, today: Today) -> Found | None:
    years, further = number(match["years"]), number(match["months"])
    if years is None or further is None:
        return None
    sign = 1 if "后" in match["direction"] else -1
    return Found(today.month(sign * (12 * years + further)), "month", 0.9, ago=True)


def back(amount: int, half: bool, unit: str, today: Today) -> Days:
    """So many units up to today: 7 days are today and the six before it, 2 months begin on the same day of a month."""
    match unit:
        case "天" | "日":
            return shifted(today.day, -max(amount - 1, 1 if amount == 1 else 0)), today.day
        case "周" | "星" | "礼":
            return shifted(today.day, 1 - max(7 * amount + 4 * half, 1)), today.day
        case "月":
            first = calendar.month_shifted(today.day, -amount)
            return shifted(first, -15 if half else 0), today.day
        case "季":
            return calendar.month_shifted(today.day, -3 * amount), today.day
        case "年":
            return calendar.month_shifted(today.day, -12 * amount - 6 * half), today.day
        case _:
            return _place(amount, half, unit, -1, today)[0], today.day


def _up_to_today(amount: int, half: bool, unit: str, today: Today, *, vague: bool, confidence: float) -> Found:
    unit = "周" if unit in "星礼" else unit
    if vague:
        days = shifted(today.day, 1 - VAGUE_DAYS.get(unit, 1)), today.day
        return Found(days, "range", min(confidence, 0.8), soft=True, ago=True)
    return Found(back(amount, half, unit, today), "range", confidence, ago=True)


def _span(match: Match, today: Today) -> Found | None:
    """近三天, 过去两个月, 这半年, 前两周, 未来一周."""
    amount, half = _amount(match)
    if amount is None:
        return None
    most, unit, lead = amount[1], match["unit"][0], match["lead"]
    if lead[0] in "接未今往后":
        days = shifted(today.day, 1), _forward(most, half, unit, today)
        return Found((days[0], max(days)), "range", 0.9)
    if lead in ("前", "头") and not _is_vague(match):
        if most <= 1 and not half:
            return None
        first = back(most + 1, half, unit, today)[0]
        return Found((first, today.day), "range", 0.7, soft=True, ago=True)
    if lead == "这" and most == 1 and unit in "天日小分钟":
        return None
    return _up_to_today(most, half, unit, today, vague=_is_vague(match), confidence=0.95)


def _forward(amount: int, half: bool, unit: str, today: Today) -> date:
    match unit:
        case "天" | "日":
            return shifted(today.day, amount)
        case "周" | "星" | "礼":
            return shifted(today.day, 7 * amount + 4 * half)
        case "月":
            return shifted(calendar.month_shifted(today.day, amount), 15 if half else 0)
        case "季":
            return calendar.month_shifted(today.day, 3 * amount)
        case "年":
            return calendar.month_shifted(today.day, 12 * amount + 6 * half)
        case _:
            return _place(amount, half, unit, 1, today)[1]


def _soft(match: Match, today: Today) -> Found | None:
    word = match[0]
    days = shifted(today.day, 1 - SOFT_WORDS[word]), today.day
    return Found(days, "range", LOW_CONFIDENCE.get(word, 0.7), soft=True, ago=True)


def _two_counts(match: Match, today: Today) -> Found | None:
    """3到5天前, 2-3个月前."""
    low, high = number(match["low"]), number(match["high"])
    if low is None or high is None:
        return None
    sign, unit = 1 if "后" in match["direction"] else -1, match["unit"][0]
    near, far = _place(low, False, unit, sign, today), _place(high, False, unit, sign, today)
    return Found((min(near[0], far[0]), max(near[1], far[1])), "range", 0.9, ago=True)


def _half_month(match: Match, today: Today) -> Found | None:
    return Found(
        calendar.month_part(today.month(), "first_half" if match[0][0] == "上" else "second_half"), "part", 0.8
    )


_DIRECTION = (
    r"(?P<direction>[之以]?前(?![往台])|[之以]?后(?![面悔台辈勤备来卫])|[之以]?内(?![部容心])|以来"
    r"|来(?![自到了说的回看源访]))"
)

COUNT_RULES: tuple[Rule, ...] = (
    rule(rf"{_COUNT}{_DIRECTION}", _counted),
    rule(rf"(?P<years>{NUMBER})年[零又]?(?P<months>{NUMBER})个月(?P<direction>[之以]?前|[之以]?后)", _year_and_months),
    rule(
        rf"(?P<low>{NUMBER})(?:个)?(?:天|周|月|年)?[ ]?(?:到|至|~|-)[ ]?(?P<high>{NUMBER})(?:个)?{_UNIT}"
        r"(?P<direction>[之以]?前|[之以]?后)",
        _two_counts,
    ),
)  # fmt: skip
"""Those that begin with a number, or with 半, 几, 数, 好几."""

_DAY_WORD = (
    r"(?:(?P<day>大前|(?<![当目之以])前(?!天[气空生])|昨|今|明(?!日方舟)|(?<!先天)大?后(?!天[气努]))"
    r"(?P<rest>天(?!气预)|[日儿](?!记[^录]|报|头条|常)|早上?|晨|晚上?|夜))"
)
_STEP = r"(?<![早晚网路线街身楼手船车床])(?P<step>上{1,3}|大上|本|这|下{1,3})"
_SOFT = "|".join(
    _SOFT_BEFORE.get(word, "") + word + _SOFT_GUARDS.get(word, "") for word in sorted(SOFT_WORDS, key=len, reverse=True)
)

WORD_RULES: tuple[Rule, ...] = (
    rule(_DAY_WORD, _day_word),
    rule(
        rf"{_STEP}(?:一?个|一)?(?:周|星期|礼拜)(?:(?P<weekday>末|{WEEKDAY})"
        rf"|的?(?:周|星期|礼拜)(?P<weekday_again>末|{WEEKDAY})|(?![围边期岁旋]))",
        _week,
    ),
    rule(rf"(?<![每逢个{CHARACTERS}])(?:周|星期|礼拜)(?P<weekday>末|{WEEKDAY})", _weekday),
    rule(rf"{_STEP}(?:一?个|一)?月份?(?:的?(?:(?P<part>{MONTH_PART})|(?P<day>{NUMBER}){DAY_SIGN}))?", _month),
    rule(rf"(?<![{CHARACTERS}每本这上下个])(?P<part>月[初底末](?![中恋级步下层])|[上中下]旬)", _month_part),
    rule(rf"{_STEP}(?:一?个|一)?季度", _quarter),
    rule(r"[上下]半月", _half_month),
    rule(
        rf"(?<![接靠附亲临将最新远邻])(?P<lead>近|最近|过去|这|前|头|接下来|未来|今后|往后)(?:的|这)?(?:大概|大约|约)?{_COUNT}"
        r"(?:以来|来|之?[里内]|之?间|的?时间)?(?![前后])",
        _span,
    ),
    rule(_SOFT, _soft),
)
"""Those that begin with a word."""

FIRST_CHARACTERS = frozenset(word[0] for word in SOFT_WORDS) | frozenset(
    "大前昨今明后上本这下周星礼月中近最过头接未往半几数好"
)
