"""Points in time: what is read, in which zone, and what is refused (spec 1.9, 7.1, 7.2)."""

from __future__ import annotations

import contextlib
import datetime
import math
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.schedule.times import local_time, parse_time, spoken_time

SHANGHAI = ZoneInfo("Asia/Shanghai")
BERLIN = ZoneInfo("Europe/Berlin")
EIGHT = "2026-01-05T08:00:00+08:00"
"""In Shanghai; 1,767,571,200 seconds after the epoch."""


@pytest.mark.parametrize(
    "written",
    [
        "2026-01-05T08:00:00+08:00",
        "2026-01-05T00:00:00Z",
        "2026-01-05T00:00:00.000Z",
        "2026-01-05T08:00+0800",
        "2026-01-05T08:00",
        "2026-01-05 08:00:00",
        " 2026-01-05 8:00 ",
        "2026-1-5-8:00",
        "2026-01-05-08:00:00",
        "2026/1/5/8:00",
        "2026/1/5 8:00",
        "2026.1.5.8:00",
        "2026.01.05 08:00",
        "2026-1-5 8:00 am",
        "2026-01-05T02:00:00.000+02:00",
        "2026-01-05T00:00:00 UTC",
        "2026-01-04T24:00:00Z",
        "1/5/2026, 8:00:00 AM",
        "01/05/2026 08:00",
        "Mon Jan 05 2026 08:00:00 GMT+0800 (China Standard Time)",
        "Mon, 05 Jan 2026 00:00:00 GMT",
        "Jan 5, 2026 8:00 AM",
        "January 5th, 2026 at 8:00 AM",
        "5 January 2026 08:00",
        "5-Jan-2026 08:00",
        "2026年1月5日 08:00",
        "2026年1月5日8点",
        "2026年1月5日上午8时00分",
        "２０２６－０１－０５　０８：００",
        1_767_571_200_000,
        1_767_571_200_000.0,
    ],
)
def test_what_a_browser_a_model_or_a_person_writes_is_read(written: Any) -> None:
    assert parse_time(written, SHANGHAI) == 1_767_571_200
    assert local_time(parse_time(written, SHANGHAI), SHANGHAI) == EIGHT


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("2026-01-05", "2026-01-05T00:00:00+08:00"),
        ("2026年1月5日", "2026-01-05T00:00:00+08:00"),
        ("Jan 5 2026", "2026-01-05T00:00:00+08:00"),
        ("1/5/2026 12:30 AM", "2026-01-05T00:30:00+08:00"),
        ("1/5/2026 12:30 PM", "2026-01-05T12:30:00+08:00"),
        ("2026年1月5日下午3点30分", "2026-01-05T15:30:00+08:00"),
        ("2028-02-29 10:00", "2028-02-29T10:00:00+08:00"),
        ("9999-12-28 23:59:59", "9999-12-28T23:59:59+08:00"),
        ("0001-01-04", "0001-01-04T00:00:00+08:05:43"),
        ("2026-01-05T08:00:00.999", EIGHT),
    ],
)
def test_times_without_an_offset_are_those_of_the_zone(written: str, means: str) -> None:
    assert local_time(parse_time(written, SHANGHAI), SHANGHAI) == means


@pytest.mark.parametrize(
    "written",
    [
        "2026-02-30 10:00",
        "2026-2-29-8:00",
        "2026-13-01-08:00",
        "2026-00-10 08:00",
        "2026-01-00 08:00",
        "2026-01-05 24:01",
        "2026-01-05 25:00",
        "2026-01-05 08:60",
        "2026-01-05 08:00:60",
        "31/12/2026 08:00",
        "1/5/2026 13:00 PM",
        "1/5/2026 0:00 AM",
        "Foo 5, 2026 08:00",
        "Ju 5, 2026 08:00",
        "Foo, 5 Jan 2026 08:00",
        "Feb 30, 2026",
        "2026-01-05T08:00:00+99:00",
        "2026-01-05T08:00:00+08:75",
        "9999-12-31T23:59:59-12:00",
        "9999-12-30",
        "0001-01-01T00:00:00+08:00",
        "0000-01-01",
        "2026",
        "2026-01",
        "08:00",
        "tomorrow",
        "in 5 minutes",
        "1767571200000",
        "2026-01-05 08:00 nonsense",
        "2026-01-0508:00",
        "",
        "x" * 10_000,
        "1" * 101,
        "2026-01-05T08:00:00\x00",
        "٢٠٢٦-٠١-٠٥",
        None,
        True,
        [],
        {},
        math.nan,
        math.inf,
        -math.inf,
        10**30,
        10**400,
    ],
)
def test_days_that_no_calendar_has_and_all_other_words_are_refused(written: Any) -> None:
    with pytest.raises(ValueError, match=r"point in time|beyond|is no|must be|out of range|hours|minutes"):
        parse_time(written, SHANGHAI)


def test_a_time_that_the_clocks_skip_is_moved_on_and_one_that_comes_twice_is_the_first() -> None:
    assert local_time(parse_time("2026-03-29 02:30", BERLIN), BERLIN) == "2026-03-29T03:30:00+02:00"
    assert local_time(parse_time("2026-10-25 02:30", BERLIN), BERLIN) == "2026-10-25T02:30:00+02:00"


@given(st.integers(min_value=0, max_value=250_000_000_000), st.sampled_from([SHANGHAI, BERLIN, datetime.UTC]))
def test_what_is_written_is_read_as_the_same_second(seconds: int, zone: datetime.tzinfo) -> None:
    assert parse_time(local_time(seconds, zone), SHANGHAI) == seconds


@given(st.text(max_size=120))
def test_no_text_gives_any_other_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_time(text, SHANGHAI)


def test_people_read_a_time_without_its_offset() -> None:
    assert spoken_time(1_767_571_200.9, SHANGHAI) == "2026-01-05 08:00:00"
