"""What clients of the Model Context Protocol want in their configuration to start us, or to reach us."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from app.cli.own_command import OwnCommand
from app.extend import Json

NAME = "vcp"
"""What we are called there."""


def started(client: str, command: OwnCommand, words: Sequence[str]) -> dict[str, Json]:
    """The configuration of a client that starts ``command`` with these words and speaks to it over its pipes."""
    entry: dict[str, Json] = {"command": command.program, "args": [*command.arguments, *words]}
    if command.environment:
        entry["env"] = dict(command.environment)
    return _servers(_STARTED[client](entry))


def reached(client: str, url: str, key: str) -> dict[str, Json]:
    """The configuration of a client that speaks to a running server at ``url`` with the server's key."""
    return _servers(_REACHED[client](url, {"Authorization": f"Bearer {key}"}))


def _servers(entry: dict[str, Json]) -> dict[str, Json]:
    return {"mcpServers": {NAME: entry}}


_STARTED: Mapping[str, Callable[[dict[str, Json]], dict[str, Json]]] = MappingProxyType(
    {
        "claude": lambda entry: entry,
        "cursor": lambda entry: entry,
        "cherry": lambda entry: {"name": NAME, "type": "stdio", "isActive": True, **entry},
    }
)

_REACHED: Mapping[str, Callable[[str, dict[str, str]], dict[str, Json]]] = MappingProxyType(
    {
        "claude": lambda url, headers: {"type": "http", "url": url, "headers": headers},
        "cursor": lambda url, headers: {"url": url, "headers": headers},
        "cherry": lambda url, headers: {
            "name": NAME,
            "type": "streamableHttp",
            "isActive": True,
            "baseUrl": url,
            "headers": headers,
        },
    }
)

CLIENTS: tuple[str, ...] = tuple(_STARTED)
"""The clients whose configuration we know."""
