"""Flat forms: what is one, what an answer has to have, what a person writes on a terminal (MCP-30; D75)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.forms import FormField, filled_in, read_form

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "title": "Your name"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "share": {"type": "number", "default": 0.5},
        "sure": {"type": "boolean", "default": False},
        "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["red", "green"], "default": "g"},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "small"}, {"const": "l"}]},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "maxItems": 2},
        "mail": {"type": "string", "format": "email"},
    },
    "required": ["name"],
}


def field(described: dict[str, Any]) -> FormField:
    return read_form({"properties": {"x": described}})[0]


def test_defaults_fill_what_an_answer_leaves_out() -> None:
    assert filled_in(read_form(FORM), {"name": "Ann"}) == {"name": "Ann", "share": 0.5, "sure": False, "colour": "g"}


def test_an_answer_is_taken_as_it_is() -> None:
    given = {"name": "Ann", "age": 7, "share": 1, "sure": True, "colour": "r", "size": "l", "tags": ["a", "c"]}
    assert filled_in(read_form(FORM), given) == given


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({}, "name"),
        ({"name": None}, "name"),
        ({"name": "A"}, "name"),
        ({"name": "Annabelle"}, "name"),
        ({"name": 7}, "name"),
        ({"name": "Ann", "age": "7"}, "age"),
        ({"name": "Ann", "age": 7.5}, "age"),
        ({"name": "Ann", "age": True}, "age"),
        ({"name": "Ann", "age": -1}, "age"),
        ({"name": "Ann", "share": float("nan")}, "share"),
        ({"name": "Ann", "share": float("inf")}, "share"),
        ({"name": "Ann", "sure": 1}, "sure"),
        ({"name": "Ann", "colour": "red"}, "colour"),
        ({"name": "Ann", "tags": ["a", "b", "c"]}, "tags"),
        ({"name": "Ann", "tags": ["z"]}, "tags"),
        ({"name": "Ann", "tags": "a"}, "tags"),
        ({"name": "Ann", "mail": "nobody"}, "mail"),
        ({"name": "Ann", "further": 1}, "further"),
        ({"name": "A" * 200_000}, "name"),
    ],
)
def test_an_answer_that_does_not_fit_names_the_field(content: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=repr(named)):
        filled_in(read_form(FORM), content)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"properties": []},
        {"properties": {"x": {"type": "object"}}},
        {"properties": {"x": {"type": ["string", "null"]}}},
        {"properties": {"x": {"$ref": "#"}}},
        {"properties": {"x": {"type": "array", "items": {"type": "object"}}}},
        {"properties": {"x": {"type": "array", "items": {"type": "string"}}}},
        {"properties": {"x": {"type": "string", "enum": []}}},
        {"properties": {"x": {"type": "string", "enum": [{"deep": 1}]}}},
        {"properties": {"x": {"type": "string", "enum": ["y"] * 501}}},
        {"properties": {"x": True}},
        {"properties": {"": {"type": "string"}}},
        {"properties": {"x" * 129: {"type": "string"}}},
        {"properties": {str(n): {"type": "string"} for n in range(65)}},
        {"properties": {}, "required": ["y"]},
        {"properties": {}, "required": "y"},
    ],
)
def test_what_is_no_flat_form_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        read_form(schema)


def test_patterns_of_a_stranger_are_not_run() -> None:
    """A regular expression of a server could take for ever; forms of the protocol have none."""
    hostile = field({"type": "string", "pattern": "(a+)+$"})
    assert hostile.fault("a" * 1000 + "!") == ""


def test_a_default_that_is_no_answer_is_none() -> None:
    assert field({"type": "integer", "default": "seven"}).default is None


@pytest.mark.parametrize(
    ("described", "line", "value"),
    [
        ({"type": "boolean"}, " Yes ", True),
        ({"type": "boolean"}, "否", False),
        ({"type": "integer"}, " 42 ", 42),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "string"}, "  as it is ", "  as it is "),
        ({"type": "string", "enum": ["r", "g"], "enumNames": ["red", "green"]}, "2", "g"),
        ({"type": "string", "enum": ["r", "g"], "enumNames": ["red", "green"]}, "red", "r"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "2, a", ["b", "a"]),
    ],
)
def test_lines_of_a_terminal_become_values(described: dict[str, Any], line: str, value: Any) -> None:
    one = field(described)
    assert one.parsed(line) == value
    assert one.fault(value) == ""


@pytest.mark.parametrize("described", [{"type": "boolean"}, {"type": "integer"}, {"type": "number"}])
def test_a_line_that_is_no_value_is_said(described: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        field(described).parsed("perhaps")


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
WORDS = st.sampled_from(["type", "string", "array", "enum", "items", "default", "properties", "required", "x"])


@given(st.dictionaries(WORDS | st.text(max_size=5), VALUES, max_size=6), st.dictionaries(st.text(max_size=5), VALUES))
def test_no_schema_and_no_answer_does_more_than_be_refused(schema: dict[str, Any], content: dict[str, Any]) -> None:
    try:
        filled_in(read_form({"properties": {"x": schema}, **schema}), content)
    except ValueError:
        return
