"""What checking a value against a schema costs, known before it is done.

The library cannot be stopped half-way, and some schemas make it go over the same value again and again: alternatives of
alternatives, each with the same members below. So the work is counted first, as the number of pairs of a value and a
schema that is held against it. For most schemas that is a product: at each place of the value only so many schemas are
asked, however deep it is (``Effort.steady``). For the others the value is gone through with a count for each schema.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from app.errors import both
from app.tools.schemas.document import Node, Schema, SchemaDocument, SchemaError

MAX_STEPS = 4_000_000
"""Pairs of a value and a schema in one check; the library does thirty in a microsecond."""

MAX_COUNTED = 100_000
"""Steps of counting, each about a microsecond."""

MAX_CHAIN = 64
"""How many schemas may be inside each other for one and the same value."""

MAX_RINGS = 100

MAX_SHARED = 2000
"""How many different schemas may be asked about one and the same value, where they have to be counted."""

MAX_VALUE_DEPTH = 200

_CAP = 1 << 40
CHOICES_A_STEP = 16
CHARS_A_STEP = 64
"""How many choices of ``enum``, and how many characters, count as one step."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a value is: characters as JSON, values and objects in it, both at most."""

    chars: int
    values: int
    objects: int


@dataclass(frozen=True, slots=True)
class Steps:
    """What a check costs at most: pairs of a value and a schema, and what patterns of names cost."""

    pairs: int
    matching: int


_WIDE = ("properties", "required", "dependentRequired", "dependentSchemas", "dependencies")
"""Keywords that are gone through name by name, whatever the object holds."""


class TooCostlyError(ValueError):
    """The value and the schema together are too large to be checked."""


@dataclass(frozen=True, slots=True)
class _Parts:
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


@dataclass(frozen=True, slots=True)
class _Sum:
    """Of a schema and all that is asked beside it: how heavy, how wide, how many for one member and for one item."""

    weight: int
    width: int
    members: int
    items: int
    unevaluated: bool

    def __add__(self, other: _Sum) -> _Sum:
        return _Sum(
            min(_CAP, self.weight + other.weight),
            min(_CAP, self.width + other.width),
            min(_CAP, self.members + other.members),
            min(_CAP, self.items + other.items),
            self.unevaluated or other.unevaluated,
        )


class Effort:
    """The cost of checking values against one schema; raises SchemaError when the schema itself is too intricate.

    ``matching`` holds what each pattern of ``patternProperties`` costs for a character. Where schemas ask themselves
    about the same value, as ``{"$ref": "#"}`` does, the reference that closes the ring says nothing and is taken out
    of the document (P87).
    """

    def __init__(self, document: SchemaDocument, matching: Mapping[str, int]) -> None:
        self._document = document
        self._matching = matching
        self._parts: dict[int, _Parts] = {}
        self._sums: dict[int, _Sum] = {}
        self._closures: dict[tuple[int, int], Counter[int]] = {}
        self._by_id: dict[int, Node] = {id(node): node for node in document.nodes}
        for _ in range(MAX_RINGS):
            if not self._ring_cut():
                break
        else:
            raise _intricate()
        sums = [self._summed(node) for node in document.nodes]
        self.steady = all(one.members <= 1 and one.items <= 1 and not one.unevaluated for one in sums)
        self._heaviest = max((one.weight for one in sums), default=1)
        self._widest = max((one.width for one in sums), default=0)
        self._dearest = max((parts.matching for parts in self._parts.values()), default=0)

    def steps(self, value: Any, size: Size) -> Steps:
        """What the check of ``value`` costs at most; raises TooCostlyError above the limits."""
        if self.steady:
            pairs = self._heaviest * (size.values + size.chars // CHARS_A_STEP) + self._widest * size.objects
            steps = Steps(pairs, self._dearest * size.chars)
        else:
            counting = _Counting(self)
            counting.value(value, Counter({id(self._document.root): 1}), 0)
            steps = Steps(counting.pairs, counting.matching)
        if steps.pairs > MAX_STEPS:
            raise TooCostlyError
        return steps

    def parts(self, node: Node) -> _Parts:
        """What ``node`` consists of."""
        held = self._parts.get(id(node))
        if held is None:
            held = self._parts[id(node)] = _parts(node, self._document, self._matching)
        return held

    def asked(self, root: int, size: int) -> Counter[int]:
        """All schemas that are asked about a value of ``size`` members when ``root`` is, with how often."""
        unevaluated = self._sums[root].unevaluated
        key = (root, size if unevaluated else 0)
        held = self._closures.get(key)
        if held is None:
            node = self._by_id[root]
            parts = self.parts(node)
            held = Counter({root: 1})
            for child in parts.beside:
                held.update(self.asked(id(child), size))
            if parts.unevaluated:  # the library asks all parts again for each member
                held = Counter({one: min(_CAP, count * (2 + size)) for one, count in held.items()})
            if len(held) > MAX_SHARED:
                raise TooCostlyError
            if len(self._closures) > MAX_SHARED:
                self._closures.clear()
            self._closures[key] = held
        return held

    def alone(self, schema: Schema) -> int:
        """What a schema costs for a value that holds no others."""
        return self._sums[id(schema)].weight if isinstance(schema, dict) else 1

    def node(self, identity: int) -> Node:
        """The schema with this ``id()``."""
        return self._by_id[identity]

    def _summed(self, node: Node) -> _Sum:
        held = self._sums.get(id(node))
        if held is None:
            parts = self.parts(node)
            held = _Sum(parts.weight, parts.width, parts.of_members, parts.of_items, parts.unevaluated)
            for child in parts.beside:
                held += self._summed(child)
            self._sums[id(node)] = held
        return held

    def _ring_cut(self) -> bool:
        """Cut the first ring of schemas that ask each other about one value; false when there is none."""
        heights: dict[int, int] = {}
        return any(self._cut_below(node, [], heights) for node in self._document.nodes)

    def _cut_below(self, node: Node, above: list[Node], heights: dict[int, int]) -> bool:
        if id(node) in heights:
            return False
        above.append(node)
        height = 0
        for child in _beside(node, self._document):
            places = [place for place, one in enumerate(above) if one is child]
            if places:
                self._cut([*above[places[0] :], child])
                return True
            if len(above) > MAX_CHAIN:
                raise _intricate()
            if self._cut_below(child, above, heights):
                return True
            height = max(height, heights[id(child)])
        above.pop()
        heights[id(node)] = height + 1
        if height >= MAX_CHAIN:
            raise _intricate()
        return False

    def _cut(self, ring: list[Node]) -> None:
        """Take the last reference out of a ring; there is one, as a schema cannot hold itself."""
        targets = self._document.targets
        for node, child in reversed(list(pairwise(ring))):
            if targets.get(id(node)) is child:
                del targets[id(node)]
                del node["$ref"]
                return


class _Counting:
    """Goes through one value with the schemas that are asked about each part of it."""

    def __init__(self, effort: Effort) -> None:
        self.pairs = 0
        self.matching = 0
        self._effort = effort
        self._counted = 0

    def value(self, value: Any, roots: Counter[int], depth: int) -> None:
        size = len(value) if isinstance(value, dict | list) else 0
        asked: Counter[int] = Counter()
        for root, times in roots.items():
            for one, count in self._effort.asked(root, size).items():
                asked[one] += times * count
        self._spend(len(asked))
        asking = [(self._effort.parts(self._effort.node(one)), times) for one, times in asked.items()]
        wide = isinstance(value, dict)
        self.pairs += sum((parts.weight + parts.width * wide) * times for parts, times in asking)
        if self.pairs > MAX_STEPS or depth > MAX_VALUE_DEPTH:
            raise TooCostlyError
        if isinstance(value, dict):
            for name, one in value.items():
                self._below(one, (self._of_member(parts, name, times) for parts, times in asking), len(asking), depth)
        elif isinstance(value, list):
            for place, one in enumerate(value):
                self._below(one, (self._of_item(parts, place, times) for parts, times in asking), len(asking), depth)

    def _below(self, value: Any, asked: Iterator[tuple[tuple[Schema, ...], int]], steps: int, depth: int) -> None:
        self._spend(steps)
        roots: Counter[int] = Counter()
        for schemas, times in asked:
            for schema in schemas:
                self.pairs += times
                if isinstance(schema, dict):
                    roots[id(schema)] += times
        if roots:
            self.value(value, roots, depth + 1)

    def _of_member(self, parts: _Parts, name: str, times: int) -> tuple[tuple[Schema, ...], int]:
        self.pairs += sum(self._effort.alone(schema) for schema in parts.names) * times
        self.matching += parts.matching * (len(name) + 1) * times
        own = parts.properties.get(name)
        return (*parts.patterns, *((own,) if own is not None else parts.others)), times

    def _of_item(self, parts: _Parts, place: int, times: int) -> tuple[tuple[Schema, ...], int]:
        return (*parts.each, *(parts.first[place : place + 1] or parts.rest)), times

    def _spend(self, steps: int) -> None:
        self._counted += steps + 1
        if self._counted > MAX_COUNTED:
            raise TooCostlyError


def _beside(node: Node, document: SchemaDocument) -> Iterator[Node]:
    """The schemas that are asked about the same value as ``node``."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from _schemas(node.get(keyword))
    for keyword in ("not", "if", "then", "else"):
        yield from _schemas([node.get(keyword)])
    for keyword in ("dependentSchemas", "dependencies"):
        held = node.get(keyword)
        yield from _schemas(list(held.values()) if isinstance(held, dict) else None)
    yield from _schemas([document.targets.get(id(node))])


def _schemas(value: Any) -> list[Node]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _parts(node: Node, document: SchemaDocument, matching: Mapping[str, int]) -> _Parts:
    properties, patterns = node.get("properties"), node.get("patternProperties")
    items, choices = node.get("items"), node.get("enum")
    first = items if isinstance(items, list) else node.get("prefixItems")
    rest = node.get("additionalItems") if isinstance(items, list) else items
    return _Parts(
        beside=tuple(_beside(node, document)),
        properties=properties if isinstance(properties, dict) else {},
        patterns=tuple(patterns.values()) if isinstance(patterns, dict) else (),
        others=_asked(node.get("additionalProperties"), node.get("unevaluatedProperties")),
        names=_asked(node.get("propertyNames")),
        first=tuple(first) if isinstance(first, list) else (),
        rest=_asked(rest, node.get("unevaluatedItems")),
        each=_asked(node.get("contains")),
        unevaluated="unevaluatedProperties" in node or "unevaluatedItems" in node,
        weight=1 + (len(choices) // CHOICES_A_STEP if isinstance(choices, list) else 0) + 3 * ("pattern" in node),
        width=sum(len(held) for keyword in _WIDE if isinstance(held := node.get(keyword), dict | list)),
        matching=sum(matching.get(text, 0) for text in patterns) if isinstance(patterns, dict) else 0,
    )


def _asked(*schemas: Any) -> tuple[Schema, ...]:
    return tuple(one for one in schemas if isinstance(one, dict | bool))


def _intricate() -> SchemaError:
    return SchemaError(
        both(
            f"schema 过于复杂：对同一个值的引用与组合最多 {MAX_CHAIN} 层",
            f"the schema is too intricate: at most {MAX_CHAIN} schemas may be inside each other for one value",
        )
    )
