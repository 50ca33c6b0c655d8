"""Chinese rules of what lies in a year: months, days, seasons, quarters, festivals, lunar dates (memory.md 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from app.memory.time_words import calendar
from app.memory.time_words.calendar import Days, Found, Recurring, Today, latest, yearly
from app.memory.time_words.festivals import CHINESE, WEATHER_TERMS, lunar_date
from app.memory.time_words.numerals import CHARACTERS, number
from app.memory.time_words.rules import (
    DAY_SIGN,
    MONTH_PART,
    NOT_NUMBER_BEFORE,
    NUMBER,
    Match,
    Rule,
    month_part_name,
    rule,
)
from app.memory.time_words.spans import Granularity

Inside = tuple[Callable[[int], Days | None], Granularity, float]
"""What a year has of something, its granularity, and how sure the words are."""

RELATIVE_YEARS = {
    "大前年": -3, "前年": -2, "去年": -1, "上一年": -1, "今年": 0, "本年": 0, "这一年": 0, "明年": 1, "下一年": 1,
    "后年": 2,
}  # fmt: skip
_LUNAR_MONTHS = {"正": 1, "冬": 11, "腊": 12}
_SEASONS = {"春": "spring", "夏": "summer", "秋": "autumn", "冬": "winter"}
_ALONE_NEEDS_CUE = WEATHER_TERMS | {"五四", "过年"}

_FESTIVALS = "|".join(sorted(CHINESE, key=len, reverse=True))
_CUE = "(?=节气|那天|那日|当天|这天|前后|时节|期间|那时|的时候|假期)"
_FESTIVALS_ALONE = "|".join(
    name
    + (
        _CUE
        if name in _ALONE_NEEDS_CUE
        else f"(?![{CHARACTERS}月点日号个路班万岁])"
        if name in ("五一", "六一")
        else ""
    )
    for name in sorted(CHINESE, key=len, reverse=True)
)

_LUNAR_DAY = r"(?:初[一二三四五六七八九十]|廿[一二三四五六七八九]?|卅)"
_AFTER_BARE_DAY = f"(?![{CHARACTERS}个天月年周岁次人元块条点小分秒%度多几米公号日])"
_MONTH = (
    r"(?:(?P<era>农历|阴历|旧历|公历|阳历|新历)(?:的)?)?(?P<leap>闰)?"
    r"(?P<month>[0-9]{1,2}|[一二三四五六七八九十零〇]{1,3}|正|冬|腊)月份?"
    rf"(?:的?(?:(?P<part>{MONTH_PART})|(?P<lunar_day>{_LUNAR_DAY})"
    rf"|(?P<day>{NUMBER})(?P<sign>{DAY_SIGN}|{_AFTER_BARE_DAY})))?"
)
_COMMON = (
    r"(?P<season>[春夏秋冬][天季]|初[春夏秋冬]|仲夏|盛夏|深秋|寒冬|暑假|寒假|暑期)"
    r"|(?P<half>[上下]半年)|第?(?P<quarter>[一二三四1-4])(?:个)?季度|q(?P<q>[1-4])(?![0-9a-z])"
)
INSIDE = (
    rf"(?:{_MONTH}|{_COMMON}|(?P<end>年?(?:初(?![中恋级步学一二三])|中(?![国文秋午学心医东央间途止奖华])|[底末]))"
    rf"|(?P<festival>{_FESTIVALS})|(?P<bare_season>[春夏秋冬](?![节晚运游分至装令眠衣雨风招]))"
    r"|(?P<same>今天|今日|这一天|这个时候|这时候|此时|同期))"
)
ALONE = (
    rf"(?:{_MONTH}|{_COMMON}"
    rf"|(?P<end>(?<![{CHARACTERS}今明去前后几多每])年(?:初(?![中恋级步学一二三])|[底末]))"
    rf"|(?P<festival>{_FESTIVALS_ALONE}))"
)
_YEAR = (
    r"(?:(?P<relative>大前年|(?<![目之以])前年|去年|上一年|今年|本年|这一年|明年|下一年|(?<![以之])后年)度?"
    rf"|{NOT_NUMBER_BEFORE}(?:公元)?(?P<year>[12][0-9]{{3}}|[一二][零〇一二三四五六七八九]{{3}})年度?"
    rf"|{NOT_NUMBER_BEFORE}(?P<ago>{NUMBER})年[之以]?前)"
)


def inside_year(match: Match, today: Today) -> Inside | None:
    """What the words behind a year, or words without a year, name in any year."""
    groups = match.groupdict()
    if groups.get("month"):
        return _month(match)
    if name := groups.get("season") or groups.get("bare_season"):
        return _season(name, alone=not groups.get("bare_season"))
    if name := groups.get("half"):
        return lambda year: calendar.year_part(year, "first_half" if name[0] == "上" else "second_half"), "part", 0.9
    if name := groups.get("quarter") or groups.get("q"):
        return lambda year: calendar.quarter(year, number(name) or 0), "quarter", 0.9
    if name := groups.get("end"):
        part = {"初": "early", "中": "mid", "底": "late", "末": "late"}[name[-1]]
        return lambda year: calendar.year_part(year, part), "part", 0.9
    if name := groups.get("festival"):
        make = CHINESE[name]
        return make, "day", 0.9
    if name := groups.get("same"):
        return _same_day(name, today)
    return None


def _same_day(name: str, today: Today) -> Inside:
    around = 0 if name in ("今天", "今日", "这一天") else 15

    def make(year: int) -> Days:
        day = calendar.month_shifted(today.day, (year - today.day.year) * 12)
        return calendar.shifted(day, -around), calendar.shifted(day, around)

    return make, "range" if around else "day", 0.8 if around else 1.0


def _season(name: str, *, alone: bool) -> Inside:
    if name in ("暑假", "暑期"):
        return lambda year: calendar.months(year, 7, 8), "season", 0.8
    if name == "寒假":
        return lambda year: (date(year, 1, 10), date(year, 2, 25)), "season", 0.8
    kind = next(season for character, season in _SEASONS.items() if character in name)
    return lambda year: calendar.season(year, kind), "season", 0.8 if alone else 0.7


def _month(match: Match) -> Inside | None:
    name, era = match["month"], match["era"] or ""
    month = _LUNAR_MONTHS.get(name) or number(name)
    if month is None:
        return None
    written = match["lunar_day"] or (match["day"] or "")
    is_festival = (name, match["day"]) == ("八", "十五") and not match["sign"]
    lunar = era[:1] in ("农", "阴", "旧") if era else bool(match["lunar_day"] or name in _LUNAR_MONTHS or is_festival)
    if lunar or match["leap"]:
        return _lunar_month(month, written, leap=bool(match["leap"]))
    if match["part"]:
        part = month_part_name(match["part"])
        return lambda year: calendar.month_part(calendar.month(year, month), part), "part", 0.95
    if match["day"]:
        day = number(match["day"])
        return (
            None if day is None else (lambda year: (date(year, month, day),) * 2, "day", 1.0 if match["sign"] else 0.8)
        )
    return lambda year: calendar.month(year, month), "month", 0.9


def _lunar_month(month: int, written: str, *, leap: bool) -> Inside | None:
    if not written:

        def whole(year: int) -> Days | None:
            first, last = lunar_date(year, month, 1, leap=leap), lunar_date(year, month, 0, leap=leap)
            return None if first is None or last is None else (first, last)

        return whole, "month", 0.9
    day = number({"卅": "三十"}.get(written, written.removeprefix("初")))
    if not day:
        return None

    def make(year: int) -> Days | None:
        found = lunar_date(year, month, day, leap=leap)
        return None if found is None else (found, found)

    return make, "day", 0.95


def in_year(make: Callable[[int], Days | None], year: int, today: Today, *, relative: int | None) -> Days | None:
    """What a certain year has of something.

    Winters are in two years. Last winter is the one that began last year unless it is still going on, this winter the
    one that goes on or comes, from September on.
    """
    days = make(year)
    if days is None or days[0].year == days[1].year or relative is None or days[0].month != 12:
        return days
    if relative == 0:
        return make(year - 1) if today.day.month <= 8 else days
    return make(year - 1) if relative < 0 and days[1] >= today.day else days


def _in_a_year(match: Match, today: Today) -> Found | None:
    relative: int | None = None
    if match["relative"]:
        relative = RELATIVE_YEARS[match["relative"]]
    elif match["ago"]:
        ago = number(match["ago"])
        if not ago:
            return None
        relative = -ago
    year = today.day.year + relative if relative is not None else number(match["year"])
    if year is None:
        return None
    if match["inside"] is None:
        if match["ago"]:
            return None
        return Found(calendar.months(year, 1, 12), "year")
    found = inside_year(match, today)
    if found is None:
        return None
    make, granularity, confidence = found
    days = in_year(make, year, today, relative=relative)
    if days is None:
        return None
    soft = match["same"] is not None and days[0] != days[1]
    return Found(days, granularity, max(confidence, 0.9), soft=soft, festival=match["festival"] is not None)


def _full_year(short: str, today: Today) -> int:
    """25 is 2025, 98 is 1998: at most ten years ahead."""
    return int(short) + (2000 if int(short) <= today.day.year % 100 + 10 else 1900)


def _bare_short_year(match: Match, today: Today) -> Found | None:
    return Found(calendar.months(_full_year(match["short"], today), 1, 12), "year", 0.6)


def _short_year(match: Match, today: Today) -> Found | None:
    year = _full_year(match["short"], today)
    found = inside_year(match, today)
    days = None if found is None else found[0](year)
    return None if found is None or days is None else Found(days, found[1], 0.9, festival=match["festival"] is not None)


def _alone(match: Match, today: Today) -> Found | None:
    found = inside_year(match, today)
    if found is None:
        return None
    make, granularity, confidence = found
    recurring = yearly(make)
    days = recurring.at_or_before(today.day)
    if days is None:
        return None
    if match["season"]:
        confidence = 0.6
    if match["festival"] == "过年":
        confidence = 0.5
    return Found(days, granularity, confidence, recurring=recurring, festival=match["festival"] is not None)


def _decade(match: Match, today: Today) -> Found | None:
    tens = number(match["tens"])
    if tens is None or tens % 10:
        return None
    first = tens if tens > 99 else 2000 + tens if tens <= today.day.year % 100 else 1900 + tens
    return Found((date(first, 1, 1), date(first + 9, 12, 31)), "range", 0.8)


def _day_of_month(match: Match, today: Today) -> Found | None:
    day = number(match["day"])
    return None if day is None or not 1 <= day <= 31 else latest(calendar.monthly(day), today, "day", 0.7)


def _numbers(first: str, last: str) -> tuple[int, int] | None:
    low, high = number(first), number(last)
    return None if low is None or high is None else (low, high)


def _number_range(match: Match, today: Today) -> Found | None:
    """3到5月, 1-7号, 2020到2022年: one unit behind two numbers."""
    numbers = _numbers(match["low"], match["high"])
    if numbers is None:
        return None
    low, high = numbers
    if match["unit"] == "年":
        return Found((date(low, 1, 1), date(high, 12, 31)), "range") if 1900 <= low <= high <= 2100 else None
    recurring: Callable[[int], Recurring] = _of_month if match["unit"].startswith("月") else calendar.monthly
    limit = 12 if match["unit"].startswith("月") else 31
    if not (1 <= low <= limit and 1 <= high <= limit):
        return None
    if year := match.groupdict().get("in_year"):
        of_year = today.day.year + RELATIVE_YEARS[year]
        return Found(calendar.months(of_year, low, high), "range") if low <= high else None
    last = recurring(high).at_or_before(today.day)
    first = None if last is None else recurring(low).at_or_before(last[0])
    return None if first is None or last is None else Found((first[0], last[1]), "range", 0.8)


def _of_month(month: int) -> Recurring:
    return yearly(lambda year: calendar.month(year, month))


def _day_range(match: Match, today: Today) -> Found | None:
    """10月1-7日, 10月1日到7号 is left to the finder."""
    month, numbers = number(match["month"]), _numbers(match["low"], match["high"])
    if month is None or numbers is None:
        return None

    def make(year: int) -> Days | None:
        first, last = date(year, month, numbers[0]), date(year, month, numbers[1])
        return (first, last) if first <= last else None

    if match["year"]:
        of_year = number(match["year"])
        days = None if of_year is None else make(of_year)
    elif match["relative"]:
        days = make(today.day.year + RELATIVE_YEARS[match["relative"]])
    else:
        days = yearly(make).at_or_before(today.day)
    return None if days is None else Found(days, "range")


_TO = r"[ ]?(?:到|至|~|-)[ ]?"

YEAR_RULES: tuple[Rule, ...] = (
    rule(rf"{_YEAR}(?:的?(?P<inside>{INSIDE}))?", _in_a_year),
    rule(rf"(?:(?P<relative>大前年|前年|去年|今年|明年)的?|(?P<year>[12][0-9]{{3}})年)?(?P<month>{NUMBER})月"
         rf"(?P<low>{NUMBER})[号日]?{_TO}(?P<high>{NUMBER}){DAY_SIGN}", _day_range),
    rule(rf"(?P<in_year>大前年|前年|去年|今年|明年)的?(?P<low>{NUMBER})月?{_TO}(?P<high>{NUMBER})(?P<unit>月份?)"
         rf"(?![{CHARACTERS}初中底末上下])", _number_range),
)  # fmt: skip
"""Those that begin with a word for a year."""

NUMBER_YEAR_RULES: tuple[Rule, ...] = (
    *YEAR_RULES[:2],
    rule(rf"{NOT_NUMBER_BEFORE}(?P<short>[0-9]{{2}})年(?:的?(?P<inside>{INSIDE}))", _short_year),
    rule(rf"{NOT_NUMBER_BEFORE}(?P<short>[09][0-9])年(?![{CHARACTERS}前后来内多半代间以之])", _bare_short_year),
    rule(rf"{NOT_NUMBER_BEFORE}{ALONE}", _alone),
    rule(rf"{NOT_NUMBER_BEFORE}(?P<tens>[0-9]{{2}}|[12][0-9]{{3}}|[一二三四五六七八九]十)年代", _decade),
    rule(rf"{NOT_NUMBER_BEFORE}(?P<day>{NUMBER})(?=号){DAY_SIGN}", _day_of_month),
    rule(rf"{NOT_NUMBER_BEFORE}(?P<day>[0-9]{{1,2}}){DAY_SIGN}(?![内前后来])", _day_of_month),
    rule(rf"{NOT_NUMBER_BEFORE}(?P<low>{NUMBER})(?:月|年|号|日)?{_TO}(?P<high>{NUMBER})"
         rf"(?P<unit>月份?(?![{CHARACTERS}初中底末上下])|年(?![前后来内多半代])|{DAY_SIGN})", _number_range),
)  # fmt: skip
"""Those that may begin with a number."""

WORD_YEAR_RULES: tuple[Rule, ...] = (rule(ALONE, _alone),)
"""Festivals, seasons, lunar months and the like by their first character."""

FIRST_CHARACTERS = frozenset(name[0] for name in CHINESE) | frozenset(
    "大前去上今本这明下后正冬腊闰农阴旧公阳新春夏秋初仲盛深寒暑第年q"
)
