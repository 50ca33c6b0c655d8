"""Numbers in time words (memory.md 4.2: Chinese numerals up to 9999)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.time_words.numerals import count, english_number, number


def written(value: int) -> str:
    """A number in Chinese, as people write it."""
    text, gap = "", False
    for unit, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = value // unit % 10
        if digit:
            text += ("零" if gap and text else "") + "一二三四五六七八九"[digit - 1] + name
        gap = not digit
    return text.removeprefix("一") if 10 <= value < 20 else text


@given(st.integers(1, 9999))
def test_every_numeral_up_to_9999_is_read(value: int) -> None:
    assert number(written(value)) == value
    assert number(str(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("两", 2), ("俩", 2), ("仨", 3), ("十", 10), ("廿", 20), ("廿五", 25),
        ("卅", 30), ("卅一", 31), ("一百二", 120), ("两百", 200), ("一百零二", 102), ("一千五", 1500),
        ("二〇二五", 2025), ("二零二五", 2025), ("一百一十五", 115), ("〇", 0), ("一百十五", None), ("十十", None),
        ("百", None), ("零十", None), ("十百", None), ("三百百", None), ("12345", None), ("", None),
        ("一二三四五六七八九一二三四", None), ("三x", None), ("廿廿", None), ("十廿", None),
    ],
)  # fmt: skip
def test_numerals_that_are_special_or_none(text: str, value: int | None) -> None:
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "least_most"),
    [
        ("三", (3, 3)), ("两三", (2, 3)), ("三五", (3, 5)), ("七八", (7, 8)), ("十几", (10, 19)), ("二十多", (20, 29)),
        ("十来", (8, 12)), ("几", (3, 9)), ("几十", (20, 99)), ("五三", (53, 53)), ("十五", (15, 15)), ("x", None),
    ],
)  # fmt: skip
def test_counts_that_are_only_about_right(text: str, least_most: tuple[int, int] | None) -> None:
    assert count(text) == least_most


@given(st.text(max_size=14))
def test_no_text_makes_the_readers_raise(text: str) -> None:
    number(text)
    count(text)
    english_number(text)


def test_english_numbers_in_words_and_digits() -> None:
    words = ["a", "an", "one", "nineteen", "twenty", "twenty-one", "ninety nine", "42", "abc"]
    assert [english_number(word) for word in words] == [1, 1, 1, 19, 20, 21, 99, 42, None]
