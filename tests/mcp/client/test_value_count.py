"""Counting the values of JSON without parsing it (P94: memory stays bounded)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.mcp.client.value_count import MAX_VALUES, UNCOUNTED_BYTES, EventCount, ValueCount, has_too_many_values

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='",[{\\x\n'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='",[{\\x'), inner),
    max_leaves=20,
)


@given(ANY_JSON, st.integers(1, 7))
def test_wherever_the_text_is_cut_only_commas_and_brackets_outside_of_strings_count(value: Any, size: int) -> None:
    text = json.dumps([value]).encode()
    count = ValueCount()
    for begin in range(0, len(text), size):
        count.feed(text[begin : begin + size])
    commas = json.dumps(_without_texts([value])).encode()
    assert count.values == commas.count(b",") + commas.count(b"[") + commas.count(b"{")


def _without_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(number): _without_texts(one) for number, one in enumerate(value.values())}
    if isinstance(value, list):
        return [_without_texts(one) for one in value]
    return 0


@pytest.mark.parametrize("unit", ["[]", "1", '"\\\\"', '{"a,[{": 0}'])
def test_many_small_values_are_too_many(unit: str) -> None:
    text = ("[" + ",".join([unit] * (MAX_VALUES + 2)) + "]").encode() + b" " * UNCOUNTED_BYTES
    assert has_too_many_values(text)


@pytest.mark.parametrize("text", ["a,b,c\\n", '{\\"name\\": [1,2]},', "\\\\,\\\\,"])
def test_long_texts_are_one_value_whatever_stands_in_them(text: str) -> None:
    assert not has_too_many_values(f'{{"text": "{text * MAX_VALUES}"}}'.encode())


def test_each_event_of_a_stream_is_counted_for_itself_wherever_it_is_cut() -> None:
    stream = b'event: message\ndata: {"a": [1, 2]}\n\n' * 20 + b'data: {"a": [1, 2, 3]}\r\n\r\ndata: 1\n\n'
    for size in range(1, 40):
        count = EventCount()
        most = [count.feed(stream[begin : begin + size]) for begin in range(0, len(stream), size)]
        assert max(most) == 4
