"""Values against JSON Schemas: what fits, and what is said of the first fault (D71, MCP-22)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from app.tools.schemas.check import SchemaCheck, SchemaError, check_of


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({}, [1, None, "x", {}], []),
        (True, [1], []),
        (False, [], [1]),
        ({"type": "integer"}, [6, 6.0, 10**400], [6.5, True, "6"]),
        ({"type": ["string", "null"]}, ["a", None], [1]),
        ({"enum": [1, "x", None]}, [1, 1.0, "x", None], [True, 2, {}]),
        ({"enum": [*range(1000), None]}, [999, 5.0, None], [1000, "1", True, [1], {}]),
        ({"const": {"a": [1]}}, [{"a": [1.0]}], [{"a": [1, 2]}]),
        ({"type": "string", "pattern": "^[a-z]+$"}, ["abc"], ["aBc"]),
        ({"pattern": "^[a-z]+$"}, ["abc", 1, {}], ["1"]),
        ({"minimum": 1, "exclusiveMaximum": 3}, [1, 2.9], [0, 3]),
        ({"multipleOf": 0.1}, [0.3, 19.9], [0.35]),
        ({"additionalProperties": False, "properties": {"a": {}}}, [{}, {"a": 1}], [{"b": 1}]),
        ({"patternProperties": {"^n": {"type": "null"}}}, [{"n1": None, "x": 1}], [{"n1": 1}]),
        ({"propertyNames": {"maxLength": 2}}, [{"ab": 1}], [{"abc": 1}]),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{"a": 1, "b": 1}, {}], [{"a": 1}]),
        ({"dependentRequired": {"a": ["b"]}}, [{"a": 1, "b": 1}, {}], [{"a": 1}]),
        ({"prefixItems": [{"type": "null"}], "items": {"type": "integer"}}, [[None, 1], []], [[1], [None, "x"]]),
        ({"contains": {"type": "null"}, "maxContains": 1}, [[1, None]], [[1], [None, None]]),
        ({"uniqueItems": True}, [[1, True, "1"]], [[1, 1.0]]),
        ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, [1, 3.5], [5, 0.5]),
        ({"if": {"type": "integer"}, "then": {"minimum": 3}, "else": {"type": "null"}}, [3, None], [1, "x"]),
        ({"not": {"type": "integer"}}, ["x"], [1]),
        (
            {"allOf": [{"properties": {"a": {}}}], "properties": {"b": {}}, "unevaluatedProperties": False},
            [{"a": 1, "b": 1}],
            [{"c": 1}],
        ),
        ({"prefixItems": [{}], "unevaluatedItems": False}, [[1]], [[1, 2]]),
        ({"format": "date"}, ["2026-02-28", 1], ["2026-02-30"]),
        ({"format": "date-time"}, ["2026-01-05T10:00:00Z", "2026-01-05T10:00:00"], ["2026-01-05", "now"]),
        ({"format": "email"}, ["a@b.cd"], ["a", "Joe <a@b.cd>"]),
        ({"format": "regex"}, ["("], []),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "null"}]}, [[None, 1]], [[1]]),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}, [2], [1]),
        ({"$schema": "https://example.com/mine", "type": "integer"}, [1], ["x"]),
        # not named, but written in an older draft
        ({"items": [{"type": "null"}], "additionalItems": False}, [[None]], [[1], [None, 1]]),
        ({"minimum": 1, "exclusiveMinimum": True}, [2], [1]),
    ],
)
def test_values_fit_or_do_not(schema: Any, good: list[Any], bad: list[Any]) -> None:
    check = SchemaCheck(schema)
    for value in good:
        assert check.fault(value) is None, value
    for value in bad:
        assert check.fault(value) is not None, value


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"$ref": "#/$defs/N", "$defs": {"N": {"type": "integer"}}}, 1, "x"),
        ({"$ref": "#/definitions/a~1b%20c", "definitions": {"a/b c": {"type": "integer"}}}, 1, "x"),
        ({"$ref": "#/components/schemas/N", "components": {"schemas": {"N": {"type": "integer"}}}}, 1, "x"),
        ({"$ref": "#n", "$defs": {"N": {"$anchor": "n", "type": "integer"}}}, 1, "x"),
        (
            {"$id": "https://a.example/b", "$ref": "https://a.example/b#/$defs/N", "$defs": {"N": {"type": "null"}}},
            None,
            1,
        ),
        (
            {
                "$id": "https://a.example/b",
                "properties": {"a": {"$ref": "#/$defs/N"}},
                "$defs": {"N": {"type": "null"}},
            },
            {},
            {"a": 1},
        ),
        (
            {"$id": "Tree", "properties": {"a": {"$ref": "Tree"}}, "additionalProperties": False},
            {"a": {}},
            {"a": {"b": 1}},
        ),
        (
            {"properties": {"a": {"$id": "T0", "properties": {"n": {"$ref": "T0"}}, "type": "object"}}},
            {"a": {"n": {}}},
            {"a": {"n": 1}},
        ),
        (
            {"properties": {"x": {"$id": "T", "$defs": {"N": {"type": "null"}}, "$ref": "#/$defs/N"}}},
            {"x": None},
            {"x": 1},
        ),
        (
            {"$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}, "maxProperties": 1},
            {"a": {}},
            {"a": {"a": 1, "b": 1}},
        ),
        (
            {"properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}},
            {"kids": [{"kids": []}]},
            {"kids": [{"kids": 1}]},
        ),
        ({"properties": {"a": {"type": "null"}, "b": {"$ref": "#/properties/a"}}}, {"b": None}, {"b": 1}),
        ({"properties": {"$ref": {"type": "null"}}}, {"$ref": None}, {"$ref": 1}),
    ],
)
def test_references_lead_to_places_of_the_schema(schema: Any, good: Any, bad: Any) -> None:
    check = SchemaCheck(schema)
    assert check.fault(good) is None
    assert check.fault(bad) is not None


def test_parts_with_names_of_their_own_refer_to_each_other_by_these() -> None:
    tree = {
        "$id": "http://localhost/tree",
        "properties": {"nodes": {"items": {"$ref": "node"}}},
        "required": ["nodes"],
        "$defs": {"node": {"$id": "http://localhost/node", "properties": {"sub": {"$ref": "tree"}}, "required": ["n"]}},
    }
    check = SchemaCheck(tree)
    assert check.fault({"nodes": [{"n": 1, "sub": {"nodes": [{"n": 2}]}}]}) is None
    assert "$.nodes[0].sub.nodes[1]: " in str(check.fault({"nodes": [{"n": 1, "sub": {"nodes": [{"n": 2}, {}]}}]}))
    inner = {"$id": "b.json", "$defs": {"in": {"properties": {"x": {"type": "null"}}}}, "$ref": "#/$defs/in"}
    outer = SchemaCheck({"$id": "http://localhost/a.json", "properties": {"foo": inner}, "$ref": "b.json"})
    assert outer.fault({"foo": {"x": None}, "x": None}) is None
    assert outer.fault({"foo": {"x": None}, "x": 1}) is not None
    assert outer.fault({"foo": {"x": 1}, "x": None}) is not None


def test_a_dynamic_reference_with_one_target_is_an_ordinary_one() -> None:
    target = {"$dynamicAnchor": "n", "type": "null"}
    check = SchemaCheck({"items": {"$dynamicRef": "#n"}, "$defs": {"n": target}})
    assert check.fault([None]) is None
    assert check.fault([1]) is not None
    other = {"$id": "m", "$dynamicAnchor": "n"}
    with pytest.raises(SchemaError, match="more than one target"):
        SchemaCheck({"items": {"$dynamicRef": "#n"}, "$defs": {"n": target, "m": other}})


def test_what_is_null_in_a_schema_is_not_there() -> None:
    """P86: generators write null for what is not set."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "enum": None, "pattern": None}},
        "required": None,
    }
    assert SchemaCheck(schema).fault({"a": "x"}) is None
    assert SchemaCheck({"const": None}).fault(1) is not None


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "thing"}, '"thing"'),
        ({"properties": []}, "$.properties"),
        ({"required": "a"}, "$.required"),
        ({"$ref": "#/$defs/Missing"}, "leads nowhere"),
        ({"$ref": "#missing"}, "leads nowhere"),
        ({"$ref": "#/a/9"}, "leads nowhere"),
        ({"$ref": "https://example.com/schema.json"}, "never fetched"),
        ({"$ref": "//example.com/x#/y"}, "never fetched"),
        ({"$ref": "file:///etc/passwd"}, "never fetched"),
        ({"$ref": "http://["}, "never fetched"),
        ({"pattern": "("}, "pattern"),
        ({"patternProperties": {"(a{1000}){1000}": {}}}, "pattern"),
        ([], "object"),
        (None, "object"),
        ({1: 2}, "strings"),
        ({"const": object()}, "valid"),
    ],
)
def test_schemas_that_cannot_be_used_are_refused_with_the_reason(schema: Any, says: str) -> None:
    """MCP-55: a reference to the network is never followed."""
    with pytest.raises(SchemaError) as refused:
        SchemaCheck(schema)
    assert says in refused.value.message
    assert " / " in refused.value.message


CLOSED = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "maximum": 50}, "a b": {}},
    "required": ["query"],
    "additionalProperties": False,
}
UNION = {
    "oneOf": [
        {"type": "object", "properties": {"op": {"const": "and"}, "args": {"type": "array", "items": {"$ref": "#"}}}},
        {"type": "object", "properties": {"op": {"const": "not"}, "arg": {"$ref": "#"}}, "required": ["op", "arg"]},
        {"type": "string"},
    ]
}


@pytest.mark.parametrize(
    ("schema", "value", "says"),
    [
        (
            CLOSED,
            {"quary": "x"},
            '$: required but missing: "query"; unknown: "quary"; known are "query", "limit", "a b"',
        ),
        (CLOSED, {"query": 5}, "$.query: expected string, got 5"),
        (CLOSED, {"query": "x", "limit": 51}, "$.limit: 51: the maximum is 50"),
        (CLOSED, {"limit": "x", "query": 5}, '$.limit: expected integer, got "x"'),
        (CLOSED, "text", '$: expected object, got "text"'),
        ({"enum": ["a", "b"]}, "c", '$: expected "a" | "b", got "c"'),
        ({"enum": list(range(100))}, 100, "$: expected 0 | 1 | 2 "),
        ({"const": "x"}, {"k": [1]}, '$: expected "x", got object (1)'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 5, "$: expected string | null, got 5"),
        ({"items": {"items": {"type": "null"}}}, [[None], [None, 7]], "$[1][1]: expected null, got 7"),
        ({"properties": {"a b": {"type": "null"}}}, {"a b": [1, 2]}, '$["a b"]: expected null, got [1,2]'),
        ({"pattern": "^a$"}, "b", '$: "b" does not match the pattern "^a$"'),
        (UNION, {"op": "not", "arg": {"op": "not", "arg": 5}}, "$.arg.arg: "),
        ({"oneOf": [{"minimum": 1}, {"maximum": 9}]}, 5, "$: it fits 2 of the alternatives"),
        ({"propertyNames": {"pattern": "^a$"}}, {"b": 1}, "$: a name does not fit: "),
        ({"additionalProperties": False}, {"b": 1}, '$: unknown: "b"; nothing is taken here'),
        ({"format": "date"}, "x", '$: expected format "date", got "x"'),
        ({"multipleOf": 2}, 3, "$: 3 is not a multiple of 2"),
        ({"uniqueItems": True}, [1, 1], "$: the items of the array must be different"),
        ({"contains": {"type": "null"}}, [], "$: the array holds too few"),
        ({"not": {}}, 1, "$: such a value is not allowed here"),
        ({"type": "null"}, "行\n" * 1000, "$: expected null, got "),
        ({"type": "null"}, 10**4000, "$: expected null, got …"),
    ],
)
def test_the_first_fault_is_told_with_its_place_and_what_was_expected(schema: Any, value: Any, says: str) -> None:
    """D71, MCP-22."""
    path, _, rest = says.partition(": ")
    fault = SchemaCheck(schema).fault(value)
    assert fault is not None
    assert fault.path.startswith(path)
    assert rest in fault.reason
    assert " / " in fault.reason
    assert "\n" not in fault.reason
    assert len(fault.reason) < 1100


def test_checks_of_equal_schemas_are_one() -> None:
    assert check_of({"type": "string", "minLength": 1}) is check_of({"type": "string", "minLength": 1})
    assert check_of(MappingProxyType({"maximum": 10**30})).fault(10**31) is not None
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"not": deep}
    unusable: list[Any] = [{"type": {1, 2}}, deep, {"enum": [object()]}]
    for schema in unusable:
        with pytest.raises(SchemaError):
            check_of(schema)


def test_the_schema_that_was_given_is_not_changed() -> None:
    schema = {"$id": "x", "properties": {"a": {"pattern": "a", "enum": None, "$ref": "#/properties/b"}, "b": {}}}
    before = repr(schema)
    SchemaCheck(schema)
    assert repr(schema) == before
