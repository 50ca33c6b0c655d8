"""Words for a day or a stretch of days, seen from ``now``: what a question says, and the days that it means.

Made from the calendar alone, apart from the server's own parser of such words, so that the one can judge the other.
Weeks start on Monday.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import date, timedelta

DIGITS = "零一二三四五六七八九十"
WEEKDAYS = "一二三四五六日"
ENGLISH_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ENGLISH_MONTHS = tuple(calendar.month_name)
ENGLISH_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
FESTIVALS = {
    "元旦": (date(2024, 1, 1), date(2025, 1, 1)),
    "春节": (date(2024, 2, 10), date(2025, 1, 29)),
    "端午": (date(2024, 6, 10), date(2025, 5, 31)),
    "中秋": (date(2024, 9, 17), date(2025, 10, 6)),
    "国庆": (date(2024, 10, 1), date(2025, 10, 1)),
}
SEASONS = {"春天": (3, 5), "夏天": (6, 8), "秋天": (9, 11)}


@dataclass(frozen=True, slots=True)
class TimePhrase:
    """Words, and the first and the last day that they mean."""

    words: str
    first: date
    last: date
    english: bool = False

    @property
    def days(self) -> int:
        """How many days it covers."""
        return (self.last - self.first).days + 1


def chinese(number: int) -> str:
    """1 to 99 in Chinese numerals."""
    if number <= 10:
        return DIGITS[number]
    tens, ones = divmod(number, 10)
    return ("" if tens == 1 else DIGITS[tens]) + "十" + (DIGITS[ones] if ones else "")


def _counted(number: int) -> str:
    return "两" if number == 2 else chinese(number)


def _month(year: int, month: int) -> tuple[date, date]:
    return date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1])


def phrases(day: date, today: date) -> list[TimePhrase]:
    """All ways known here to speak of this past day or of the stretch it lies in."""
    found = _of_days(day, today) + _of_weeks(day, today) + _of_months(day, today) + _of_years(day, today)
    return [phrase for phrase in found if phrase.first <= day <= phrase.last and phrase.last <= today]


def _of_days(day: date, today: date) -> list[TimePhrase]:
    ago = (today - day).days
    found = [TimePhrase(f"{day.year}年{day.month}月{day.day}日", day, day), TimePhrase(day.isoformat(), day, day)]
    found.append(TimePhrase(f"on {ENGLISH_MONTHS[day.month]} {day.day}, {day.year}", day, day, english=True))
    names = {1: ("昨天", "yesterday"), 2: ("前天", "the day before yesterday"), 3: ("大前天", "three days ago")}
    if ago in names:
        found += [TimePhrase(names[ago][0], day, day), TimePhrase(names[ago][1], day, day, english=True)]
    if 3 <= ago <= 30:
        found += [TimePhrase(f"{ago}天前", day, day), TimePhrase(f"{_counted(ago)}天前", day, day)]
        found.append(TimePhrase(f"{ago} days ago", day, day, english=True))
    if day.year == today.year:
        found += [
            TimePhrase(f"{day.month}月{day.day}号", day, day),
            TimePhrase(f"今年{day.month}月{day.day}日", day, day),
        ]
    elif day.year == today.year - 1:
        found.append(TimePhrase(f"去年{day.month}月{day.day}号", day, day))
    for name, days in FESTIVALS.items():
        if day in days and 0 <= today.year - day.year <= 1:
            found.append(TimePhrase(("今年" if day.year == today.year else "去年") + name + "那天", day, day))
    return found


def _of_weeks(day: date, today: date) -> list[TimePhrase]:
    monday = day - timedelta(days=day.weekday())
    weeks = ((today - timedelta(days=today.weekday())) - monday).days // 7
    sunday = monday + timedelta(days=6)
    name = WEEKDAYS[day.weekday()]
    english = ENGLISH_WEEKDAYS[day.weekday()]
    found: list[TimePhrase] = []
    if weeks == 0 and day < today:
        found += [TimePhrase(f"这周{name}", day, day), TimePhrase(f"本周{name}", day, day)]
    if weeks == 1:
        found += [TimePhrase("上周", monday, sunday), TimePhrase("上星期", monday, sunday)]
        found += [TimePhrase(f"上周{name}", day, day), TimePhrase(f"上星期{name}", day, day)]
        found += [TimePhrase("last week", monday, sunday, english=True)]
        if day.weekday() >= 5:
            found.append(TimePhrase("上周末", monday + timedelta(days=5), sunday))
    if weeks == 2:
        found += [TimePhrase("上上周", monday, sunday), TimePhrase(f"上上周{name}", day, day)]
    if 2 <= weeks <= 4:
        found.append(TimePhrase(f"{_counted(weeks)}周前", monday, sunday))
        found.append(TimePhrase(f"{ENGLISH_NUMBERS[weeks]} weeks ago", monday, sunday, english=True))
    if weeks == 1 and (today - day).days > 7:
        found.append(TimePhrase(f"on {english} of last week", day, day, english=True))
    return found


def _of_months(day: date, today: date) -> list[TimePhrase]:
    first, last = _month(day.year, day.month)
    ago = (today.year - day.year) * 12 + today.month - day.month
    thirds = ((1, 10, "初", "上旬"), (11, 20, "中", "中旬"), (21, last.day, "底", "下旬"))
    low, high, short, long = next(third for third in thirds if third[0] <= day.day <= third[1])
    begin, end = day.replace(day=low), day.replace(day=high)
    found: list[TimePhrase] = []
    if ago == 0:
        found.append(TimePhrase(f"本月{short}", begin, end))
    if ago == 1:
        found += [TimePhrase("上个月", first, last), TimePhrase("last month", first, last, english=True)]
        found += [TimePhrase(f"上个月{short}", begin, end), TimePhrase(f"上月{long}", begin, end)]
    if ago == 2:
        found.append(TimePhrase("上上个月", first, last))
    if 2 <= ago <= 11:
        found += [TimePhrase(f"{_counted(ago)}个月前", first, last)]
        if ago <= 10:
            found.append(TimePhrase(f"{ENGLISH_NUMBERS[ago]} months ago", first, last, english=True))
    if ago == 6:
        found.append(TimePhrase("半年前", first, last))
    if ago > 0 and day.year == today.year:
        found += [TimePhrase(f"{day.month}月{short}", begin, end), TimePhrase(f"今年{day.month}月", first, last)]
        found.append(TimePhrase(f"{chinese(day.month)}月份", first, last))
        found.append(TimePhrase(f"in {ENGLISH_MONTHS[day.month]}", first, last, english=True))
    if day.year == today.year - 1:
        found += [TimePhrase(f"去年{day.month}月", first, last), TimePhrase(f"去年{day.month}月{short}", begin, end)]
        found.append(TimePhrase(f"in {ENGLISH_MONTHS[day.month]} {day.year}", first, last, english=True))
        found.append(TimePhrase(f"in {ENGLISH_MONTHS[day.month]} last year", first, last, english=True))
    found.append(TimePhrase(f"{day.year}年{day.month}月", first, last))
    return found


def _of_years(day: date, today: date) -> list[TimePhrase]:
    found: list[TimePhrase] = []
    word = {0: "今年", 1: "去年", 2: "前年"}.get(today.year - day.year)
    if word is None:
        return found
    for name, (begin, end) in SEASONS.items():
        if begin <= day.month <= end:
            span = (date(day.year, begin, 1), _month(day.year, end)[1])
            found.append(TimePhrase(word + name, *span))
            if name == "夏天" and word == "去年":
                found.append(TimePhrase(f"in the summer of {day.year}", *span, english=True))
    quarter = (day.month - 1) // 3
    span = (date(day.year, 3 * quarter + 1, 1), _month(day.year, 3 * quarter + 3)[1])
    found.append(TimePhrase(f"{word}第{DIGITS[quarter + 1]}季度", *span))
    if word == "今年":
        found.append(TimePhrase(f"in Q{quarter + 1}", *span, english=True))
    half = (
        (date(day.year, 1, 1), date(day.year, 6, 30))
        if day.month <= 6
        else (date(day.year, 7, 1), date(day.year, 12, 31))
    )
    found.append(TimePhrase(word + ("上半年" if day.month <= 6 else "下半年"), *half))
    if word != "今年":
        found.append(TimePhrase(word, date(day.year, 1, 1), date(day.year, 12, 31)))
    return found
