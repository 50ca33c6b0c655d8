"""What checking a value against a schema costs, known before it is done.

The library cannot be stopped half-way, and some schemas make it go over the same value again and again: alternatives of
alternatives, each with the same members below. So the work is counted first, as the number of pairs of a value and a
schema that is held against it. For steady schemas that is a product; for the others the value is gone through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from app.tools.schemas.document import Schema
from app.tools.schemas.graph import SchemaGraph
from app.tools.schemas.parts import Parts

MAX_STEPS = 4_000_000
"""Pairs of a value and a schema in one check; the library does thirty in a microsecond."""

MAX_COUNTED = 200_000
"""Steps of counting, each about a microsecond."""

MAX_VALUE_DEPTH = 200

ERROR_CHARS = 3000
"""What one error costs beside its copy of the value."""

CHARS_A_STEP = 64
"""How many characters count as one step."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a value is: characters as JSON, values and objects in it, all at most."""

    chars: int
    values: int
    objects: int


@dataclass(frozen=True, slots=True)
class Steps:
    """What a check costs at most: pairs of a value and a schema, and what patterns of names cost."""

    pairs: int
    matching: int


class TooCostlyError(ValueError):
    """The value and the schema together are too large to be checked."""


def steps(graph: SchemaGraph, value: Any, size: Size) -> Steps:
    """What the check of ``value`` costs at most; raises TooCostlyError above the limits."""
    if graph.steady:
        pairs = graph.heaviest * (size.values + size.chars // CHARS_A_STEP) + graph.widest * size.objects
        found = Steps(pairs, graph.dearest * size.chars)
    else:
        counting = _Counting(graph)
        counting.value(value)
        found = Steps(counting.pairs, counting.matching)
    if found.pairs > MAX_STEPS:
        raise TooCostlyError
    return found


def explaining(graph: SchemaGraph, value: Any) -> int:
    """What it costs to have all errors of ``value`` explained, in characters; raises TooCostlyError.

    Each error of the library holds a copy of the value that it is about, also those of all alternatives.
    """
    counting = _Counting(graph)
    counting.value(value)
    return counting.copied + counting.pairs * ERROR_CHARS


class _Place:
    """All schemas that are asked about the value at one place, and the places below it, as far as they were asked for.

    Values with the same schemas share a place, so the items of a long array cost as much to count as one.
    """

    __slots__ = ("asking", "first", "items", "matching", "members", "named", "names", "pairs", "width")

    def __init__(self, asking: list[tuple[Parts, int]], booleans: int, graph: SchemaGraph) -> None:
        self.asking = asking
        self.pairs = booleans + sum(parts.weight * times for parts, times in asking)
        self.width = sum(parts.width * times for parts, times in asking)
        self.names = sum(graph.alone(schema) * times for parts, times in asking for schema in parts.names)
        self.matching = sum(parts.matching * times for parts, times in asking)
        self.named = frozenset(name for parts, _ in asking for name in parts.properties)
        self.first = max((len(parts.first) for parts, _ in asking), default=0)
        self.members: dict[tuple[str | None, int], _Place] = {}
        self.items: dict[tuple[int, int], _Place] = {}


class _Counting:
    """Goes through one value with the schemas that are asked about each part of it."""

    def __init__(self, graph: SchemaGraph) -> None:
        self.pairs = 0
        self.matching = 0
        self.copied = 0
        self._graph = graph
        self._spent = 0
        self._places: dict[tuple[frozenset[tuple[int, int]], int, int], _Place] = {}

    def value(self, value: Any) -> None:
        """Count what is asked about ``value``; raises TooCostlyError."""
        self._below(value, self._place(Counter({id(self._graph.root): 1}), 0, _size(value)), 0)

    def _below(self, value: Any, place: _Place, depth: int) -> int:
        """Count for the value at one place; its length, about."""
        self._spend(1)
        chars = len(value) if isinstance(value, str) else 8
        self.pairs += place.pairs
        if self.pairs > MAX_STEPS or depth > MAX_VALUE_DEPTH:
            raise TooCostlyError
        if isinstance(value, dict):
            self.pairs += place.width
            for name, one in value.items():
                self.pairs += place.names
                self.matching += place.matching * (len(name) + 1)
                chars += len(name) + self._below(one, self._of_member(place, name, _size(one)), depth + 1)
        elif isinstance(value, list):
            for number, one in enumerate(value):
                chars += self._below(one, self._of_item(place, number, _size(one)), depth + 1)
        self.copied += place.pairs * chars
        return chars

    def _of_member(self, place: _Place, name: str, size: int) -> _Place:
        key = (name if name in place.named else None, size)
        below = place.members.get(key)
        if below is None:
            asked = (
                ((*parts.patterns, *((parts.properties[name],) if name in parts.properties else parts.others)), times)
                for parts, times in place.asking
            )
            below = place.members[key] = self._joined(asked, size)
        return below

    def _of_item(self, place: _Place, number: int, size: int) -> _Place:
        key = (min(number, place.first), size)
        below = place.items.get(key)
        if below is None:
            asked = (
                ((*parts.each, *(parts.first[number : number + 1] or parts.rest)), times)
                for parts, times in place.asking
            )
            below = place.items[key] = self._joined(asked, size)
        return below

    def _joined(self, asked: Iterable[tuple[tuple[Schema, ...], int]], size: int) -> _Place:
        roots: Counter[int] = Counter()
        booleans = 0
        for schemas, times in asked:
            self._spend(1 + len(schemas))
            for schema in schemas:
                if isinstance(schema, dict):
                    roots[id(schema)] += times
                else:
                    booleans += times
        return self._place(roots, booleans, size)

    def _place(self, roots: Counter[int], booleans: int, size: int) -> _Place:
        key = (frozenset(roots.items()), booleans, size)
        place = self._places.get(key)
        if place is None:
            asked: Counter[int] = Counter()
            for root, times in roots.items():
                found = self._graph.asked(root, size, self._spend)
                self._spend(len(found))
                for one, count in found.items():
                    asked[one] += times * count
            asking = [(self._graph.parts(self._graph.node(one)), times) for one, times in asked.items()]
            place = self._places[key] = _Place(asking, booleans, self._graph)
        return place

    def _spend(self, steps: int) -> None:
        self._spent += steps
        if self._spent > MAX_COUNTED:
            raise TooCostlyError


def _size(value: Any) -> int:
    """The number of members, rounded up to a power of two so that few sizes are told apart."""
    return 1 << (len(value) - 1).bit_length() if isinstance(value, dict | list) and value else 0
