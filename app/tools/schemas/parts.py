"""What one JSON Schema consists of, as far as the cost of checking it goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.tools.schemas.document import Node, Schema, SchemaDocument

CHOICES_A_STEP = 16
"""How many choices of ``enum`` count as one step."""

PATTERN_STEPS = 4

_BY_NAME = ("dependencies", "dependentSchemas")
_SAME = frozenset(("allOf", "anyOf", "else", "if", "not", "oneOf", "then", *_BY_NAME))
"""Keywords with schemas for the very value that the keyword's own schema is asked about."""

_WIDE = ("properties", "required", "dependentRequired", "dependentSchemas", "dependencies")
"""Keywords that are gone through name by name, whatever the object holds."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a schema asks of the same value (``beside``) and of what is in it."""

    beside: tuple[Node, ...]
    properties: dict[str, Schema]
    patterns: tuple[Schema, ...]
    others: tuple[Schema, ...]
    names: tuple[Schema, ...]
    first: tuple[Schema, ...]
    rest: tuple[Schema, ...]
    each: tuple[Schema, ...]
    unevaluated: bool
    weight: int
    width: int
    matching: int

    @property
    def of_members(self) -> int:
        """How many schemas one member of an object meets at most."""
        return len(self.patterns) + bool(self.properties or self.others)

    @property
    def of_items(self) -> int:
        """How many schemas one item of an array meets at most."""
        return len(self.each) + bool(self.first or self.rest)


def beside(node: Node, document: SchemaDocument) -> Iterator[Node]:
    """The schemas that are asked about the same value as ``node``."""
    for keyword, value in node.items():
        if keyword in _SAME:
            held = value if isinstance(value, list) else value.values() if keyword in _BY_NAME else (value,)
            yield from (one for one in held if isinstance(one, dict))
    target = document.targets.get(id(node))
    if isinstance(target, dict):
        yield target


def parts_of(node: Node, document: SchemaDocument, matching: Mapping[str, int]) -> Parts:
    properties, patterns = node.get("properties"), node.get("patternProperties")
    items = node.get("items")
    first = items if isinstance(items, list) else node.get("prefixItems")
    rest = node.get("additionalItems") if isinstance(items, list) else items
    return Parts(
        beside=tuple(beside(node, document)),
        properties=properties if isinstance(properties, dict) else {},
        patterns=tuple(patterns.values()) if isinstance(patterns, dict) else (),
        others=_asked(node.get("additionalProperties"), node.get("unevaluatedProperties")),
        names=_asked(node.get("propertyNames")),
        first=tuple(first) if isinstance(first, list) else (),
        rest=_asked(rest, node.get("unevaluatedItems")),
        each=_asked(node.get("contains")),
        unevaluated="unevaluatedProperties" in node or "unevaluatedItems" in node,
        weight=_weight(node),
        width=sum(len(held) for keyword in _WIDE if isinstance(held := node.get(keyword), dict | list)),
        matching=sum(matching.get(text, 0) for text in patterns) if isinstance(patterns, dict) else 0,
    )


def _weight(node: Node) -> int:
    """How many steps the keywords of one schema cost for one value."""
    choices = node.get("enum")
    weight = 1 + (PATTERN_STEPS if "pattern" in node else 0)
    if not isinstance(choices, list):
        return weight
    large = any(isinstance(choice, dict | list) for choice in choices)
    return weight + (len(choices) if large else len(choices) // CHOICES_A_STEP)


def _asked(*schemas: Any) -> tuple[Schema, ...]:
    return tuple(one for one in schemas if isinstance(one, dict | bool))
