"""Arguments against schemas (mcp.md 1.2, WS-8), also against those who want to hold the server up."""

from __future__ import annotations

import random
from typing import Any

import pytest

from app.hub.tool_clients.arguments import ArgumentCheck
from app.protocol.tool_socket import ErrorCode, ToolSocketError, checked_schema
from app.tools.schemas.keywords import MAX_PATTERNS


def check(node: Any) -> ArgumentCheck:
    schema = {"type": "object", "properties": {"a": node}, "required": ["a"]}
    return ArgumentCheck(checked_schema({"schema": schema}))


def array(**more: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "number"}, **more}


@pytest.mark.parametrize(
    ("node", "good", "bad"),
    [
        ({"type": "integer"}, [6, 6.0, -1, 10**18], [6.5, True, "6", None]),
        ({"type": "number"}, [6, 6.5], [True, "6"]),
        ({"type": "boolean"}, [True], [1, "true"]),
        ({"type": "null"}, [None], [0, ""]),
        ({"type": "string"}, ["", "工具"], [1, None]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "工具😀"], ["a", "abcd"]),
        ({"type": "string", "pattern": "b+"}, ["abc"], ["ac", ""]),
        ({"type": "string", "pattern": "^\\d+$"}, ["12"], ["1a", "x12"]),
        ({"type": "string", "pattern": "^(?=.*\\d)(?!.*x).{2,}$"}, ["a1"], ["a", "x1"]),
        ({"type": "string", "format": "email"}, ["a@b.cd"], ["a", "Joe <a@b.cd>", "@", "a b@c.d"]),
        ({"type": "string", "format": "uri"}, ["http://a/b", "urn:x:y"], ["/b", "a b", ""]),
        ({"type": "string", "format": "date"}, ["no date"], []),
        ({"type": "integer", "minimum": 2, "maximum": 5}, [2, 5], [1, 6]),
        ({"type": "number", "multipleOf": 0.1}, [0.3, 19.9], [0.35]),
        (array(minItems=1, maxItems=2), [[1], [1, 2]], [[], [1, 2, 3], {}, ["x"]]),
        (array(maxItems=-1), [], [[], [1]]),
        (array(uniqueItems=True), [[1, 2]], [[1, 1.0]]),
        ({"type": "integer", "enum": [1, True, None]}, [1, 1.0], [2, 0]),
        ({"type": "boolean", "enum": [1]}, [], [True]),
        ({"type": "object", "enum": [{"x": [1, {"y": 2}]}]}, [{"x": [1.0, {"y": 2}]}], [{"x": [{"y": 2}, 1]}, {}]),
        ({"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b"]}, [{"b": None, "c": 1}], [{}]),
        ({"type": "string", "enum": []}, [], [""]),
    ],
)
def test_values_are_taken_or_refused_at_their_place(node: Any, good: list[Any], bad: list[Any]) -> None:
    checked = check(node)
    for value in good:
        assert checked.fault({"a": value, "more": 1}) is None, value
    for value in bad:
        fault = checked.fault({"a": value})
        assert fault is not None, value
        assert "args.a" in fault


def test_the_path_of_the_first_fault_is_named() -> None:
    node = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    fault = check(node).fault({"a": [{"n": 1}, {"n": "x"}]})
    assert fault is not None
    assert "args.a[1].n" in fault
    missing = check(node).fault({})
    assert missing is not None
    assert '"a"' in missing


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "(a{1000}){1000}", "x" * 1001, "\ud800", "(?<n>a)(?<n>b)"])
def test_patterns_that_are_wrong_or_too_large_are_refused_at_registration(pattern: str) -> None:
    with pytest.raises(ToolSocketError) as refused:
        check({"type": "string", "pattern": pattern})
    assert refused.value.code is ErrorCode.INVALID_SCHEMA


def test_a_schema_may_hold_only_so_many_patterns() -> None:
    nodes = {str(number): {"type": "string", "pattern": str(number)} for number in range(MAX_PATTERNS + 1)}
    with pytest.raises(ToolSocketError):
        check({"type": "object", "properties": nodes})
    nodes = {str(number): {"type": "string", "pattern": "same"} for number in range(MAX_PATTERNS + 1)}
    check({"type": "object", "properties": nodes})


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "([ab]+)*c",
        "(a|aa|ab|b)*c$",
        "[ab]*a[ab]{200}[cd]",
        "(\\w{1,20}a){8}[cd]",
        "(?=[ab]*[cd])z",
        "([ab]+)*\\1\\1z",
        "(?:(?=(?:a+b?)+z)|b)*z",
        "a{1000}{1000}",
    ],
)
def test_hostile_patterns_cost_little_whatever_the_text(pattern: str) -> None:
    """Measured: less than 0.2 s at worst; unbounded, the slowest of these take minutes."""
    hostile = format(random.Random(1).getrandbits(500_000), "b").translate({48: "a", 49: "b"})
    checked = check({"type": "string", "pattern": pattern})
    for length in (100, 1900, 19_000, 79_000, 500_000):
        checked.fault({"a": hostile[:length]})
    many = check({"type": "array", "items": {"type": "string", "pattern": pattern}})
    assert many.fault({"a": [hostile[n : n + 90] for n in range(0, 500_000, 100)]}) is not None


def test_long_texts_are_fine_for_simple_patterns_and_those_without_one() -> None:
    checked = ArgumentCheck(
        checked_schema(
            {
                "schema": {
                    "type": "object",
                    "properties": {"path": {"type": "string", "pattern": "^/[a-z/]+$"}, "text": {"type": "string"}},
                }
            }
        )
    )
    assert checked.fault({"path": "/" + "a" * 200_000, "text": "x" * 1_000_000}) is None


def test_large_lists_of_choices_cost_as_much_as_small_ones() -> None:
    for choices in ([n + 0.5 for n in range(5000)], [{"n": n} for n in range(5000)]):
        checked = check(
            {"type": "array", "items": {"type": "object" if choices[0] != 0.5 else "number", "enum": choices}}
        )
        assert checked.fault({"a": [choices[-1]] * 50_000}) is None


def test_arguments_that_are_nested_too_deeply_are_refused() -> None:
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    assert (
        check({"type": "array", "items": {"type": "array", "items": {"type": "null"}}}).fault({"a": deep}) is not None
    )


def test_a_fault_is_told_in_few_words_however_large_the_value() -> None:
    fault = check({"type": "integer"}).fault({"a": "x" * 1_000_000})
    assert fault is not None
    assert len(fault) < 1500
