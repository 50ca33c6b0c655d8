"""The environment of an MCP server that we start (D72, P90)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.config.child_environment import is_possible, is_safe
from app.mcp.client.server_entry import ServerEntry

FURTHER_NAMES = frozenset({"TERM", "PROGRAMFILES(X86)", "PROCESSOR_ARCHITECTURE"})
"""Names, in capitals, that the SDK gives to servers too."""


def server_environment(entry: ServerEntry, environ: Mapping[str, str], ours: Callable[[str], bool]) -> dict[str, str]:
    """The variables of a server's process: a safe part of ``environ``, and what its entry lists.

    With ``inheritEnv`` it is all of ``environ`` but those names that are ``ours``: settings and keys of this server.
    """
    found = {
        name: value
        for name, value in environ.items()
        if not value.startswith("()") and (_safe(name) or (entry.inherit_env and not ours(name)))
    }
    found.update(entry.env)
    return {name: value for name, value in found.items() if is_possible(name, value)}


def _safe(name: str) -> bool:
    return is_safe(name) or name.upper() in FURTHER_NAMES
