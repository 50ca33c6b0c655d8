"""Cron expressions of five and six fields, in the zone of the installation (spec 5.2, 5.6; P75, P76)."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.plugins.timetable import MAX_CRON_CHARS, cron_fault, next_time

SHANGHAI = ZoneInfo("Asia/Shanghai")
BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: tzinfo = SHANGHAI) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def times(expression: str, start: str, count: int, zone: tzinfo = SHANGHAI) -> list[str]:
    moment = at(start, zone)
    found = []
    for _ in range(count):
        following = next_time(expression, moment, zone)
        assert following is not None
        assert following > moment
        moment = following
        found.append(datetime.fromtimestamp(moment, zone).strftime("%a %m-%d %H:%M:%S"))
    return found


def test_p75_five_fields_with_lists_and_ranges() -> None:
    assert times("0 0,10-12 * * *", "2026-01-05T10:30:00", 3) == [
        "Mon 01-05 11:00:00",
        "Mon 01-05 12:00:00",
        "Tue 01-06 00:00:00",
    ]


def test_p75_six_fields_begin_with_the_seconds() -> None:
    assert times("*/10 * * * * *", "2026-01-05T10:30:05", 3) == [
        "Mon 01-05 10:30:10",
        "Mon 01-05 10:30:20",
        "Mon 01-05 10:30:30",
    ]


@pytest.mark.parametrize("day", ["0", "7", "SUN", "sun"])
def test_p76_sunday_is_zero_and_seven(day: str) -> None:
    assert times(f"0 8 * * {day}", "2026-01-05T00:00:00", 2) == ["Sun 01-11 08:00:00", "Sun 01-18 08:00:00"]


def test_the_hour_of_the_auth_code_is_that_of_the_zone() -> None:
    kolkata = ZoneInfo("Asia/Kolkata")
    assert times("0 * * * *", "2026-01-05T10:30:00", 1, kolkata) == ["Mon 01-05 11:00:00"]
    moment = next_time("0 * * * *", at("2026-01-05T10:30:00", kolkata), kolkata)
    assert moment is not None
    assert datetime.fromtimestamp(moment, UTC).minute == 30


def test_the_moment_itself_is_not_named_again() -> None:
    start = at("2026-01-05T10:00:00")
    assert next_time("0 * * * *", start, SHANGHAI) == start + 3600
    assert next_time("0 * * * *", start + 0.25, SHANGHAI) == start + 3600
    assert next_time("* * * * * *", start + 0.25, SHANGHAI) == start + 1


def test_a_skipped_hour_is_made_up_for_and_a_repeated_one_counts_once() -> None:
    assert times("30 2 * * *", "2026-03-28T12:00:00", 2, BERLIN) == ["Sun 03-29 03:00:00", "Mon 03-30 02:30:00"]
    assert times("30 2 * * *", "2026-10-24T12:00:00", 2, BERLIN) == ["Sun 10-25 02:30:00", "Mon 10-26 02:30:00"]


def test_in_a_repeated_hour_no_time_before_now_is_named() -> None:
    now = datetime(2026, 10, 25, 2, 10, tzinfo=BERLIN, fold=1).timestamp()
    following = next_time("0,30 2 * * *", now, BERLIN)
    assert following == at("2026-10-26T02:00:00", BERLIN)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("nonsense", "5 fields"),
        ("", "5 fields"),
        ("* * * *", "not 4"),
        ("* * * * * * *", "not 7"),
        ("61 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("0 8 * * 8", "bad day-of-week"),
        ("*/0 * * * *", "bad minute"),
        ("10-5 * * * *", "bad minute"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 30 2 1-5,30", "bad day-of-week"),
        ("9" * 5000 + " * * * *", "characters"),
        ("é ² ٣ * *", "bad"),
        (f"{','.join('0' * 100)} * * * *", "characters"),
    ],
)
def test_p75_nonsense_is_named(expression: str, said: str) -> None:
    assert said in cron_fault(expression)


FIELDS = st.text(alphabet="0123456789*/-,#LWMONSUNJAN²", min_size=1, max_size=5)


@given(st.lists(FIELDS, min_size=5, max_size=6).map(" ".join) | st.text(max_size=30))
@example("1#1/2 * * * *")
@example("0 0 L/2 * *")
@example("0 0 * * 1L/2")
@example("0 0 * * L")
@example("0 0 31 2,4 *")
@example("0 0 LW * *")
@example("0 0 29 2 *")
@example("0 0 29 2 MON#5")
def test_any_text_is_either_named_or_usable(expression: str) -> None:
    if not cron_fault(expression):
        now = at("2026-01-05T10:30:05")
        following = next_time(expression, now, SHANGHAI)
        assert following is None or following > now


def test_a_long_expression_within_the_limit_is_fine() -> None:
    assert cron_fault(f"{','.join(str(n) for n in range(60))} * * * *") == ""
    assert MAX_CRON_CHARS < 1000
