"""Names of arguments (D4, D22), JSON values as text and text as JSON values (D39)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.arguments import MAX_SCHEMA_DEPTH, fold, fold_names, from_text, to_text


@pytest.mark.parametrize("name", ["image_size", "image-size", "IMAGE_SIZE", "imageSize", "Image-Size_"])
def test_spellings_of_a_name_fold_to_one(name: str) -> None:
    assert fold(name) == "imagesize"


@pytest.mark.parametrize(
    ("arguments", "declared", "expected"),
    [
        ({"image-size": "1"}, ["image_size"], {"image_size": "1"}),
        ({"IMAGE_SIZE": "1"}, ["imageSize"], {"imageSize": "1"}),
        ({"image_size": "1"}, ["image_size", "imageSize"], {"image_size": "1"}),
        # two declared names fold alike: no unique match
        ({"IMAGESIZE": "1"}, ["image_size", "imageSize"], {"IMAGESIZE": "1"}),
        ({"X": "1", "x": "2"}, ["x"], {"X": "1", "x": "2"}),
        ({"x": "2", "X": "1"}, ["x"], {"x": "2", "X": "1"}),
        ({"X": "1", "x": "2"}, [], {"X": "1", "x": "2"}),
        ({"a_b": "1", "A-B": "2"}, ["aB"], {"aB": "2"}),
        ({"other": "1"}, ["x"], {"other": "1"}),
        ({}, ["x"], {}),
    ],
)
def test_names_are_folded_to_declared_ones_without_loss(
    arguments: dict[str, str], declared: list[str], expected: dict[str, str]
) -> None:
    assert fold_names(arguments, declared) == expected


@given(
    arguments=st.dictionaries(st.text("abAB_-", max_size=4), st.integers(), max_size=6),
    declared=st.sets(st.text("abAB_-", max_size=4), max_size=6),
)
def test_an_exactly_written_argument_always_keeps_its_name_and_value(
    arguments: dict[str, int], declared: set[str]
) -> None:
    named = fold_names(arguments, declared)
    for name, value in arguments.items():
        if name in declared:
            assert named[name] == value
    assert set(named.values()) <= set(arguments.values())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("汉", "汉"),
        ("", ""),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (-1.5, "-1.5"),
        (10**30, "1" + "0" * 30),
        ([1, "汉", None], '[1,"汉",null]'),
        ({"a": {"b": [True]}}, '{"a":{"b":[true]}}'),
        ([], "[]"),
        (None, None),
    ],
)
def test_a_json_value_as_text(value: Any, text: str | None) -> None:
    assert to_text(value) == text


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5", {"type": "integer"}, 5),
        (" -5 ", {"type": "integer"}, -5),
        ("+5", {"type": "integer"}, 5),
        ("5.0", {"type": "integer"}, 5),
        ("5.5", {"type": "integer"}, "5.5"),
        ("five", {"type": "integer"}, "five"),
        ("٥", {"type": "integer"}, "٥"),
        ("9" * 5000, {"type": "integer"}, "9" * 5000),
        ("", {"type": "integer"}, ""),
        ("5", {"type": "number"}, 5),
        ("1e3", {"type": "number"}, 1000.0),
        ("NaN", {"type": "number"}, "NaN"),
        ("-Infinity", {"type": "number"}, "-Infinity"),
        ("1e999", {"type": "number"}, "1e999"),
        ("true", {"type": "number"}, "true"),
        ("9" * 5000, {"type": "number"}, "9" * 5000),
        ("true", {"type": "boolean"}, True),
        ("False", {"type": "boolean"}, False),
        ("1", {"type": "boolean"}, "1"),
        ("[1, 2]", {"type": "array"}, [1, 2]),
        ("a,b", {"type": "array"}, "a,b"),
        ("{}", {"type": "array"}, "{}"),
        ('{"a": "汉"}', {"type": "object"}, {"a": "汉"}),
        ("[1]", {"type": "object"}, "[1]"),
        ("{oops", {"type": "object"}, "{oops"),
        ("[" * 100_000, {"type": "array"}, "[" * 100_000),
        ("[NaN]", {"type": "array"}, "[NaN]"),
        ("5", {"type": "string"}, "5"),
        (" 5 ", {"type": "string"}, " 5 "),
        ("null", {"type": "null"}, None),
        ("null", {"type": "string"}, "null"),
        ("5", {}, "5"),
        ("5", True, "5"),
        ("5", False, "5"),
        ("5", {"type": "unknown"}, "5"),
        ("null", {"type": ["integer", "null"]}, None),
        ("5", {"type": ["null", "integer"]}, 5),
        ("x", {"type": ["null", "integer"]}, "x"),
        ("5", {"type": ["string", "integer"]}, "5"),
        ("5", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 5),
        ("null", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ("x", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x"),
        ("5", {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "5"),
        ("[5]", {"oneOf": [{"type": "integer"}, {"type": "array"}]}, [5]),
        ("2", {"enum": [1, 2, 3]}, 2),
        ("2", {"enum": ["1", "2"]}, "2"),
        ("true", {"enum": [True, "x"]}, True),
        ("null", {"enum": [None]}, None),
        ("9", {"enum": [1]}, "9"),
        ("2", {"type": "integer", "enum": [1, 2]}, 2),
        ("a", {"type": "string", "enum": ["a"]}, "a"),
        ("2", {"const": 2}, 2),
        ("5", {"allOf": [{"type": "integer"}], "description": "x"}, 5),
        ("5", {"$ref": "#/$defs/N"}, 5),
        ("5", {"$ref": "#/$defs/Missing/deeper"}, "5"),
        ("5", {"$ref": "https://example.org/schema"}, "5"),
        ("5", {"$ref": "#/$defs/Loop"}, "5"),
        ("7", {"$ref": "#/$defs/a~1b"}, 7),
    ],
)
def test_text_becomes_the_value_its_schema_asks_for_or_stays(text: str, schema: Any, value: Any) -> None:
    root = {"$defs": {"N": {"type": "integer"}, "Loop": {"$ref": "#/$defs/Loop"}, "a/b": {"type": "integer"}}}
    found = from_text(text, schema, root)
    assert found == value
    assert type(found) is type(value)


def test_alternatives_inside_each_other_end_at_the_limit() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(MAX_SCHEMA_DEPTH + 5):
        schema = {"anyOf": [schema]}
    assert from_text("5", schema) == "5"


@given(
    value=st.recursive(
        st.integers(-(10**20), 10**20) | st.booleans() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    )
)
def test_a_value_written_as_text_comes_back_by_its_schema(value: Any) -> None:
    names = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    text = to_text(value)
    assert text is not None
    assert from_text(text, {"type": names[type(value)]}) == value
