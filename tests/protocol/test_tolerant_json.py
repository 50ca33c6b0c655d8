"""JSON with comments, trailing commas and a byte-order mark (D73, P89)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.tolerant_json import MAX_ODDITIES, tolerant_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "value", "lines"),
    [
        ('{"a": 1}', {"a": 1}, []),
        ('\ufeff{"a": 1}', {"a": 1}, [1]),
        ('{"a": 1, // one\n"b": 2 /* two\nlines */ }', {"a": 1, "b": 2}, [1, 2]),
        ('{"a": [1, 2,\n ],\n}', {"a": [1, 2]}, [1, 2]),
        ('{"a": 1, /* last */ }', {"a": 1}, [1, 1]),
        ('{"a": "// no /* comment */ ,}"}', {"a": "// no /* comment */ ,}"}, []),
        (r'{"a": "\"// no", "b\\": 1}', {"a": '"// no', "b\\": 1}, []),
        ('"/*"', "/*", []),
        ("{} /* open", {}, [1]),
    ],
)
def test_what_json_does_not_have_is_passed_over_and_told_with_its_line(text: str, value: Any, lines: list[int]) -> None:
    got, odd = tolerant_json(text)
    assert got == value
    assert [oddity.line for oddity in odd] == lines


@pytest.mark.parametrize("text", ["", "{", '{"a" 1}', "[1,,2]", "[1,,]", "{} {}", "NaN", "[1] #", '{"a": 1'])
def test_other_faults_stay_faults(text: str) -> None:
    with pytest.raises(ValueError):
        tolerant_json(text)


def test_faults_are_told_where_they_are_in_the_text() -> None:
    with pytest.raises(json.JSONDecodeError) as fault:
        tolerant_json('\ufeff{ // first\n/* x */ "a" "b"}')
    assert (fault.value.lineno, fault.value.colno) == (2, 13)


@given(VALUES)
def test_true_json_means_the_same_and_is_not_odd(value: Any) -> None:
    text = json.dumps(value)
    assert tolerant_json(text) == (value, ())


def test_hostile_texts_cost_no_more_than_their_length() -> None:
    for text in ("," * 200_000, '"' * 200_001, "/*" * 100_000, "[" + ", " * 100_000, '"\\' * 100_000):
        with pytest.raises(ValueError):
            tolerant_json(text)
    assert len(tolerant_json("[]" + "//\n" * 1000)[1]) == MAX_ODDITIES
