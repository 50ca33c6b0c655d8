"""Names of arguments (D4, D22), JSON values as text and text as JSON values (D39)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.arguments import (
    MAX_LIST_ITEMS,
    MAX_SCHEMA_DEPTH,
    declared_properties,
    fold,
    fold_names,
    from_text,
    is_unset,
    spellings,
    to_text,
)


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
        ("7", {"$ref": "#/$defs/L/anyOf/1"}, 7),
        ("7", {"$ref": "#/$defs/L/anyOf/9"}, "7"),
        ("7", {"$ref": "#anchor"}, "7"),
        ("7", {"$ref": "#/%24defs/N"}, 7),
        ("7", {"anyOf": [{"$ref": "#/$defs/L"}, {"type": "array"}]}, 7),
        # null is null wherever it may be
        ("null", {"type": ["string", "null"]}, None),
        ("null", {"anyOf": [{"type": "string"}, {"type": "null"}]}, None),
        ("null", {"anyOf": [{"type": "string"}, {"enum": [None]}]}, None),
        ("nul", {"type": ["string", "null"]}, "nul"),
        # numbers as people write them
        ("+1.5", {"type": "number"}, 1.5),
        (".5", {"type": "number"}, 0.5),
        ("5.", {"type": "number"}, 5.0),
        ("1,000", {"type": "number"}, "1,000"),
        ("0x10", {"type": "integer"}, "0x10"),
        ("1_000", {"type": "integer"}, "1_000"),
        # JSON in a code fence
        ('```json\n{"a": 1}\n```', {"type": "object"}, {"a": 1}),
        ("```\n[1]\n```", {"type": "array"}, [1]),
        ("```\n[1]", {"type": "array"}, "```\n[1]"),
        ('```json\n{"a": 1}\n```', {"type": "string"}, '```json\n{"a": 1}\n```'),
        # a list of one item, and numbers with commas between them
        ("a b", {"type": "array", "items": {"type": "string"}}, ["a b"]),
        ("5", {"type": "array", "items": {"type": "integer"}}, [5]),
        ("1, 2,3", {"type": "array", "items": {"type": "integer"}}, [1, 2, 3]),
        ("true,false", {"type": "array", "items": {"type": "boolean"}}, [True, False]),
        ("1,x", {"type": "array", "items": {"type": "integer"}}, "1,x"),
        ("a,b", {"type": "array", "items": {"type": "string"}}, "a,b"),
        ("a\nb", {"type": "array", "items": {"type": "string"}}, "a\nb"),
        ("[1, 2", {"type": "array", "items": {"type": "string"}}, "[1, 2"),
        ("", {"type": "array", "items": {"type": "string"}}, ""),
        ("5", {"type": "array"}, "5"),
        ('["5"]', {"type": "array", "items": {"type": "integer"}}, ["5"]),
        # what is inside stays as it was written
        ('{"n": "5"}', {"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": "5"}),
        # a type that only its keywords name
        ('{"a": 1}', {"properties": {"a": {}}}, {"a": 1}),
        ("[1]", {"items": {"type": "integer"}}, [1]),
        ("5", {"allOf": [{"description": "x"}, {"type": "integer"}]}, 5),
        ("5", {"anyOf": [{"enum": ["auto"]}, {"type": "integer"}]}, 5),
        ("auto", {"anyOf": [{"type": "integer"}, {"type": "string", "enum": ["auto"]}]}, "auto"),
        ("5", {"anyOf": [{"type": "string", "enum": ["auto"]}, {"type": "integer"}]}, 5),
        ("2", {"type": ["string", "integer"], "enum": ["a", 2]}, 2),
    ],
)
def test_text_becomes_the_value_its_schema_asks_for_or_stays(text: str, schema: Any, value: Any) -> None:
    root = {
        "$defs": {
            "N": {"type": "integer"},
            "Loop": {"$ref": "#/$defs/Loop"},
            "a/b": {"type": "integer"},
            "L": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/N"}]},
        }
    }
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


def test_alternatives_that_double_at_each_step_are_not_all_tried() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(MAX_SCHEMA_DEPTH - 2):
        schema = {"anyOf": [schema, schema]}
    assert from_text("x", schema) == "x"
    loop: dict[str, Any] = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]}
    assert from_text("x", loop, loop) == "x"


def test_long_texts_are_converted_once() -> None:
    text = "[" + "1," * 200_000 + "1]"
    assert from_text(text + "x", {"anyOf": [{"type": "array"}, {"type": "object"}] * 400}) == text + "x"
    assert from_text("```json\n" + " " * 500_000, {"type": "object"}).startswith("```json")
    many = ",".join(["1"] * (MAX_LIST_ITEMS + 1))
    assert from_text(many, {"type": "array", "items": {"type": "integer"}}) == many


json_schemas = st.recursive(
    st.sampled_from(
        [True, {}, {"type": "integer"}, {"type": "string"}, {"type": "null"}, {"$ref": "#"}, {"enum": [1, "a"]}]
    ),
    lambda inner: (
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["array", "object", 5, ["null", "array"]]),
                "items": inner,
                "$ref": st.just(5),
            },
        )
        | st.lists(inner, max_size=3).flatmap(lambda parts: st.sampled_from([{"anyOf": parts}, {"allOf": parts}]))
    ),
    max_leaves=6,
)


@given(text=st.text('[]{}",:1 ntrue`\n', max_size=12), schema=json_schemas)
def test_no_text_and_no_schema_raise(text: str, schema: Any) -> None:
    from_text(text, schema, schema if isinstance(schema, dict) else None)
    is_unset(text, schema, None)


@pytest.mark.parametrize(
    ("text", "schema", "unset"),
    [
        ("", {"type": "integer"}, True),
        (" ", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, True),
        ("", {"type": "array", "items": {"type": "string"}}, True),
        ("", {"type": "string", "enum": ["a"]}, True),
        ("", {"type": "string", "enum": [""]}, False),
        ("", {"type": "string"}, False),
        ("", {"type": ["string", "null"]}, False),
        ("", {}, False),
        ("0", {"type": "integer"}, False),
    ],
)
def test_an_empty_text_is_unset_where_no_text_is_taken(text: str, schema: Any, unset: bool) -> None:
    """P86."""
    assert is_unset(text, schema) is unset


@pytest.mark.parametrize(
    ("declared", "keys"),
    [
        (["__top", "a-b", "a_b", "x1"], {}),
        (
            ["$filter", "@type", "first name", "a.b"],
            {"$filter": "filter", "@type": "type", "first name": "firstname", "a.b": "ab"},
        ),
        (["名称", "内容"], {"名称": "arg1", "内容": "arg2"}),
        (["-x"], {"-x": "x"}),
        (["x", "-x"], {"-x": "arg2"}),
        (["filter", "$filter"], {"$filter": "arg2"}),
        (["Fil_ter", "$filter"], {"$filter": "arg2"}),
        (["$a", "@a"], {"$a": "a", "@a": "arg2"}),
        (
            ["tool_name", "Archery", "tool-password", "__proto__"],
            dict(
                zip(
                    ["tool_name", "Archery", "tool-password", "__proto__"],
                    ["arg1", "arg2", "arg3", "arg4"],
                    strict=True,
                )
            ),
        ),
        (["arg2", "名称", "parameter2"], {"名称": "field2"}),
        (["名称", "arg1", "parameter1", "field_1"], {}),
        (["", "$"], {"": "arg1", "$": "arg2"}),
    ],
)
def test_names_that_are_no_keys_have_a_key(declared: list[str], keys: dict[str, str]) -> None:
    """P88; the protocol's own words never reach a tool, so arguments of these names need another one."""
    assert spellings(declared) == keys
    for name, key in keys.items():
        assert fold_names({key: 1}, declared) == {name: 1}
        assert fold_names({key.upper(): 1}, declared) == {name: 1}
        assert fold_names({name: 1}, declared) == {name: 1}
        assert fold_names({name: 1, key: 2}, declared) == {name: 1, key: 2}


@given(declared=st.lists(st.text("ab$-_1名", max_size=4), max_size=6, unique=True))
def test_every_key_leads_to_its_own_name(declared: list[str]) -> None:
    keys = spellings(declared)
    for name, key in keys.items():
        assert fold_names({key: 1}, declared) == {name: 1}
    assert fold_names(dict.fromkeys(declared, 1), declared) == dict.fromkeys(declared, 1)


def test_arguments_are_declared_at_the_root_or_in_its_parts() -> None:
    schema = {
        "properties": {"a": 1},
        "allOf": [{"properties": {"a": 2, "b": 2}}],
        "oneOf": [{"$ref": "#/$defs/C"}, {"$ref": "#"}],
        "$defs": {"C": {"properties": {"c": 3}}},
    }
    assert declared_properties(schema) == {"a": 1, "b": 2, "c": 3}
    assert declared_properties(None) == {}
    assert declared_properties({"properties": [], "allOf": {}, "$ref": 1}) == {}
