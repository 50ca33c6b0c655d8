from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from app.prompt.dates import date_word, festival
from app.prompt.settings import PromptSettings
from tests.prompt.installation import Home


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        (date(2025, 11, 27), "乙巳蛇年十月初八"),
        (date(2025, 7, 25), "乙巳蛇年闰六月初一"),
        (date(2025, 12, 21), "乙巳蛇年冬月初二 冬至"),
        (date(2025, 11, 22), "乙巳蛇年十月初三 小雪"),
        (date(2026, 2, 16), "乙巳蛇年腊月廿九"),
        (date(2026, 2, 17), "丙午马年正月初一"),
    ],
)
def test_the_lunar_dates_of_the_spec_hold(day: date, expected: str) -> None:
    assert festival(day) == expected


def test_a_year_has_each_solar_term_once() -> None:
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(365)]
    terms = [text.split(" ")[1] for text in map(festival, days) if " " in text]
    assert "".join(terms) == (
        "小寒大寒立春雨水惊蛰春分清明谷雨立夏小满芒种夏至小暑大暑立秋处暑白露秋分寒露霜降立冬小雪大雪冬至"
    )


def test_days_without_a_term_have_no_space_at_the_end() -> None:
    assert festival(date(2026, 2, 17)) == festival(date(2026, 2, 17)).strip()


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("Asia/Shanghai", "2026/1/5 01:02:03 星期一 乙巳蛇年冬月十七 小寒"),
        ("UTC", "2026/1/4 17:02:03 星期日 乙巳蛇年冬月十六"),
        ("America/Los_Angeles", "2026/1/4 09:02:03 星期日 乙巳蛇年冬月十六"),
        ("Pacific/Kiritimati", "2026/1/5 07:02:03 星期一 乙巳蛇年冬月十七 小寒"),
    ],
)
def test_all_four_words_use_the_report_zone(home: Home, zone: str, expected: str) -> None:
    text = home.text("{{Date}} {{Time}} {{Today}} {{Festival}}", PromptSettings(zone=ZoneInfo(zone)))
    assert text == expected


def test_midnight_has_hour_zero() -> None:
    assert date_word("Time", datetime(2026, 1, 5, 0, 0, 5, tzinfo=UTC)) == "00:00:05"


def test_weekdays_have_their_chinese_names() -> None:
    monday = datetime(2026, 1, 5, tzinfo=UTC)
    words = [date_word("Today", monday + timedelta(days=number)) for number in range(7)]
    assert words == ["星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日"]


def test_only_the_exact_words_are_dates(home: Home) -> None:
    text = "{{date}} {{Dates}} {{Date }} <<Date>> {Date}"
    assert home.text(text) == text


def test_two_dates_in_one_request_are_the_same_instant(home: Home) -> None:
    expanded = home.expand([{"role": "system", "content": "{{Time}}"}, {"role": "developer", "content": "{{Time}}"}])
    assert [message["content"] for message in expanded.messages] == ["01:02:03", "01:02:03"]
