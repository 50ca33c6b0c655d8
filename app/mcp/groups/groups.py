"""Which groups there are at one moment, and which tools are in them."""

from __future__ import annotations

import fnmatch
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from app.extend import LOCAL, SERVER_ORIGIN, ToolSource, ToolSpec, Trust
from app.mcp.groups.file import DeclaredGroup, GroupTable, shown
from app.protocol.group_names import name_fault
from app.tools.catalogue import Catalogue
from app.tools.offers import DoorRules, Offered, Offers

log = logging.getLogger(__name__)

MAX_ALL_GROUPS = 2_000
"""Of the file, of plugins and of servers together; further ones are left out and logged."""

ABOUT_CHARS = 200
"""Of what one plugin says of itself, in the description of a group that has none."""

ABOUTS = 3
"""So many plugins speak for such a group."""


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """The group that an MCP server is: its name and description in the configuration.

    ``error`` is why its tools cannot be had now, empty while they can, or while nobody has wanted them yet.
    """

    name: str
    description: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A tool of a group: ``name`` is how the group calls it, ``offered.full_name`` what the router knows it by."""

    name: str
    offered: Offered


@dataclass(frozen=True, slots=True)
class Group:
    """One group. ``trust`` is that of its name and description; ``server`` the MCP server that it is, or empty."""

    name: str
    description: str
    trust: Trust
    members: Mapping[str, Member]
    server: str = ""
    error: str = ""

    def find(self, name: str) -> Member | None:
        """The tool that the group or the router calls by this name."""
        member = self.members.get(name)
        if member is not None:
            return member
        return next((one for one in self.members.values() if one.offered.full_name == name), None)


@dataclass(frozen=True, slots=True)
class GroupSet:
    """All groups of one moment, in the order of the configuration; never changes."""

    groups: Mapping[str, Group]

    def available(self) -> tuple[Group, ...]:
        """The groups whose tools can be had, or tried."""
        return tuple(group for group in self.groups.values() if not group.error)

    def failed(self) -> tuple[Group, ...]:
        """The groups whose server cannot be reached."""
        return tuple(group for group in self.groups.values() if group.error)


NO_GROUPS = GroupSet(MappingProxyType({}))


class Groups:
    """Makes the groups of now, anew only when tools, file or servers are others.

    ``sources`` are all that bring tools, in the router's order, without what shows groups itself. Groups come in the
    order: those of the file, those that plugins name, the servers. What has the same name is one group, described by
    the first that describes it. A pattern fits a tool's listed name, the name of the whole tool, and where it comes
    from (``node:NAME``, ``mcp:NAME``), with ``*`` and ``?`` for what may be anything.

    Asked in the event loop only.
    """

    def __init__(
        self,
        sources: Callable[[], Sequence[ToolSource]],
        declared: Callable[[], GroupTable] = tuple,
        servers: Callable[[], Sequence[ServerGroup]] = tuple,
    ) -> None:
        self._sources = sources
        self._declared = declared
        self._servers = servers
        self._made_from: tuple[tuple[ToolSource, Mapping[str, ToolSpec]], ...] | None = None
        self._catalogue = Catalogue(())
        self._offers = Offers(lambda: self._catalogue, DoorRules, _own_names)
        self._made_of: tuple[GroupTable, Sequence[ServerGroup], Catalogue] | None = None
        self._set = NO_GROUPS
        self._told: frozenset[str] = frozenset()

    def of_now(self) -> GroupSet:
        """The groups of now; the same object while nothing has changed. Quick then: each use of the router asks."""
        table, servers, catalogue = self._declared(), self._servers(), self.catalogue()
        made_of = self._made_of
        if made_of is not None and made_of[0] is table and made_of[1] is servers and made_of[2] is catalogue:
            return self._set
        if made_of is None or made_of[0] is not table or made_of[1] != servers or made_of[2] is not catalogue:
            self._set = self._made(table, tuple(servers))
        self._made_of = table, servers, catalogue
        return self._set

    def catalogue(self) -> Catalogue:
        """All tools but those that show groups."""
        if not self._is_current():
            self._made_from = tuple((source, source.tools()) for source in self._sources())
            self._catalogue = Catalogue(self._made_from)
        return self._catalogue

    def _is_current(self) -> bool:
        made_from = self._made_from
        if made_from is None or len(made_from) != len(self._sources()):
            return False
        for source, tools in made_from:  # noqa: SIM110 - a generator costs more than all that it asks
            if source.tools() is not tools:
                return False
        return True

    def _made(self, table: GroupTable, servers: tuple[ServerGroup, ...]) -> GroupSet:
        offered = self._offers.all()
        by_name: dict[str, list[Offered]] = {}
        for one in offered:
            for group in one.spec.groups:
                by_name.setdefault(group, []).append(one)
        declared = {group.name: group for group in table}
        served = {server.name: server for server in servers}
        plugged = sorted(name for name in by_name if name not in served)
        complaints: list[str] = []
        groups: dict[str, Group] = {}
        for name in dict.fromkeys((*declared, *plugged, *served)):
            fault = name_fault(name)
            if fault is not None:
                complaints.append(f"group {shown(name)!r} is left out: {fault.value[1]}")
                continue
            if len(groups) >= MAX_ALL_GROUPS:
                complaints.append(f"more than {MAX_ALL_GROUPS} groups of tools; the rest is left out")
                break
            picked = _picked(declared[name], offered) if name in declared else []
            groups[name] = _group(name, declared.get(name), served.get(name), by_name.get(name, []), picked)
        for complaint in complaints:
            if complaint not in self._told:
                log.warning("%s", complaint)
        self._told = frozenset(complaints)
        return GroupSet(MappingProxyType(groups))


def _own_names(*groups: Sequence[str]) -> Mapping[str, str]:
    """Each tool under the name that the router knows."""
    return {name: name for group in groups for name in group}


def _picked(group: DeclaredGroup, offered: Iterable[Offered]) -> list[Offered]:
    exact = {pattern for pattern in group.tools if not re.search(r"[*?\[]", pattern)}
    wild = "|".join(fnmatch.translate(pattern) for pattern in group.tools if pattern not in exact)
    fits = re.compile(wild or "(?!)").match
    found = []
    for one in offered:
        names = {one.full_name, one.spec.name, one.spec.origin}
        if not exact.isdisjoint(names) or any(map(fits, names)):
            found.append(one)
    return found


def _group(
    name: str,
    declared: DeclaredGroup | None,
    server: ServerGroup | None,
    named: Sequence[Offered],
    picked: Sequence[Offered],
) -> Group:
    tools = sorted(
        {one.full_name: one for one in (*named, *picked)}.values(), key=lambda one: (one.spec.name, one.full_name)
    )
    members: dict[str, Member] = {}
    for one in tools:
        own = _name_inside(name, one)
        members[one.full_name if own in members else own] = Member(own, one)
    description = (declared.description if declared else "") or (server.description if server else "")
    trust = Trust.OPERATOR
    if not description:
        described = [one for one in tools if one.spec.origin == LOCAL]
        description = _about(described)
        if not description:
            description = _about(tools)
            trust = Trust.DATA
    if declared is None and server is None and all(one.spec.origin != LOCAL for one in named):
        trust = Trust.DATA  # somebody far away thought of this name
    return Group(
        name,
        " ".join(description.split()),
        trust,
        MappingProxyType(members),
        server.name if server else "",
        brief(server.error) if server and not picked else "",
    )


def _name_inside(group: str, tool: Offered) -> str:
    """The server's own name of a tool in the group of that server (MOD-13), else the name at all doors."""
    if tool.spec.origin == SERVER_ORIGIN + group:
        return tool.full_name.removeprefix(f"{group}.") or tool.full_name
    return tool.full_name


def _about(tools: Sequence[Offered]) -> str:
    """What the owners say of their tools, where nobody has described the group."""
    texts = dict.fromkeys(
        (one.spec.about.strip().partition("\n")[0][:ABOUT_CHARS] or one.spec.display).strip() for one in tools
    )
    told = [text for text in texts if text]
    return "; ".join(told[:ABOUTS]) + (" …" if len(told) > ABOUTS else "")


ERROR_CHARS = 200

_PATH = re.compile(r"file://[^\s'\"<>|]*|(?<![\w:/.\\-])(?:[A-Za-z]:[\\/]|~?/)[^\s'\"<>|:,;()]+")


def brief(error: str) -> str:
    """The first line of an error, at most ``ERROR_CHARS`` characters, with the last part only of each path (2.4)."""
    line = error.strip()[: 10 * ERROR_CHARS].partition("\n")[0].strip()
    line = _PATH.sub(lambda found: re.split(r"[\\/]", found[0].rstrip("\\/"))[-1] or "…", line)
    line = "".join(mark if mark.isprintable() else " " for mark in line)
    return line if len(line) <= ERROR_CHARS else line[: ERROR_CHARS - 1] + "…"
