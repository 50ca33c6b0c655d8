"""The tools of one server: which are there, what each is for us, and what its calls are made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType

from app.extend import ToolSpec
from app.mcp.client.results import tool_spec
from app.mcp.client.sent import SentArguments
from app.mcp.client.server_entry import ServerEntry
from app.mcp.client.status import Tool


@dataclass(frozen=True, slots=True)
class ToolList:
    """``tools`` as JSON in the server's order; ``specs`` by the name for us, ``sent`` by the server's own name.

    ``changed`` names tools that wait for a person's consent, which are in none of the others.
    """

    tools: tuple[Tool, ...] = ()
    changed: tuple[str, ...] = ()
    specs: Mapping[str, ToolSpec] = field(default_factory=lambda: MappingProxyType({}))
    sent: Mapping[str, SentArguments] = field(default_factory=lambda: MappingProxyType({}))


def tool_list(
    entry: ServerEntry,
    tools: Sequence[Tool],
    changed: tuple[str, ...],
    seconds: Callable[[str], float],
    *,
    prefix: bool,
) -> ToolList:
    """The list of those ``tools`` that the entry lets in; ``seconds`` gives the time limit of one."""
    kept = tuple(tool for tool in tools if wanted(str(tool["name"]), entry))
    specs = [tool_spec(entry, tool, seconds(str(tool["name"])), prefix=prefix) for tool in kept]
    return ToolList(
        kept,
        changed,
        MappingProxyType({spec.name: spec for spec in specs}),
        MappingProxyType({str(tool["name"]): SentArguments(tool) for tool in kept}),
    )


def identity_of(entry: ServerEntry) -> str:
    """What is behind a server's name, so that a list that was kept for something else is not used."""
    what = [entry.kind, entry.command, entry.args, entry.cwd, entry.url]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def wanted(tool: str, entry: ServerEntry) -> bool:
    """Whether the entry lets a tool of this name in."""
    shown = not entry.allow or any(fnmatchcase(tool, pattern) for pattern in entry.allow)
    return shown and not any(fnmatchcase(tool, pattern) for pattern in entry.deny)
