"""Schemas of tools as components of an OpenAPI document: every reference resolves, and none leads in a circle (P87)."""

from __future__ import annotations

from typing import Any

import jsonschema_rs

from app.web.tools_schemas import MAX_EXPANDED, component

ROOT = "#/components/schemas/T"


def resolved(document: Any, reference: str) -> Any:
    """What a reference leads to, as importers look for it."""
    found = document
    for part in reference.removeprefix("#/").split("/"):
        key = part.replace("%20", " ").replace("%25", "%").replace("~1", "/").replace("~0", "~")
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


def references(value: Any) -> list[str]:
    found = []
    if isinstance(value, dict):
        found += [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        value = list(value.values())
    if isinstance(value, list):
        found += [reference for inner in value for reference in references(inner)]
    return found


def eager(schema: Any, document: Any, depth: int = 0) -> Any:
    """Puts the target in the place of each reference, without looking where it has been: as programs do that import."""
    assert depth < 200, "it has no end"
    if "$ref" in schema:
        return eager(resolved(document, schema["$ref"]), document, depth + 1)
    copy = dict(schema)
    if "properties" in copy:
        copy["properties"] = {name: eager(inner, document, depth + 1) for name, inner in copy["properties"].items()}
    if isinstance(copy.get("items"), dict):
        copy["items"] = eager(copy["items"], document, depth + 1)
    return copy


def document(schema: Any) -> Any:
    made = {"components": {"schemas": {"T": component(schema, "T")}}}
    for reference in references(made):
        assert reference.startswith(ROOT)
        resolved(made, reference)
    return made


def test_references_to_definitions_lead_into_the_component() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/A"},
            "b": {"$ref": "#/definitions/B b~1c"},
            "c": {"$ref": "#/properties/a"},
        },
        "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/100%25"}}, "100%": {"type": "integer"}},
        "definitions": {"B b/c": {"type": "string"}},
    }
    made = document(schema)
    component_ = made["components"]["schemas"]["T"]
    assert component_["properties"]["a"] == {"$ref": f"{ROOT}/$defs/A"}
    expanded = eager(component_, made)["properties"]
    assert expanded["a"] == expanded["c"] == {"type": "array", "items": {"type": "integer"}}
    assert expanded["b"] == {"type": "string"}
    assert references(schema) == ["#/$defs/A", "#/definitions/B b~1c", "#/properties/a", "#/$defs/100%25"]  # untouched


def test_anchors_and_ids_are_names_of_places_too_and_other_documents_are_never_asked() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://tools.example/t",
        "type": "object",
        "properties": {
            "a": {"$ref": "#here"},
            "b": {"$ref": "item"},
            "c": {"$ref": "https://evil.example/schema", "description": "kept"},
            "d": {"$ref": "#/$defs/Missing"},
        },
        "$defs": {"H": {"$anchor": "here", "type": "string"}, "I": {"$id": "item", "type": "integer"}},
    }
    made = document(schema)
    expanded = eager({"$ref": ROOT}, made)
    assert expanded["properties"] == {
        "a": {"type": "string"},
        "b": {"type": "integer"},
        "c": {"description": "kept"},
        "d": {},
    }
    assert not {"$schema", "$id"} & expanded.keys()


def test_what_leads_back_to_itself_is_open_from_there_on() -> None:
    loops = [
        {"type": "object", "properties": {"inner": {"$ref": "#"}}},
        {"$ref": "#"},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"$ref": "#/properties/a"}}},
        {
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/Tree"}},
            "$defs": {
                "Tree": {
                    "type": "object",
                    "properties": {"left": {"$ref": "#/$defs/Tree"}, "leaf": {"$ref": "#/$defs/Leaf"}},
                },
                "Leaf": {"type": "object", "properties": {"up": {"$ref": "#/$defs/Tree"}}},
            },
        },
        {"type": "object", "properties": {"list": {"type": "array", "items": {"$ref": "#/properties/list"}}}},
    ]
    for schema in loops:
        made = document(schema)
        eager({"$ref": ROOT}, made)
    tree = made = document(loops[3])
    shown = eager({"$ref": ROOT}, tree)["properties"]["tree"]["properties"]
    assert shown == {"left": {}, "leaf": {"type": "object", "properties": {"up": {}}}}


def test_what_grows_without_measure_when_it_is_put_in_is_shown_open() -> None:
    definitions = {
        f"L{level}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/L{level + 1}"} for side in "ab"}}
        for level in range(30)
    }
    bomb = {
        "type": "object",
        "title": "T",
        "properties": {"x": {"$ref": "#/$defs/L0"}},
        "$defs": {**definitions, "L30": {}},
    }
    assert component(bomb, "T") == {"title": "T", "type": "object", "additionalProperties": True}
    wide = {"type": "object", "properties": {f"p{number}": {} for number in range(MAX_EXPANDED - 10)}}
    assert len(component(wide, "T")["properties"]) == MAX_EXPANDED - 10


def test_a_schema_deeper_than_anybody_reads_is_shown_open() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(400):
        deep = {"type": "object", "properties": {"x": deep}}
    chain = {f"C{number}": {"$ref": f"#/$defs/C{number + 1}"} for number in range(100)}
    for schema in (
        deep,
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/C0"}}, "$defs": {**chain, "C100": {}}},
    ):
        assert component(schema, "T") == {"type": "object", "additionalProperties": True}


def test_values_that_only_look_like_schemas_stay_as_they_are() -> None:
    data = {"$ref": "#/nowhere", "$id": "kept"}
    schema = {
        "type": "object",
        "properties": {
            "$ref": {"type": "string"},
            "a": {"enum": [data], "default": data, "const": data, "examples": [data]},
        },
        "default": {"$ref": "#/nowhere"},
        "x-more": data,
        "properties2": "odd",
        "anyOf": "odd",
        "items": [{"type": "string"}, True],
        "additionalProperties": False,
        "required": ["a"],
    }
    made = component(schema, "T")
    assert made == schema
    jsonschema_rs.meta.validate({key: value for key, value in made.items() if key in ("properties", "required")})
