"""Our verdicts are those of another library, on random schemas and values."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from referencing import Registry

from app.tools.schemas.check import SchemaCheck

NAMES = ("a", "b", "c")

scalars = st.sampled_from([None, True, False, 0, 1, 2, 1.0, 2.5, -1, "", "a", "ab", "b", "日本"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(NAMES)
counts = st.integers(0, 2)
bounds = st.sampled_from([0, 1, 2.5])
types = st.sampled_from(["integer", "number", "string", "null", "boolean", "array", "object", ["array", "null"]])
small = st.one_of(
    st.booleans(),
    st.just({}),
    types.map(lambda one: {"type": one}),
    st.sampled_from(["#", "#/$defs/D", "#/$defs/E"]).map(lambda one: {"$ref": one}),
)


def larger(inner: Any) -> Any:
    some = st.lists(inner, min_size=1, max_size=2)
    by_name = st.dictionaries(names, inner, max_size=2)
    keywords = {
        "type": types,
        "enum": st.lists(scalars, min_size=1, max_size=3),
        "const": values,
        "minimum": bounds,
        "exclusiveMaximum": bounds,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": counts,
        "pattern": st.sampled_from(["^a", "b$", "^$", "."]),
        "items": inner,
        "prefixItems": some,
        "contains": inner,
        "minContains": st.integers(0, 1),
        "uniqueItems": st.booleans(),
        "minItems": counts,
        "properties": by_name,
        "required": st.lists(names, max_size=2, unique=True),
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^b", "c|a"]), inner, max_size=2),
        "propertyNames": inner,
        "maxProperties": counts,
        "dependentRequired": st.dictionaries(names, st.lists(names, max_size=1), max_size=1),
        "dependentSchemas": by_name,
        "allOf": some,
        "anyOf": some,
        "oneOf": some,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "unevaluatedProperties": inner,
        "unevaluatedItems": inner,
        "$ref": st.sampled_from(["#/$defs/D", "#/$defs/E"]),
    }
    chosen = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=3, unique=True)
    return chosen.flatmap(lambda keys: st.fixed_dictionaries({key: keywords[key] for key in keys}))


schemas = st.recursive(small, larger, max_leaves=6)


def references(schema: Any) -> int:
    return json.dumps(schema).count('"$ref"')


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=larger(schemas), first=schemas, second=small, given_values=st.lists(values, min_size=3, max_size=6))
def test_verdicts_are_those_of_the_other_library(body: Any, first: Any, second: Any, given_values: list[Any]) -> None:
    """The whole of draft 2020-12; the other one has no end where schemas ask themselves, so those are left out."""
    schema = {**body, "$defs": {"D": first, "E": second}}
    check = SchemaCheck(schema)
    assume(references(check._root) == references(schema))
    other = jsonschema.Draft202012Validator(schema, registry=Registry())
    for value in given_values:
        fault = check.fault(value)
        if fault is None or "intricate" not in fault.reason:  # as nested unevaluatedProperties may be
            assert (fault is None) == other.is_valid(value), value
