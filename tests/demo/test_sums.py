"""Arithmetic is recognised, never evaluated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.demo.sums import MAX_SUMS, find_sums


@pytest.mark.parametrize(
    ("text", "sums"),
    [
        ("what is 12*7", ["12*7"]),
        ("算一下 3.5+4", ["3.5+4"]),
        ("算一下3.5+4等于多少", ["3.5+4"]),
        ("2^10", ["2**10"]),
        ("2**10?", ["2**10"]),
        ("12 * 7 = ?", ["12*7"]),
        ("what is (1+2)*3?", ["(1+2)*3"]),
        ("a sum (12*7) in brackets", ["(12*7)"]),
        ("(what is 12*7)", ["12*7"]),
        ("-5+3", ["-5+3"]),
        ("6×7 and 84÷2", ["6*7", "84/2"]),
        ("12*7 and 3+4", ["12*7", "3+4"]),
        ("１２＊７", ["12*7"]),
        ("3 plus 4 times 2", ["3+4*2"]),
        ("84 divided by 2", ["84/2"]),
        ("12乘以7", ["12*7"]),
        ("12加7减3", ["12+7-3"]),
        ("84除以2", ["84/2"]),
        ("1,000*3", ["1000*3"]),
        ("5 x 6", ["5*6"]),
        ("24/7", ["24/7"]),
    ],
)
def test_a_sum_is_found_and_written_in_the_calculators_signs(text, sums):
    assert find_sums(text) == sums


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "there are 12 of them",
        "on 2026-01-05",
        "on 1/5/2026",
        "call 555-12-34",
        "see https://example.org/3+4/7*2",
        "a 1920x1080 screen",
        "version v1.2-3b",
        "12*",
        "__import__('os')*2",
        "))3((",
    ],
)
def test_other_texts_with_digits_are_no_sums(text):
    assert find_sums(text) == []


def test_a_message_full_of_sums_gives_a_limited_number():
    assert len(find_sums(" and ".join(f"{n}*2" for n in range(100)))) == MAX_SUMS


@pytest.mark.parametrize("text", ["(" * 50_000, "1+" * 50_000, "1" * 50_000, "1 " * 50_000, "((1+" * 20_000])
def test_a_hostile_text_is_answered(text):
    assert len(find_sums(text)) <= MAX_SUMS


@given(st.text(alphabet="0123456789+-*/^().  ax加减乘除以×÷", max_size=60))
def test_what_is_found_is_made_of_numbers_brackets_and_signs_only(text):
    for written in find_sums(text):
        assert set(written) <= set("0123456789+-*/().")
        assert written.count("(") == written.count(")")
