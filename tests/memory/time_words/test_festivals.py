"""Lunar dates, festivals and solar terms (memory.md 4.2), against known dates."""

from __future__ import annotations

from datetime import date

import pytest

from app.memory.time_words.festivals import CHINESE, ENGLISH, LUNAR_YEARS, SOLAR_TERMS, lunar_date, solar_term


@pytest.mark.parametrize(
    ("name", "year", "first"),
    [
        ("春节", 2023, date(2023, 1, 22)), ("春节", 2024, date(2024, 2, 10)), ("春节", 2026, date(2026, 2, 17)),
        ("除夕", 2024, date(2024, 2, 9)), ("元宵节", 2024, date(2024, 2, 24)), ("端午", 2024, date(2024, 6, 10)),
        ("七夕", 2023, date(2023, 8, 22)), ("中秋", 2023, date(2023, 9, 29)), ("重阳", 2024, date(2024, 10, 11)),
        ("腊八", 2025, date(2025, 1, 7)), ("清明", 2024, date(2024, 4, 4)), ("冬至", 2024, date(2024, 12, 21)),
        ("母亲节", 2024, date(2024, 5, 12)), ("父亲节", 2024, date(2024, 6, 16)), ("感恩节", 2024, date(2024, 11, 28)),
    ],
)  # fmt: skip
def test_chinese_festivals_are_where_the_calendar_has_them(name: str, year: int, first: date) -> None:
    days = CHINESE[name](year)
    assert days is not None
    assert days[0] == first


@pytest.mark.parametrize(
    ("name", "year", "first"),
    [
        ("easter sunday", 2024, date(2024, 3, 31)), ("easter sunday", 2025, date(2025, 4, 20)),
        ("good friday", 2025, date(2025, 4, 18)), ("memorial day", 2025, date(2025, 5, 26)),
        ("labor day", 2025, date(2025, 9, 1)), ("thanksgiving", 2025, date(2025, 11, 27)),
    ],
)  # fmt: skip
def test_english_festivals_are_where_the_calendar_has_them(name: str, year: int, first: date) -> None:
    days = ENGLISH[name](year)
    assert days is not None
    assert days[0] == first


def test_leap_months_and_days_that_do_not_exist() -> None:
    assert lunar_date(2025, 6, 1, leap=True) == date(2025, 7, 25)
    assert lunar_date(2025, 5, 1, leap=True) is None
    assert lunar_date(2025, 12, 30) is None, "that month has 29 days"
    assert lunar_date(2025, 12, 0) == date(2026, 2, 16)
    assert lunar_date(2025, 13, 1) is None
    assert lunar_date(LUNAR_YEARS.stop, 1, 1) is None


def test_solar_terms_come_in_the_order_of_the_year() -> None:
    days = [solar_term(2025, name) for name in SOLAR_TERMS]
    assert days == sorted(day for day in days if day)
    assert days[0] == date(2025, 1, 5)
    assert days[-1] == date(2025, 12, 21)


@pytest.mark.parametrize("names", [CHINESE, ENGLISH])
def test_every_named_day_of_a_year_lies_in_it(names: dict[str, object]) -> None:
    for make in names.values():
        days = make(2025)  # type: ignore[operator]
        assert days is not None
        assert days[0].year == 2025
        assert days[0] <= days[1]
