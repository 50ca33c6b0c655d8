"""Values of plugins are JSON before anybody relies on it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.plugins.json_values import NotJsonError, checked_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_every_json_value_passes_as_it_is(value: Any) -> None:
    assert checked_json(value, 1_000_000) is value
    json.dumps(value, allow_nan=False)


@given(VALUES, st.sampled_from([{1}, b"x", object(), float("nan"), float("-inf"), {2: 3}, 1j, ...]))
def test_what_is_no_json_is_found_wherever_it_lies(value: Any, wrong: Any) -> None:
    with pytest.raises(NotJsonError, match="not JSON"):
        checked_json([value, {"a": [wrong]}], 1_000_000)


@pytest.mark.parametrize("value", ["x" * 101, ["x" * 60, "y" * 60], {"k" * 101: 1}, [0] * 101, [[]] * 101])
def test_too_much_is_refused(value: Any) -> None:
    with pytest.raises(NotJsonError, match="larger than 100"):
        checked_json(value, 100)


def test_a_value_that_holds_itself_or_is_too_deep_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: Any = 0
    for _ in range(5000):
        deep = {"a": deep}
    for value in (circle, deep):
        with pytest.raises(NotJsonError, match="nested over 200 deep"):
            checked_json(value, 1_000_000)


def test_a_message_names_the_place_and_not_the_value() -> None:
    with pytest.raises(NotJsonError) as caught:
        checked_json({"a": [1, {"b": b"secret"}]}, 1000)
    assert "$.a[1].b is a bytes" in caught.value.message
    assert "secret" not in caught.value.message
