"""What models read of schemas (P87, P88; spec 3.5)."""

from __future__ import annotations

from typing import Any

import pytest

from app.protocol.tool_blocks import scan
from app.tools.schemas.text import (
    DESCRIBED_PARAMETERS,
    PARAMETER_CHARS,
    PARAMETERS_CHARS,
    TYPE_CHARS,
    example_call,
    parameter_lines,
    type_words,
)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer"}, "integer"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "string"}]}, "string | null"),
        ({"type": "array", "items": {"type": "integer"}}, "array of integer"),
        ({"type": "array"}, "array"),
        ({"type": "array", "items": {"enum": ["a", 1]}}, 'array of "a" | 1'),
        ({"enum": ["asc", "desc"]}, '"asc" | "desc"'),
        ({"type": "string", "enum": ["x"]}, '"x"'),
        ({"const": 5}, "5"),
        ({"type": "string", "format": "date-time"}, "string (date-time)"),
        ({"$ref": "#/$defs/N"}, "object"),
        ({"allOf": [{"$ref": "#/$defs/N"}]}, "object"),
        ({"$ref": "#/$defs/Loop"}, "any"),
        ({"$ref": "#/nowhere"}, "any"),
        ({"$ref": "https://example.com/x"}, "any"),
        ({"properties": {}}, "object"),
        ({}, "any"),
        (True, "any"),
        ({"type": 5}, "any"),
        ({"type": ["a", 5]}, "a"),
        ({"anyOf": [{"const": n} for n in range(9)]}, "0 | 1 | 2 | 3 | 4 | 5 | …"),
    ],
)
def test_a_type_in_words(schema: Any, words: str) -> None:
    root = {"$defs": {"N": {"type": "object"}, "Loop": {"$ref": "#/$defs/Loop"}}}
    assert type_words(schema, root) == words


def test_an_argument_has_a_line_with_what_has_to_be_known() -> None:
    schema = {
        "type": "object",
        "properties": {
            "q": {"type": "string", "description": "what to\n  look for"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
            "sort": {"enum": ["asc", "desc"]},
            "node": {"$ref": "#/$defs/Node"},
        },
        "required": ["q", "sort"],
        "$defs": {"Node": {"type": "object", "description": "one node", "properties": {"id": {}}, "required": ["id"]}},
    }
    assert parameter_lines(schema) == [
        "参数： / Parameters:",
        "- q (string，必需 / , required): what to look for",
        "- limit (integer 1-50，默认 10 / , default 10)",
        '- sort ("asc" | "desc"，必需 / , required)',
        "- node (object): one node",
        "  - id (any，必需 / , required)",
        "数组和对象写成 JSON。 / Arrays and objects are written as JSON.",
    ]


def test_a_schema_that_refers_to_itself_is_described_one_level_deep() -> None:
    """P87."""
    tree = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
    }
    assert parameter_lines(tree) == [
        "参数： / Parameters:",
        "- name (string)",
        "- kids (array of object)",
        "  - name (string)",
        "  - kids (array of object)",
        "数组和对象写成 JSON。 / Arrays and objects are written as JSON.",
    ]


def test_names_that_are_no_keys_are_shown_with_the_key_to_write() -> None:
    """P88."""
    schema = {"properties": {"$filter": {}, "__top": {}, "a-b": {}, "名称": {"type": "string"}}, "required": ["名称"]}
    assert parameter_lines(schema)[1:5] == [
        "- $filter (any，写作 filter / , write it as filter)",
        "- __top (any)",
        "- a-b (any)",
        "- 名称 (string，必需 / , required，写作 arg4 / , write it as arg4)",
    ]
    assert "arg4:「始」<string>「末」" in example_call("t", schema)


def test_the_example_is_a_call_that_the_scanner_reads_with_the_required_arguments() -> None:
    schema = {
        "properties": {
            "a": {"type": "string", "examples": ["x「末」y"]},
            "b": {"type": "integer", "default": 5},
            "c": {"type": "array", "items": {"type": "string"}},
            "d": {"enum": [None, "first"]},
            "e": {"type": "boolean"},
        },
        "required": ["a", "b", "c", "d"],
    }
    (block,) = scan(example_call("srv.tool", schema, "go"))
    assert block.tool == "srv.tool"
    assert block.arguments == {
        "command": "go",
        "a": "x「末」y",
        "b": "5",
        "c": "<array of string>",
        "d": '<null | "first">',
    }
    assert example_call("", schema) == ""


def test_references_and_parts_at_the_root_are_followed() -> None:
    schema = {
        "$ref": "#/$defs/Args",
        "$defs": {"Args": {"properties": {"a": {"type": "null"}}}, "More": {"properties": {"b": {}}}},
        "allOf": [{"$ref": "#/$defs/More"}, {"properties": {"c": {}}}],
    }
    assert [line.split(" ")[1] for line in parameter_lines(schema)[1:]] == ["a", "c", "b"]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": None},
        {"properties": []},
        {"properties": {}},
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}] * 50},
        {"$ref": 5, "allOf": 5},
    ],
)
def test_without_declared_arguments_there_are_no_lines(schema: Any) -> None:
    assert parameter_lines(schema) == []
    assert "tool_name:「始」t「末」" in example_call("t", schema)


@pytest.mark.parametrize(
    "one",
    [
        True,
        None,
        5,
        {"description": 5, "type": {}, "enum": 5, "default": {"a": float("inf")}},
        {"default": 10**5000, "examples": [10**5000]},
        {"description": "x" * 1_000_000, "enum": ["y" * 100_000] * 1000},
        {"description": "a「末」<<<[END_TOOL_REQUEST]>>>\u2028b\x00", "const": "\ud800"},
        {"properties": {str(n): {"description": "x" * 1000} for n in range(1000)}, "default": []},
        {"anyOf": [{"$ref": "#/properties/a"}] * 1000},
        {"items": {"items": {"items": {"$ref": "#/properties/a"}}}, "type": "array"},
    ],
)
def test_odd_and_huge_schemas_give_short_texts(one: Any) -> None:
    schema = {"properties": {"a": one, "b" * 100_000: one, "c\n- d (string)": one}, "required": ["a"]}
    lines = parameter_lines(schema)
    assert all(len(line) <= PARAMETER_CHARS + 5 and "\n" not in line for line in lines)
    assert len(type_words(one, schema)) <= TYPE_CHARS
    assert len(example_call("t", schema)) < 500
    many = {"properties": {str(n): one for n in range(3000)}, "required": ["2999"]}
    text = "\n".join(parameter_lines(many))
    assert len(text) < PARAMETERS_CHARS + 8000
    assert text.split("\n")[1].startswith("- 2999 (")
    assert "and " in text
    assert text.count("\n- ") <= DESCRIBED_PARAMETERS + 1
