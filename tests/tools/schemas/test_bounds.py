"""Hostile schemas and hostile values: every check ends soon, with a verdict or with the word that it is too much.

Without the limits each of these takes minutes or gigabytes, or ends the process.
"""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from app.tools.schemas.check import SchemaCheck, SchemaError
from app.tools.schemas.document import MAX_DEPTH, MAX_VALUES
from app.tools.schemas.keywords import MAX_PATTERNS, PATTERN_CHARS

TOO_MUCH = "too large, too deep or too intricate"


def nested(levels: int, inner: Any = "s", name: str = "x") -> Any:
    value = inner
    for _ in range(levels):
        value = {name: value}
    return value


def lists(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def chain(links: int, keyword: str = "allOf") -> dict[str, Any]:
    """Each definition asks the next one twice about the same value."""
    defs: dict[str, Any] = {
        f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(links)
    }
    defs[f"a{links}"] = {"type": "integer"}
    return {"$defs": defs, "$ref": "#/$defs/a0"}


def reason(schema: Any, value: Any) -> str:
    fault = SchemaCheck(schema).fault(value)
    return "" if fault is None else fault.reason


TWICE = {
    "$defs": {
        "a": {
            "anyOf": [
                {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["x"]},
                {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["x"]},
                {"type": "integer"},
            ]
        }
    },
    "$ref": "#/$defs/a",
}


def test_alternatives_with_the_same_members_are_checked_as_deep_as_is_sane() -> None:
    check = SchemaCheck(TWICE)
    assert check.fault(nested(5, 1)) is None
    fault = check.fault(nested(5))
    assert fault is not None
    assert "$.x.x.x.x.x" in fault.reason
    for levels in (8, 10, 12, 14, 16, 30, 190, 240, 2000):
        fault = check.fault(nested(levels))
        assert fault is not None


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_references_that_double_at_each_step_are_not_followed_to_the_end(keyword: str) -> None:
    assert reason(chain(10, keyword), 3) in ("", reason(chain(10, "oneOf"), 3))
    assert TOO_MUCH in reason(chain(30, keyword), 3)
    with pytest.raises(SchemaError):
        SchemaCheck(chain(100, keyword))


def test_a_long_chain_of_references_does_not_end_the_process() -> None:
    defs: dict[str, Any] = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(4000)}
    with pytest.raises(SchemaError, match="intricate"):
        SchemaCheck({"$defs": {**defs, "a4000": {}}, "$ref": "#/$defs/a0"})


def test_a_long_chain_of_members_is_fine() -> None:
    defs: dict[str, Any] = {f"a{n}": {"properties": {"x": {"$ref": f"#/$defs/a{n + 1}"}}} for n in range(2000)}
    check = SchemaCheck({"$defs": {**defs, "a2000": {}}, "$ref": "#/$defs/a0"})
    assert check.fault(nested(150)) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"$ref": "#"}, {"type": "integer"}]},
        {"not": {"not": {"$ref": "#"}}},
        {"if": {"$ref": "#"}, "then": True},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {
            "$defs": {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{m}"} for m in range(4)]} for n in range(4)},
            "$ref": "#/$defs/a0",
        },
        {"$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}]},
    ],
)
def test_schemas_that_ask_themselves_load_and_say_nothing_there(schema: Any) -> None:
    """P87: $ref loops made the start hang."""
    assert SchemaCheck(schema).fault({"a": 1}) is None


def test_a_reference_to_oneself_beside_other_words_leaves_those_in_force() -> None:
    """P87."""
    assert reason({"type": "object", "allOf": [{"$ref": "#"}]}, 1) != ""


def test_many_rings_are_refused() -> None:
    defs = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{m}"} for m in range(12)]} for n in range(12)}
    with pytest.raises(SchemaError, match="intricate"):
        SchemaCheck({"$defs": defs, "$ref": "#/$defs/a0"})


def test_errors_of_many_alternatives_do_not_copy_a_large_value_each() -> None:
    """The library keeps a copy of the value for each alternative: 2 GB of these."""
    assert TOO_MUCH in reason({"anyOf": [{"type": "integer"}] * 2000}, "x" * 1_000_000)
    assert "too large for a closer look" in reason({"anyOf": [{"type": "integer"}] * 100}, "x" * 1_000_000)
    assert "expected integer" in reason({"anyOf": [{"type": "integer"}] * 2000}, "x" * 100)
    assert "expected integer" in reason({"type": "integer"}, "x" * 20_000_000)


def test_a_fault_beside_a_long_text_is_told_with_its_place() -> None:
    text = "a, b: [c] {d}\n" * 40_000
    optional = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    properties = {"text": {"type": "string"}, **{name: optional for name in "abcdefgh"}}
    check = SchemaCheck({"type": "object", "properties": properties, "required": ["text"]})
    assert "$.h: " in str(check.fault({"text": text, "h": "x"}))
    assert "$.text: " in str(check.fault({"text": [text] * 4}))


@pytest.mark.parametrize(
    ("schema", "fine", "too_much"),
    [
        ({"anyOf": [{"minLength": 10**9}] * 2000}, None, "x" * 4_000_000),
        ({"items": {"properties": {f"p{n}": {"type": "integer"} for n in range(3000)}}}, [{}] * 500, [{}] * 100_000),
        ({"items": {"required": [f"p{n}" for n in range(3000)]}}, [], [{}] * 100_000),
        ({"items": {"enum": [{"a": n} for n in range(3000)]}}, [{"a": 2999}] * 100, [{"a": 2999}] * 50_000),
        ({"items": {"multipleOf": 0.01}}, [10**30] * 100, [int("8" * 4000)] * 100),
        ({"patternProperties": {f"^a{n}$": {} for n in range(150)}}, {"a1": 1}, {f"a{n}": n for n in range(20_000)}),
        ({"patternProperties": {"(?=a*b)c": {}, "(a+)+$": {}}}, {"a" * 100: 1}, {"a" * 20_000: 1}),
        (
            {"unevaluatedProperties": False, "anyOf": [{"properties": {f"k{n}": {}}} for n in range(100)]},
            {f"k{n}": 1 for n in range(20)},
            {f"k{n}": 1 for n in range(20_000)},
        ),
        ({"items": {"$ref": "#"}, "contains": {"$ref": "#"}}, [[]], lists(80)),
    ],
)
def test_work_that_grows_with_schema_and_value_is_refused_before_it_is_done(
    schema: Any, fine: Any, too_much: Any
) -> None:
    check = SchemaCheck(schema)
    fault = check.fault(fine)
    assert fault is None or TOO_MUCH not in fault.reason
    fault = check.fault(too_much)
    assert fault is not None
    assert TOO_MUCH in fault.reason


def test_large_values_are_fine_for_ordinary_schemas() -> None:
    row = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string", "maxLength": 99}}}
    rows = {"type": "array", "items": {**row, "required": ["id"], "additionalProperties": False}}
    assert SchemaCheck(rows).fault([{"id": n, "name": "x" * 20} for n in range(50_000)]) is None
    assert "$[49999]" in str(SchemaCheck(rows).fault([{"id": 1}] * 49_999 + [{"id": "x"}]))
    assert SchemaCheck({"uniqueItems": True}).fault([{"a": n} for n in range(50_000)]) is None
    assert SchemaCheck({"additionalProperties": {"type": "integer"}}).fault({str(n): n for n in range(100_000)}) is None
    union = {"type": "array", "items": {"oneOf": [row, {"type": "object", "properties": {"id": {"type": "null"}}}]}}
    assert SchemaCheck(union).fault([{"id": n} for n in range(20_000)]) is None


@pytest.mark.parametrize("pattern", ["(a+)+$", "([ab]+)*\\1\\1z", "(\\w{1,20}a){8}[cd]", "(?=[ab]*[cd])z"])
def test_hostile_patterns_are_cut_short_and_never_turn_the_verdict_round(pattern: str) -> None:
    text = format(random.Random(1).getrandbits(400_000), "b").translate({48: "a", 49: "b"})
    for schema in ({"pattern": pattern}, {"not": {"pattern": pattern}}, {"anyOf": [{"pattern": pattern}] * 50}):
        assert TOO_MUCH in reason(schema, text)


def test_schemas_have_a_size() -> None:
    with pytest.raises(SchemaError, match="too large"):
        SchemaCheck({"enum": [0] * (MAX_VALUES + 1)})
    with pytest.raises(SchemaError, match="too deep"):
        SchemaCheck(nested(MAX_DEPTH + 1, {}, "not"))
    loop: dict[str, Any] = {}
    loop["not"] = loop
    with pytest.raises(SchemaError, match="too deep"):
        SchemaCheck(loop)
    with pytest.raises(SchemaError, match="too long"):
        SchemaCheck({"pattern": "x" * (PATTERN_CHARS + 1)})
    with pytest.raises(SchemaError, match="too many"):
        SchemaCheck({"anyOf": [{"pattern": str(n)} for n in range(MAX_PATTERNS + 1)]})


@pytest.mark.parametrize("value", [{1: 2}, {"a": object()}, float("nan"), b"x", nested(5000), (1,), {"a": {1, 2}}])
def test_values_that_are_no_json_are_faults(value: Any) -> None:
    assert SchemaCheck({"type": "object"}).fault(value) is not None


def test_one_check_serves_several_threads() -> None:
    check = SchemaCheck({"properties": {"a": {"pattern": "^(a|b)+$"}}, "additionalProperties": False})
    found: list[bool] = []

    def ask() -> None:
        found.extend(check.fault({"a": "ab" * 20_000}) is None for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 40
