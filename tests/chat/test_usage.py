"""Usage over several rounds (D1)."""

from typing import Any

import pytest

from app.chat.usage import add_usage


@pytest.mark.parametrize(
    ("rounds", "total"),
    [
        ([None], None),
        ([None, {"a": 1}, None], {"a": 1}),
        ([{}, {"a": 1}], {"a": 1}),
        ([{"a": 1}, {"a": 2, "b": 0.5}], {"a": 3, "b": 0.5}),
        ([{"d": {"x": 1}}, {"d": {"x": 2, "y": 3}}], {"d": {"x": 3, "y": 3}}),
        ([{"d": None}, {"d": {"x": 2}}, {"d": None}], {"d": {"x": 2}}),
        ([{"tier": "a"}, {"tier": "b"}], {"tier": "b"}),
        ([{"flag": True}, {"flag": True}], {"flag": True}),
        ([{"a": "1"}, {"a": 2}], {"a": 2}),
    ],
)
def test_numbers_add_up_and_everything_else_is_the_newest(rounds: list[Any], total: Any) -> None:
    summed = None
    for usage in rounds:
        summed = add_usage(summed, usage)
    assert summed == total


def test_the_usage_of_a_round_is_not_changed_by_adding() -> None:
    first: dict[str, Any] = {"d": {"x": 1}}
    add_usage(add_usage(None, first), {"d": {"x": 1}})
    assert first == {"d": {"x": 1}}
