"""The time words of the setting ``n2025``, faults included (memory.md 4.1; vectors 10.4, column N)."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.time_words import find_time_spans_n2025

NOW = datetime(2025, 11, 27, 15, 30, tzinfo=ZoneInfo("Asia/Shanghai"))


def days(text: str, now: datetime = NOW) -> list[str]:
    return [
        f"{span.first:%m-%d}" if span.first == span.last else f"{span.first:%m-%d}..{span.last:%m-%d}"
        for span in find_time_spans_n2025(text, now)
    ]


@pytest.mark.parametrize(
    ("number", "text", "expected"),
    [
        ("T1", "昨天", ["11-26"]),
        ("T2", "大前天和前天", ["11-24", "11-25"]),
        ("T3", "最近", ["11-22"]),
        ("T4", "上周", ["11-16..11-22"]),
        ("T5", "上周五", ["11-16..11-22"]),
        ("T6", "上周五和昨天", ["11-26", "11-16..11-22"]),
        ("T7", "本周", ["11-23..11-29"]),
        ("T8", "上个月末", ["10-21..10-31"]),
        ("T9", "三个月前", ["08-01..08-31"]),
        ("T10", "我们上周以及三个月前聊了什么", ["11-16..11-22", "08-01..08-31"]),
        ("T11", "3天前和5天前", ["11-24"]),
        ("T12", "十五天前", ["11-22"]),
        ("T13", "两周前", []),
        ("T14", "三个月之前的事", ["11-24"]),
        ("T15", "本月初", ["11-01..11-30"]),
        ("T16", "上上周", ["11-16..11-22"]),
        ("T17", "去年", []),
        ("T17", "半年前", []),
        ("T17", "上星期", []),
        ("T17", "10月1日", []),
        ("T18", "yesterday and 3 days ago", []),
        ("T19", "明天", []),
        ("T20", "没有时间词的一句话", []),
    ],
)
def test_vectors_t1_to_t20_have_the_results_of_n(number: str, text: str, expected: list[str]) -> None:
    assert days(text) == expected, number


def test_phrases_are_found_once_and_equal_ranges_are_given_once() -> None:
    assert days("昨天昨天1天前") == ["11-26"]
    assert days("前几天最近") == ["11-22"]


def test_further_rows_of_the_table() -> None:
    assert days("近期") == ["11-20"]
    assert days("前一阵子") == ["11-12"]
    assert days("上个月初") == ["10-01..10-10"]
    assert days("月初") == ["11-01..11-10"]
    assert days("2周前") == ["11-09..11-15"]
    assert days("二十天前") == ["11-17"]


def test_offsets_are_those_of_the_text_as_it_was() -> None:
    text = "大前天和昨天以及3天前"
    assert [text[span.text_start : span.text_end] for span in find_time_spans_n2025(text, NOW)] == ["大前天", "昨天"]


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        find_time_spans_n2025("今天", NOW.replace(tzinfo=None))


@given(st.text("0123456789一三十天周个月上前大之昨最近 末", max_size=40), st.integers(-700_000, 2_000_000))
def test_nothing_in_a_text_makes_it_raise(text: str, away: int) -> None:
    now = NOW + timedelta(days=max(-730_000, min(away, 2_900_000)))
    for span in find_time_spans_n2025(text, now):
        assert span.first <= span.last
        assert 0 <= span.text_start < span.text_end <= len(text)
