"""Which schemas of a document are asked about one and the same value, and how often.

In most schemas one schema meets each part of a value, however deep it is (``SchemaGraph.steady``). In others, such as
alternatives that share their members, the number may grow from level to level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from app.errors import both
from app.tools.schemas.document import Node, Schema, SchemaDocument, SchemaError
from app.tools.schemas.parts import Parts, beside, parts_of

MAX_CHAIN = 64
"""How many schemas may be inside each other for one and the same value."""

MAX_RINGS = 20

MAX_KEPT = 20_000
"""How much of what was found out is kept for the next time."""

_CAP = 1 << 40


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


class SchemaGraph:
    """The schemas of a document and which ask which; raises SchemaError when that is too intricate.

    ``matching`` holds what each pattern of ``patternProperties`` costs for a character. Where schemas ask themselves
    about the same value, as ``{"$ref": "#"}`` does, the reference that closes the ring says nothing and is taken out
    of the document (P87).
    """

    def __init__(self, document: SchemaDocument, matching: Mapping[str, int]) -> None:
        self.root = document.root
        self._document = document
        self._matching = matching
        self._parts: dict[int, Parts] = {}
        self._sums: dict[int, _Sum] = {}
        self._closures: dict[tuple[int, int], Counter[int]] = {}
        self._kept = 0
        self._by_id: dict[int, Node] = {id(node): node for node in document.nodes}
        for _ in range(MAX_RINGS):
            if not self._ring_cut():
                break
        else:
            raise _intricate()
        sums = [self._summed(node) for node in document.nodes]
        self.steady = all(one.members <= 1 and one.items <= 1 and not one.unevaluated for one in sums)
        self.heaviest = max((one.weight for one in sums), default=1)
        self.widest = max((one.width for one in sums), default=0)
        self.dearest = max((parts.matching for parts in self._parts.values()), default=0)

    def parts(self, node: Node) -> Parts:
        """What ``node`` consists of."""
        held = self._parts.get(id(node))
        if held is None:
            held = self._parts[id(node)] = parts_of(node, self._document, self._matching)
        return held

    def asked(self, root: int, size: int, spend: Callable[[int], None]) -> Counter[int]:
        """All schemas that are asked about a value of ``size`` members when ``root`` is, with how often.

        ``spend`` is told what it costs to find out.
        """
        if not self._sums[root].unevaluated:
            size = 0
        key = (root, size)
        held = self._closures.get(key)
        if held is not None:
            return held
        parts = self.parts(self._by_id[root])
        held = Counter({root: 1})
        for child in parts.beside:
            more = self.asked(id(child), size, spend)
            spend(len(more))
            held.update(more)
        if parts.unevaluated:  # the library asks all parts again for each member
            held = Counter({one: min(_CAP, count * (2 + size)) for one, count in held.items()})
        self._kept += len(held)
        if self._kept > MAX_KEPT:
            self._closures.clear()
            self._kept = len(held)
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
        for child in beside(node, self._document):
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


def _intricate() -> SchemaError:
    return SchemaError(
        both(
            f"schema 过于复杂：对同一个值的引用与组合最多 {MAX_CHAIN} 层",
            f"the schema is too intricate: at most {MAX_CHAIN} schemas may be inside each other for one value",
        )
    )
