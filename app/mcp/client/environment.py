"""The environment of an MCP server that we start (D72, P90)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from app.mcp.client.server_entry import ServerEntry

SAFE_NAMES = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"}
    | {"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP"}
    | {"TMP", "USERNAME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA"}
    | {"LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROCESSOR_ARCHITECTURE"}
)
"""Names, in capitals, that every server may see: where things are, the language, proxies and certificates."""

SAFE_PREFIXES = ("LC_", "XDG_")

VARIABLE_BYTES = 131_071
"""Longest ``NAME=value`` that Linux hands to a new process; a longer one would make every start fail."""


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
    return {name: value for name, value in found.items() if _possible(name, value)}


def _safe(name: str) -> bool:
    return name.upper() in SAFE_NAMES or name.startswith(SAFE_PREFIXES)


def _possible(name: str, value: str) -> bool:
    if not name or "=" in name or "\0" in name or "\0" in value:
        return False
    try:
        return len(os.fsencode(name)) + len(os.fsencode(value)) + 1 < VARIABLE_BYTES
    except UnicodeEncodeError:
        return False
