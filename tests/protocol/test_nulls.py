"""Null for what was left open (P86)."""

from __future__ import annotations

from typing import Any

import pytest

from app.protocol.nulls import MAX_PARTS, may_be_null, without_nulls

ROOT: dict[str, Any] = {"$defs": {"n": {"type": "integer"}, "any": {}, "loop": {"$ref": "#/$defs/loop"}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, False),
        ({"type": "null"}, True),
        ({"type": ["integer", "string"]}, False),
        ({"type": ["integer", "null"]}, True),
        ({}, True),
        ({"description": "anything"}, True),
        (True, True),
        (False, False),
        ({"enum": ["a", "b"]}, False),
        ({"enum": ["a", None]}, True),
        ({"type": ["string", "null"], "enum": ["a"]}, False),
        ({"const": 1}, False),
        ({"const": None}, True),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, False),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, True),
        ({"oneOf": [{"type": "integer"}, {}]}, True),
        ({"allOf": [{}, {"type": "integer"}]}, False),
        ({"allOf": [{"description": "x"}]}, True),
        ({"$ref": "#/$defs/n"}, False),
        ({"$ref": "#/$defs/any"}, True),
        ({"$ref": "#/$defs/loop"}, True),
        ({"$ref": "https://elsewhere.example/n"}, True),
        ({"anyOf": []}, True),
        ({"type": 7, "enum": "x", "anyOf": {}}, True),
    ],
)
def test_whether_null_is_a_value_of_a_schema(schema: Any, expected: bool) -> None:
    assert may_be_null(schema, ROOT) is expected


def test_p86_nulls_for_what_is_optional_and_cannot_be_null_are_left_out_and_all_else_stays() -> None:
    schema = {
        "type": "object",
        "properties": {
            "need": {"type": "integer"},
            "unit": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "nothing": {"type": ["string", "null"]},
            "free": {},
            "text": {"type": "string"},
        },
        "required": ["need"],
    }
    given = {"need": None, "unit": None, "nothing": None, "free": None, "text": "x", "other": None}
    left = without_nulls(given, schema)
    assert left == {"need": None, "nothing": None, "free": None, "text": "x", "other": None}
    assert without_nulls({"a": 1}, schema) == {"a": 1}
    assert without_nulls({"a": None}, None) == {"a": None}


def test_a_schema_that_branches_without_end_is_looked_at_only_so_long() -> None:
    looks = 0

    class Counted(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            nonlocal looks
            looks += 1
            return super().get(key, default)

    twice = Counted({"allOf": []})
    twice["allOf"] = [twice, twice]
    assert may_be_null(twice) is True
    assert looks < MAX_PARTS * 10
