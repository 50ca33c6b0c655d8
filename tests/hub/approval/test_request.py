"""What a person is shown of a call: enough to decide, never more than a limit (spec 7.6)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.extend import ToolCall
from app.hub.approval.request import shown_arguments

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 10**6) | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=10,
)


def shown(limit: int = 100_000, private: bool = False, **arguments: Any) -> Any:
    return shown_arguments(ToolCall("c", "T", arguments), private=private, limit=limit)


def test_codes_are_never_shown_in_any_spelling() -> None:
    assert shown(tool_password="1", Tool_Password="2", **{"TOOL-PASSWORD": "3"}, toolpassword="4", x="5") == {"x": "5"}


def test_both_ends_of_a_long_text_are_shown() -> None:
    text = shown(limit=1000, script="begin " + "a b " * 5000 + " rm -rf")["script"]
    assert text.startswith("begin a b")
    assert text.endswith(" rm -rf")
    assert " / " in text and "characters are left out here" in text
    assert len(text) < 1200


def test_no_argument_hides_another_one() -> None:
    """A huge first argument would otherwise push what matters out of sight."""
    fields = shown(
        limit=2000, padding="x y" * 10_000, command="rm -rf /", more="z z" * 10_000, last="here " * 500 + "end"
    )
    assert fields["command"] == "rm -rf /"
    assert [name for name in fields] == ["padding", "command", "more", "last"]
    assert fields["last"].endswith("end")


def test_arguments_without_number_are_left_out_visibly() -> None:
    fields = shown(limit=1000, **{f"a{number}": "v" for number in range(1000)})
    assert len(fields) == 6
    assert fields["…"].endswith("995 items are left out")


@settings(max_examples=40)
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=6))
def test_small_arguments_are_shown_as_they_are(arguments: Any) -> None:
    wanted = {name: value for name, value in arguments.items() if name.replace("_", "") != "toolpassword"}
    assert shown(**{}) == {}
    assert shown_arguments(ToolCall("c", "T", arguments), private=False) == wanted


@settings(max_examples=40)
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=6), st.integers(0, 300))
def test_what_is_shown_stays_near_the_limit(arguments: Any, limit: int) -> None:
    fields = shown_arguments(ToolCall("c", "T", arguments), private=True, limit=limit)
    assert len(json.dumps(fields, ensure_ascii=False)) < 12 * (limit + 400)


def test_deep_and_wide_values_end() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    shown(value=deep)
    assert len(json.dumps(shown(limit=5000, many=list(range(100_000))))) < 10_000
