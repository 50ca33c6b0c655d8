"""Days that have names: festivals of both calendars, lunar dates, solar terms.

lunar_python is imported inside the functions: loading its tables takes longer than the rest of the server's start.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

from app.memory.time_words.calendar import Days, easter, nth_weekday, shifted

LUNAR_YEARS = range(1800, 2200)
"""For which lunar dates are known well enough."""

LAST_MONTH = 12

SOLAR_TERMS = (
    "小寒", "大寒", "立春", "雨水", "惊蛰", "春分", "清明", "谷雨", "立夏", "小满", "芒种", "夏至",
    "小暑", "大暑", "立秋", "处暑", "白露", "秋分", "寒露", "霜降", "立冬", "小雪", "大雪", "冬至",
)  # fmt: skip
"""In the order of the year."""

WEATHER_TERMS = frozenset({"雨水", "大雪", "小雪", "霜降", "谷雨", "小满", "白露", "大寒", "小寒", "寒露"})
"""Those that mean weather or other things as well."""


def lunar_date(year: int, month: int, day: int, *, leap: bool = False) -> date | None:
    """The day of a lunar date; None when that month or day does not exist. Day 0 is the month's last day."""
    from lunar_python import LunarMonth, Solar

    if year not in LUNAR_YEARS or not 1 <= month <= LAST_MONTH:
        return None
    found: Any = LunarMonth.fromYm(year, -month if leap else month)
    if found is None or not 0 <= day <= found.getDayCount():
        return None
    solar: Any = Solar.fromJulianDay(found.getFirstJulianDay())
    return shifted(date(solar.getYear(), solar.getMonth(), solar.getDay()), (day or found.getDayCount()) - 1)


def solar_term(year: int, name: str) -> date | None:
    """The day on which a solar term begins; ``name`` is one of SOLAR_TERMS."""
    from lunar_python import Solar

    if year not in LUNAR_YEARS:
        return None
    # A table goes from the winter solstice of one year to that of the next, which has a key of its own in it.
    key = {"冬至": "DONG_ZHI"}.get(name, name)
    found: Any = Solar.fromYmd(year, 6, 1).getLunar().getJieQiTable()[key]
    return date(found.getYear(), found.getMonth(), found.getDay())


def _fixed(month: int, day: int, days: int = 1) -> Callable[[int], Days | None]:
    def make(year: int) -> Days:
        first = date(year, month, day)
        return first, shifted(first, days - 1)

    return make


def _lunar(month: int, day: int, before: int = 0, after: int = 0) -> Callable[[int], Days | None]:
    def make(year: int) -> Days | None:
        # The twelfth lunar month lies in January and February, and people count it to the year on the wall.
        found = lunar_date(year - (month == LAST_MONTH), month, day)
        return None if found is None else (shifted(found, -before), shifted(found, after))

    return make


def _eve(year: int) -> Days | None:
    """The last day of the lunar year that ends in ``year``: people count it to the year that is seen in."""
    found = lunar_date(year, 1, 1)
    return None if found is None else (shifted(found, -1), shifted(found, -1))


def _term(name: str) -> Callable[[int], Days | None]:
    def make(year: int) -> Days | None:
        found = solar_term(year, name)
        return None if found is None else (found, found)

    return make


def _weekday(month: int, weekday: int, nth: int) -> Callable[[int], Days | None]:
    def make(year: int) -> Days:
        found = nth_weekday(year, month, weekday, nth)
        return found, found

    return make


def _easter(first: int, last: int) -> Callable[[int], Days | None]:
    def make(year: int) -> Days:
        found = easter(year)
        return shifted(found, first), shifted(found, last)

    return make


CHINESE: dict[str, Callable[[int], Days | None]] = {
    "元旦": _fixed(1, 1),
    "元旦节": _fixed(1, 1),
    "情人节": _fixed(2, 14),
    "妇女节": _fixed(3, 8),
    "三八节": _fixed(3, 8),
    "植树节": _fixed(3, 12),
    "愚人节": _fixed(4, 1),
    "劳动节": _fixed(5, 1, 5),
    "五一节": _fixed(5, 1, 5),
    "五一假期": _fixed(5, 1, 5),
    "五一": _fixed(5, 1, 5),
    "青年节": _fixed(5, 4),
    "五四": _fixed(5, 4),
    "母亲节": _weekday(5, 6, 2),
    "儿童节": _fixed(6, 1),
    "六一": _fixed(6, 1),
    "六一儿童节": _fixed(6, 1),
    "父亲节": _weekday(6, 6, 3),
    "建党节": _fixed(7, 1),
    "建军节": _fixed(8, 1),
    "教师节": _fixed(9, 10),
    "国庆": _fixed(10, 1, 7),
    "国庆节": _fixed(10, 1, 7),
    "国庆日": _fixed(10, 1),
    "十一国庆": _fixed(10, 1, 7),
    "十一假期": _fixed(10, 1, 7),
    "十一长假": _fixed(10, 1, 7),
    "十一黄金周": _fixed(10, 1, 7),
    "万圣节": _fixed(10, 31),
    "万圣夜": _fixed(10, 31),
    "光棍节": _fixed(11, 11),
    "双十一": _fixed(11, 11),
    "双11": _fixed(11, 11),
    "双十二": _fixed(12, 12),
    "双12": _fixed(12, 12),
    "感恩节": _weekday(11, 3, 4),
    "平安夜": _fixed(12, 24),
    "圣诞夜": _fixed(12, 24),
    "圣诞": _fixed(12, 25),
    "圣诞节": _fixed(12, 25),
    "跨年夜": _fixed(12, 31),
    "复活节": _easter(0, 0),
    "春节": _lunar(1, 1, after=6),
    "大年初一": _lunar(1, 1),
    "大年初二": _lunar(1, 2),
    "大年初三": _lunar(1, 3),
    "大年初四": _lunar(1, 4),
    "大年初五": _lunar(1, 5),
    "大年初六": _lunar(1, 6),
    "大年初七": _lunar(1, 7),
    "过年": _lunar(1, 1, before=1, after=6),
    "除夕": _eve,
    "大年三十": _eve,
    "年三十": _eve,
    "小年夜": _lunar(12, 23),
    "元宵": _lunar(1, 15),
    "元宵节": _lunar(1, 15),
    "龙抬头": _lunar(2, 2),
    "端午": _lunar(5, 5),
    "端午节": _lunar(5, 5),
    "七夕": _lunar(7, 7),
    "七夕节": _lunar(7, 7),
    "中元节": _lunar(7, 15),
    "鬼节": _lunar(7, 15),
    "中秋": _lunar(8, 15),
    "中秋节": _lunar(8, 15),
    "重阳": _lunar(9, 9),
    "重阳节": _lunar(9, 9),
    "腊八": _lunar(12, 8),
    "腊八节": _lunar(12, 8),
    "清明节": _term("清明"),
    "寒食节": lambda year: None if (day := solar_term(year, "清明")) is None else (shifted(day, -1), shifted(day, -1)),
} | {name: _term(name) for name in SOLAR_TERMS}
"""Name -> its days in a year. Festivals with holidays have those: seven days for 春节 and 国庆, five for 五一."""

ENGLISH: dict[str, Callable[[int], Days | None]] = {
    "new year's day": _fixed(1, 1),
    "new year's eve": _fixed(12, 31),
    "new years eve": _fixed(12, 31),
    "valentine's day": _fixed(2, 14),
    "valentines day": _fixed(2, 14),
    "women's day": _fixed(3, 8),
    "st patrick's day": _fixed(3, 17),
    "april fools' day": _fixed(4, 1),
    "april fools": _fixed(4, 1),
    "good friday": _easter(-2, -2),
    "easter monday": _easter(1, 1),
    "easter sunday": _easter(0, 0),
    "easter": _easter(-2, 1),
    "may day": _fixed(5, 1),
    "mother's day": _weekday(5, 6, 2),
    "memorial day": _weekday(5, 0, -1),
    "children's day": _fixed(6, 1),
    "father's day": _weekday(6, 6, 3),
    "independence day": _fixed(7, 4),
    "fourth of july": _fixed(7, 4),
    "labor day": _weekday(9, 0, 1),
    "labour day": _fixed(5, 1),
    "national day": _fixed(10, 1, 7),
    "golden week": _fixed(10, 1, 7),
    "halloween": _fixed(10, 31),
    "singles' day": _fixed(11, 11),
    "singles day": _fixed(11, 11),
    "thanksgiving": _weekday(11, 3, 4),
    "thanksgiving day": _weekday(11, 3, 4),
    "christmas eve": _fixed(12, 24),
    "christmas day": _fixed(12, 25),
    "christmas": _fixed(12, 25),
    "xmas": _fixed(12, 25),
    "boxing day": _fixed(12, 26),
    "chinese new year": _lunar(1, 1, after=6),
    "lunar new year": _lunar(1, 1, after=6),
    "spring festival": _lunar(1, 1, after=6),
    "chinese new year's eve": _eve,
    "lantern festival": _lunar(1, 15),
    "qingming": _term("清明"),
    "tomb sweeping day": _term("清明"),
    "dragon boat festival": _lunar(5, 5),
    "qixi": _lunar(7, 7),
    "mid-autumn festival": _lunar(8, 15),
    "mid autumn festival": _lunar(8, 15),
    "mid-autumn": _lunar(8, 15),
    "moon festival": _lunar(8, 15),
    "double ninth festival": _lunar(9, 9),
    "winter solstice": _term("冬至"),
    "summer solstice": _term("夏至"),
    "spring equinox": _term("春分"),
    "autumn equinox": _term("秋分"),
}
"""Name in small letters -> its days in a year."""
