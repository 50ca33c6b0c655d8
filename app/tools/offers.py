"""What one door offers: which tools, under which names, with which schemas (D5, D68, D70; mcp.md MCP-15, MCP-20)."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from app.extend import LOCAL, Json, ToolCommand, ToolSpec
from app.tools.catalogue import Catalogue, Listed
from app.tools.names import RestrictedNames

DESCRIPTION_BYTES = 8 * 1024
"""Longest description that is shown (MCP-20)."""

MCP_NAME_CHARS = 128

OPEN_OBJECT: Mapping[str, Json] = MappingProxyType({"type": "object", "additionalProperties": True})
"""The schema of a command that declares no parameters: nothing is guessed from prose (D70)."""

_NO_MCP_NAME = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class DoorRules:
    """Which tools a door shows and lets in: those that a pattern of ``allow`` fits (empty: all), without ``deny``.

    A pattern is a name, with ``*`` and ``?`` for what may be anything. It is compared with the listed name, with that
    of the whole tool, and with ``group:NAME`` for each of its groups; capitals count.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def shows(self, listed: Listed) -> bool:
        """Whether the door has this tool."""
        names = {listed.name, listed.spec.name, *(f"group:{group}" for group in listed.spec.groups)}
        return (not self.allow or _fits(names, self.allow)) and not _fits(names, self.deny)


def _fits(names: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Offered:
    """One tool as a door offers it; ``full_name`` is what the router knows it by, ``name`` what the door writes."""

    name: str
    full_name: str
    title: str
    description: str
    input_schema: Mapping[str, Json]
    spec: ToolSpec
    command: ToolCommand | None


class Naming(Protocol):
    """Gives tools the names that a door may write; the first of ``groups`` never loses a name to a later one."""

    def __call__(self, *groups: Sequence[str]) -> Mapping[str, str]:
        """The door's name of each full name; no two are equal."""
        ...


def restricted_naming(*groups: Sequence[str]) -> Mapping[str, str]:
    """Names of 1 to 64 letters, digits, ``_`` and ``-``, for native calls and OpenAPI (D68)."""
    names = RestrictedNames(*groups)
    return {name: names.restricted(name) for group in groups for name in group}


def mcp_naming(*groups: Sequence[str]) -> Mapping[str, str]:
    """Names of MCP tools: what is no letter, digit, ``_``, ``.``, ``-`` becomes ``_``, collisions get ``_2`` (MCP-20).

    A name that is legal already is never given to another tool.
    """
    named: dict[str, str] = {}
    taken: set[str] = set()
    for group in groups:
        legal = [name for name in group if name and len(name) <= MCP_NAME_CHARS and not _NO_MCP_NAME.search(name)]
        for name in legal:
            if name not in taken:
                named[name] = name
                taken.add(name)
        for name in sorted(set(group) - named.keys()):
            plain = _NO_MCP_NAME.sub("_", name)[:MCP_NAME_CHARS] or "_"
            candidate, number = plain, 1
            while candidate in taken:
                number += 1
                ending = f"_{number}"
                candidate = plain[: MCP_NAME_CHARS - len(ending)] + ending
            named[name] = candidate
            taken.add(candidate)
    return named


class Offers:
    """The tools of one door, made anew when the router's catalogue or the door's rules are others.

    Tools come by name, commands in their manifest's order (D69); local names have the first choice.
    """

    def __init__(
        self, catalogue: Callable[[], Catalogue], rules: Callable[[], DoorRules], naming: Naming = mcp_naming
    ) -> None:
        self._catalogue = catalogue
        self._rules = rules
        self._naming = naming
        self._made_of: tuple[Catalogue, DoorRules] | None = None
        self._all: tuple[Offered, ...] = ()
        self._by_name: Mapping[str, Offered] = {}

    def all(self) -> tuple[Offered, ...]:
        """All that the door offers; the same object while nothing has changed."""
        catalogue, rules = self._catalogue(), self._rules()
        if self._made_of is None or self._made_of[0] is not catalogue or self._made_of[1] != rules:
            self._make(catalogue, rules)
        return self._all

    def get(self, name: str) -> Offered | None:
        """The tool of a name that this door writes; None for others, and for what the door does not show."""
        self.all()
        return self._by_name.get(name)

    def _make(self, catalogue: Catalogue, rules: DoorRules) -> None:
        listed = [entry for entry in catalogue.listed() if rules.shows(entry)]
        local = [entry.name for entry in listed if entry.spec.origin == LOCAL]
        names = self._naming(local, [entry.name for entry in listed if entry.spec.origin != LOCAL])
        self._all = tuple(_offered(names[entry.name], entry) for entry in listed)
        self._by_name = MappingProxyType({offered.name: offered for offered in self._all})
        self._made_of = catalogue, rules


def _offered(name: str, listed: Listed) -> Offered:
    spec, command = listed.spec, listed.command
    title = (command.title if command is not None else "") or spec.display
    commands = (command,) if command is not None else spec.commands
    texts = [_description(one) for one in commands if one.description]
    parameters = command.parameters if command is not None else None
    return Offered(
        name,
        listed.name,
        title,
        _cut("\n\n".join(texts) or title),
        OPEN_OBJECT if parameters is None else _object_schema(parameters),
        spec,
        command,
    )


def _description(command: ToolCommand) -> str:
    return f"{command.description}\n\n{command.example}" if command.example else command.description


def _object_schema(parameters: Mapping[str, Json]) -> Mapping[str, Json]:
    """The schema with an object at its root, as all doors want it; the rest is as it was written."""
    return parameters if parameters.get("type") == "object" else {**parameters, "type": "object"}


def _cut(text: str) -> str:
    data = text.encode("utf-8", "replace")
    return text if len(data) <= DESCRIPTION_BYTES else data[:DESCRIPTION_BYTES].decode("utf-8", "ignore") + "…"
