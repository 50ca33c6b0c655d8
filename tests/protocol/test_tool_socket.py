"""The dialect of schemas of the tool socket (mcp.md 1.2), names and times (WS-4, WS-11)."""

from __future__ import annotations

from typing import Any

import pytest

from app.protocol.tool_socket import (
    SCHEMA_NODES,
    ErrorCode,
    ToolSocketError,
    checked_schema,
    timeout_seconds,
    tool_name,
)


def refusal(schema: Any) -> str:
    with pytest.raises(ToolSocketError) as refused:
        checked_schema({"schema": schema})
    assert refused.value.code is ErrorCode.INVALID_SCHEMA
    return refused.value.message


@pytest.mark.parametrize("kind", ["object", "string", "number", "integer", "boolean", "null"])
def test_every_type_but_array_stands_alone(kind: str) -> None:
    assert checked_schema({"schema": {"type": kind}})["type"] == kind


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (None, "schema"),
        (True, "schema"),
        ([], "schema"),
        ({}, "schema.type"),
        ({"type": "any"}, "schema.type"),
        ({"type": ["string", "null"]}, "schema.type"),
        ({"$ref": "#"}, "schema"),
        ({"type": "object", "$ref": "#"}, "schema"),
        ({"anyOf": [{"type": "string"}]}, "schema"),
        ({"type": "array"}, "schema.items"),
        ({"type": "array", "items": True}, "schema.items"),
        ({"type": "array", "items": [{"type": "string"}]}, "schema.items"),
        ({"type": "array", "items": {"type": "string"}, "minItems": "1"}, "schema.minItems"),
        ({"type": "array", "items": {"type": "string"}, "maxItems": True}, "schema.maxItems"),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": 1}, "schema.uniqueItems"),
        ({"type": "object", "properties": []}, "schema.properties"),
        ({"type": "object", "properties": {"a": {"type": "x"}}}, "schema.properties.a.type"),
        ({"type": "object", "properties": {"a": True}}, "schema.properties.a"),
        ({"type": "object", "required": ["a"]}, "schema.required"),
        ({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["b"]}, "schema.required"),
        ({"type": "object", "properties": {"a": {"type": "null"}}, "required": [["a"]]}, "schema.required"),
        ({"type": "object", "properties": {}, "required": "a"}, "schema.required"),
        ({"type": "string", "pattern": 3}, "schema.pattern"),
        ({"type": "string", "minLength": "3"}, "schema.minLength"),
        ({"type": "number", "multipleOf": 0}, "schema.multipleOf"),
        ({"type": "integer", "minimum": None, "maximum": "9"}, "schema.maximum"),
        ({"type": "null", "enum": {}}, "schema.enum"),
        ({"type": "array", "items": {"type": "object", "properties": {"x": 5}}}, "schema.items.properties.x"),
    ],
)
def test_what_the_dialect_does_not_have_is_refused_at_its_place(schema: Any, place: str) -> None:
    assert refusal(schema).startswith(f"{place} ")


def test_unknown_keywords_and_null_are_ignored() -> None:
    """1.2; P86: schemas with null for optional fields are in use."""
    schema = {
        "type": "object",
        "properties": None,
        "required": None,
        "title": "t",
        "additionalProperties": False,
        "oneOf": 3,
        "$defs": {"a": [1]},
    }
    assert checked_schema({"schema": schema}) == {"type": "object", "properties": {}}


def test_limits_of_lengths_may_be_any_number() -> None:
    node = {"type": "array", "items": {"type": "string", "minLength": -4}, "minItems": 1.5, "maxItems": 2.5}
    assert checked_schema({"schema": node}) == {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 2,
        "maxItems": 2,
    }


def test_schemas_that_are_too_deep_or_too_large_are_refused() -> None:
    """Also the dialect has no loops (P87); what is left is depth."""
    deep: Any = {"type": "string"}
    for _ in range(31):
        deep = {"type": "array", "items": deep}
    checked_schema({"schema": deep})
    assert "too deep" in refusal({"type": "array", "items": deep})
    for _ in range(5000):
        deep = {"type": "array", "items": deep}
    assert "too deep" in refusal(deep)
    wide = {"type": "object", "properties": {str(number): {"type": "null"} for number in range(SCHEMA_NODES)}}
    assert "too large" in refusal(wide)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("a", "a"),
        (" a b ", "a b"),
        ("\ufeffa\u3000", "a"),
        ("掷\u3000骰", "掷\u3000骰"),
        ("工具", "工具"),
        ("x" * 128, "x" * 128),
    ],
)
def test_names_are_trimmed(name: str, kept: str) -> None:
    assert tool_name({"name": name}) == kept


@pytest.mark.parametrize(
    "name", [None, 1, "", " \t", "a\x7f", "a\x1bb", "a\ud800", "x" * 129, "a\u200b", "a\u202eb", "a\u2028b", "a\ufeffb"]
)
def test_names_without_a_mark_or_with_control_characters_are_refused(name: Any) -> None:
    with pytest.raises(ToolSocketError) as refused:
        tool_name({"name": name})
    assert refused.value.code is ErrorCode.INVALID_NAME


@pytest.mark.parametrize(
    ("value", "seconds"), [(None, None), (1500, 1.5), (0.5, 0.0005), (600_000, 600), (10**15, 600), (1e300, 600)]
)
def test_a_tool_may_name_its_own_time_up_to_ten_minutes(value: Any, seconds: float | None) -> None:
    """WS-11."""
    assert timeout_seconds({"timeoutMs": value}) == seconds


@pytest.mark.parametrize("value", [0, -1, "9", True, [], float("nan")])
def test_a_time_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(ToolSocketError) as refused:
        timeout_seconds({"timeoutMs": value})
    assert refused.value.code is ErrorCode.INVALID_ARGUMENTS
