"""Which node takes a call when several offer the tool (D60). Pure: values in, choices out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from app.extend import ToolSpec

N = TypeVar("N")

LATENCY_STEP = 0.01
"""Seconds by which latencies must differ to count; what is closer takes turns."""

UNKNOWN_CAPACITY = 1
"""Calls at a time that count as a full load where the manifest does not say ``maxRunning``."""


@dataclass(frozen=True, slots=True)
class Offer(Generic[N]):
    """A node that offers a tool; ``schema`` is that of :func:`schema_of`."""

    node: N
    spec: ToolSpec
    schema: str


@dataclass(frozen=True, slots=True)
class Pool(Generic[N]):
    """The nodes that can stand in for each other, and those that offer another tool under the same name."""

    members: tuple[Offer[N], ...]
    outside: tuple[Offer[N], ...] = ()

    @property
    def spec(self) -> ToolSpec:
        """The tool as the longest member describes it."""
        return self.members[0].spec


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a node is: calls that ``running`` of a ``capacity`` (None: unknown), ``latency`` in seconds (None: not
    measured yet), and the number of its ``last`` turn, 0 before the first.
    """

    running: int
    capacity: int | None = None
    latency: float | None = None
    last: int = 0


def pool_of(offers: Iterable[Offer[N]]) -> Pool[N] | None:
    """The pool of one name: all that offer what the first of them offers; None without any."""
    listed = tuple(offers)
    if not listed:
        return None
    first = listed[0].schema
    return Pool(
        tuple(offer for offer in listed if offer.schema == first),
        tuple(offer for offer in listed if offer.schema != first),
    )


def offer_of(node: N, spec: ToolSpec, schema: str, allowed: Callable[[str], bool] = lambda _name: True) -> Offer[N]:
    """That this node offers this tool, which has this ``schema_of``.

    Its commands keep those names of their own (D69) that are ``allowed``; with or without them it is the same tool.
    """
    if any(command.tool_name and not allowed(command.tool_name) for command in spec.commands):
        kept = (
            replace(one, tool_name=None) if one.tool_name and not allowed(one.tool_name) else one
            for one in spec.commands
        )
        spec = replace(spec, commands=tuple(kept))
    return Offer(node, spec, schema)


def schema_of(spec: ToolSpec) -> str:
    """What two tools must have in common to be one, as a text: how they are called.

    Without ``parameters`` only the description says that, so then it counts, apart from its blanks (D70). Time limits,
    names for people and the like may differ.
    """
    commands = [
        [
            command.id,
            command.command,
            command.tool_name,
            command.typed,
            command.parameters if command.parameters is not None else command.description.split(),
        ]
        for command in spec.commands
    ]
    return json.dumps([spec.callable, commands], sort_keys=True)


def least_busy(loads: Sequence[Load]) -> int:
    """The index of who takes the next call: by running calls per capacity, then latency, then whose turn it is."""
    return min(range(len(loads)), key=lambda index: _rank(loads[index]))


def _rank(load: Load) -> tuple[float, float, int]:
    latency = float("inf") if load.latency is None else round(load.latency / LATENCY_STEP)
    return load.running / (load.capacity or UNKNOWN_CAPACITY), latency, load.last
