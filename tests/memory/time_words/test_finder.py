"""Time words in text (memory.md 4.2; vectors 10.4; 11.14; D18)."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.time_words import MAX_SPANS, TimeSpan, WeekStart, find_time_spans
from tests.growth import grows_in_proportion

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOW = datetime(2025, 11, 27, 15, 30, tzinfo=SHANGHAI)
"""A Thursday; the clock of the vectors."""

SENTENCES = Path(__file__).with_name("sentences.txt").read_text("utf-8").splitlines()


def shown(span: TimeSpan) -> str:
    """``first..last hours S F``: S for soft, F for future; a single day once."""
    days = f"{span.first}" if span.first == span.last else f"{span.first}..{span.last}"
    hours = f" {span.hours[0]}-{span.hours[1]}" if span.hours else ""
    return days + hours + (" S" if span.soft else "") + (" F" if span.future else "")


def days(text: str, now: datetime = NOW, week_start: WeekStart = "monday") -> list[str]:
    return [shown(span) for span in find_time_spans(text, now, week_start=week_start)]


@pytest.mark.parametrize(
    ("number", "text", "expected"),
    [
        ("T1", "昨天", ["2025-11-26"]),
        ("T2", "大前天和前天", ["2025-11-24", "2025-11-25"]),
        ("T3", "最近", ["2025-11-21..2025-11-27 S"]),
        ("T4", "上周", ["2025-11-17..2025-11-23"]),
        ("T5", "上周五", ["2025-11-21"]),
        ("T6", "上周五和昨天", ["2025-11-21", "2025-11-26"]),
        ("T7", "本周", ["2025-11-24..2025-11-30"]),
        ("T8", "上个月末", ["2025-10-21..2025-10-31"]),
        ("T9", "三个月前", ["2025-08-01..2025-08-31"]),
        ("T10", "我们上周以及三个月前聊了什么", ["2025-11-17..2025-11-23", "2025-08-01..2025-08-31"]),
        ("T11", "3天前和5天前", ["2025-11-24", "2025-11-22"]),
        ("T12", "十五天前", ["2025-11-12"]),
        ("T13", "两周前", ["2025-11-10..2025-11-16"]),
        ("T14", "三个月之前的事", ["2025-08-01..2025-08-31"]),
        ("T15", "本月初", ["2025-11-01..2025-11-10"]),
        ("T16", "上上周", ["2025-11-10..2025-11-16"]),
        ("T17", "去年", ["2024-01-01..2024-12-31"]),
        ("T17", "半年前", ["2025-05-01..2025-05-31"]),
        ("T17", "上星期", ["2025-11-17..2025-11-23"]),
        ("T17", "10月1日", ["2025-10-01"]),
        ("T18", "yesterday and 3 days ago", ["2025-11-26", "2025-11-24"]),
        ("T19", "明天", ["2025-11-28 F"]),
        ("T20", "没有时间词的一句话", []),
    ],
)
def test_vectors_t1_to_t20_have_our_results(number: str, text: str, expected: list[str]) -> None:
    assert days(text) == expected, number


@pytest.mark.parametrize("line", [line for line in SENTENCES if line and not line.startswith("#")])
def test_what_people_say_means_what_they_mean(line: str) -> None:
    text, _, expected = line.partition("|")
    assert ";".join(days(text)) == expected


def test_weeks_begin_on_monday_d18_and_on_sunday_when_wanted() -> None:
    assert days("上周") == ["2025-11-17..2025-11-23"]
    assert days("上周", week_start="sunday") == ["2025-11-16..2025-11-22"]
    assert days("本周", week_start="sunday") == ["2025-11-23..2025-11-29"]
    assert days("上周日", week_start="sunday") == ["2025-11-16"]
    assert days("two weeks ago", week_start="sunday") == ["2025-11-09..2025-11-15"]


def test_on_a_sunday_the_week_is_the_one_that_ends() -> None:
    sunday = datetime(2025, 11, 30, 0, 5, tzinfo=SHANGHAI)
    assert days("本周", sunday) == ["2025-11-24..2025-11-30"]
    assert days("上周", sunday) == ["2025-11-17..2025-11-23"]
    assert days("周末", sunday) == ["2025-11-29..2025-11-30"]
    assert days("周日", sunday) == ["2025-11-23"]


@pytest.mark.parametrize(
    ("now", "text", "expected"),
    [
        (datetime(2026, 1, 10, tzinfo=SHANGHAI), "去年冬天", "2024-12-01..2025-02-28"),
        (datetime(2026, 1, 10, tzinfo=SHANGHAI), "今年冬天", "2025-12-01..2026-02-28"),
        (datetime(2026, 4, 10, tzinfo=SHANGHAI), "去年冬天", "2025-12-01..2026-02-28"),
        (datetime(2026, 1, 10, tzinfo=SHANGHAI), "上个月", "2025-12-01..2025-12-31"),
        (datetime(2026, 1, 10, tzinfo=SHANGHAI), "12月25日", "2025-12-25"),
        (datetime(2026, 1, 10, tzinfo=SHANGHAI), "12月到1月", "2025-12-01..2026-01-31"),
        (datetime(2026, 1, 10, tzinfo=SHANGHAI), "月底", "2025-12-21..2025-12-31"),
        (datetime(2026, 1, 10, tzinfo=SHANGHAI), "下半年", "2025-07-01..2025-12-31"),
        (datetime(2024, 2, 29, tzinfo=SHANGHAI), "去年今天", "2023-02-28"),
        (datetime(2024, 3, 31, tzinfo=SHANGHAI), "一个月前", "2024-02-01..2024-02-29"),
        (datetime(2025, 3, 31, tzinfo=SHANGHAI), "近一个月", "2025-02-28..2025-03-31"),
        (datetime(2025, 3, 1, tzinfo=SHANGHAI), "2月29日", "2024-02-29"),
        (datetime(1904, 1, 1, tzinfo=SHANGHAI), "2月29日", "1896-02-29"),
        (datetime(2025, 1, 31, tzinfo=SHANGHAI), "31号", "2025-01-31"),
        (datetime(2025, 3, 1, tzinfo=SHANGHAI), "30号", "2025-01-30"),
        (datetime(2025, 1, 15, tzinfo=SHANGHAI), "春节", "2024-02-10..2024-02-16"),
        (datetime(2025, 1, 15, tzinfo=SHANGHAI), "今年春节", "2025-01-29..2025-02-04 F"),
        (datetime(2025, 10, 3, tzinfo=SHANGHAI), "国庆", "2025-10-01..2025-10-07"),
    ],
)
def test_turns_of_months_and_years_are_met(now: datetime, text: str, expected: str) -> None:
    assert days(text, now) == [expected]


def test_the_day_is_that_of_the_zone_not_of_utc() -> None:
    late = datetime(2025, 11, 26, 17, 0, tzinfo=ZoneInfo("UTC"))
    assert days("今天", late) == ["2025-11-26"]
    assert days("今天", late.astimezone(SHANGHAI)) == ["2025-11-27"]


def test_start_and_end_are_moments_of_the_zone() -> None:
    (span,) = find_time_spans("上周", NOW)
    assert span.start.isoformat() == "2025-11-17T00:00:00+08:00"
    assert span.end.isoformat(timespec="milliseconds") == "2025-11-23T23:59:59.999+08:00"
    assert span.days == 7


def test_offsets_point_at_the_words_as_they_were_written() -> None:
    text = "請問上個週五、Ｌast Ｍonday 與２０２４年３月 的事"
    assert [text[span.text_start : span.text_end] for span in find_time_spans(text, NOW)] == [
        "上個週五",
        "Ｌast Ｍonday",
        "２０２４年３月",
    ]


def test_full_width_letters_and_old_forms_read_like_others() -> None:
    assert days("Ｌast Ｍonday") == ["2025-11-24"]
    assert days("後天") == days("后天")


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        find_time_spans("今天", datetime(2025, 11, 27))


def test_more_spans_than_the_limit_are_not_read() -> None:
    assert len(find_time_spans("昨天，" * (MAX_SPANS + 20), NOW)) == MAX_SPANS


HOSTILE = {
    "numerals": "一二三",
    "counts": "三天三个月五年",
    "ups": "上上上",
    "invalid lunar dates": "闰正月三十，",
    "invalid dates": "2月30日，",
    "digits": "20251",
    "dots": "1.1.1.",
    "words": "last last the end of ",
    "numbers in words": "twenty-one or two and a half ",
    "between": "between from between to ",
    "signs": "--~~到至",
    "one letter": "a",
    "months": "may march ",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_time_in_proportion_to_its_length(name: str) -> None:
    def find(size: int) -> None:
        find_time_spans((HOSTILE[name] * (size // len(HOSTILE[name]) + 1))[:size], NOW)

    find(1)
    assert grows_in_proportion(find, 4_000)


ZONES = st.sampled_from([ZoneInfo("UTC"), SHANGHAI, ZoneInfo("America/New_York"), ZoneInfo("Pacific/Apia")])
MOMENTS = st.builds(
    lambda moment, zone: moment.replace(tzinfo=zone), st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)), ZONES
)
PIECES = st.sampled_from(
    [text for line in SENTENCES if line and not line.startswith("#") for text in (line.partition("|")[0],)]
    + [
        "到",
        "-",
        "~",
        "和",
        "的",
        "之前",
        "以来",
        "前",
        "后",
        "三",
        "九千九百九十九",
        "闰",
        "农历",
        "日",
        "月",
        "年",
        "周",
    ]
    + [" to ", " and ", "from ", "between ", "since ", "ago", "last ", "1", "31", "2025", "。", "\n", "\x00", "\ud800"]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=8).map("".join)


@given(TEXTS, MOMENTS, st.sampled_from(["monday", "sunday"]))
def test_spans_are_in_order_apart_and_not_empty_whatever_the_text(
    text: str, now: datetime, week_start: WeekStart
) -> None:
    spans = find_time_spans(text, now, week_start=week_start)
    assert spans == find_time_spans(text, now, week_start=week_start), "a pure function of text and now"
    end = 0
    for span in spans:
        assert end <= span.text_start < span.text_end <= len(text)
        end = span.text_end
        assert span.first <= span.last
        assert span.start <= span.end
        assert 0 < span.confidence <= 1
        assert span.hours is None or 0 <= span.hours[0] < span.hours[1] <= 24


@given(TEXTS, MOMENTS)
def test_no_range_ends_after_today_unless_the_words_say_so(text: str, now: datetime) -> None:
    today = now.date()
    for span in find_time_spans(text, now):
        if span.last > today and not span.future:
            assert span.first <= today, "a named unit that is going on"
            assert not span.soft


@given(st.integers(1, 9999))
def test_days_ago_are_counted_up_to_9999(number: int) -> None:
    (span,) = find_time_spans(f"{number}天前", NOW)
    assert (span.first, span.last) == (NOW.date() - timedelta(days=number),) * 2


@given(st.dates(date(1900, 1, 1), date(2199, 12, 31)))
def test_every_way_to_write_a_day_gives_that_day(day: date) -> None:
    for text in (f"{day:%Y-%m-%d}", f"{day.year}年{day.month}月{day.day}日", f"{day.year}/{day.month}/{day.day}"):
        (span,) = find_time_spans(text, NOW)
        assert (span.first, span.last) == (day, day), text
