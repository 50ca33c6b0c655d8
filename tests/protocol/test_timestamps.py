"""The time format of tool results (spec 4.6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.timestamps import iso_millis

NINE = datetime(2026, 1, 5, 1, 0, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("seconds", "zone", "expected"),
    [
        (NINE + 0.123, ZoneInfo("Asia/Shanghai"), "2026-01-05T09:00:00.123+08:00"),
        (NINE, UTC, "2026-01-05T01:00:00.000+00:00"),
        (NINE, ZoneInfo("America/New_York"), "2026-01-04T20:00:00.000-05:00"),
        (NINE, ZoneInfo("America/St_Johns"), "2026-01-04T21:30:00.000-03:30"),
        (NINE, ZoneInfo("Asia/Kathmandu"), "2026-01-05T06:45:00.000+05:45"),
        (NINE + 0.9996, UTC, "2026-01-05T01:00:01.000+00:00"),
        (0, timezone(timedelta(0)), "1970-01-01T00:00:00.000+00:00"),
        (-0.5, UTC, "1969-12-31T23:59:59.500+00:00"),
    ],
)
def test_a_moment_is_written_with_milliseconds_and_offset(seconds: float, zone: tzinfo, expected: str) -> None:
    assert iso_millis(seconds, zone) == expected


@given(
    millis=st.integers(0, 4_000_000_000_000),
    zone=st.sampled_from(["UTC", "Asia/Shanghai", "Europe/Berlin", "Asia/Kolkata"]),
)
def test_the_text_names_exactly_the_moment(millis: int, zone: str) -> None:
    text = iso_millis(millis / 1000, ZoneInfo(zone))
    assert round(datetime.fromisoformat(text).timestamp() * 1000) == millis
    assert len(text) == 29
