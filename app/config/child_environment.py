"""What every process that we start may see of our environment, and what no process can be given (B9, D72)."""

from __future__ import annotations

import os

_SAFE_NAMES = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"}
    | {"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERNAME", "USERPROFILE"}
    | {"HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES"}
)
"""Names in capitals: where things are, the language, proxies and certificates."""

_SAFE_PREFIXES = ("LC_", "XDG_")

_VARIABLE_BYTES = 131_071
"""Longest ``NAME=value`` that Linux hands to a new process; a longer one would make every start fail."""


def is_safe(name: str) -> bool:
    """Whether a variable of this name holds nothing that is secret."""
    return name.upper() in _SAFE_NAMES or name.startswith(_SAFE_PREFIXES)


def is_possible(name: str, value: str) -> bool:
    """Whether a process can be started with this variable."""
    if not name or "=" in name or "\0" in name or "\0" in value:
        return False
    try:
        return len(os.fsencode(name)) + len(os.fsencode(value)) + 1 < _VARIABLE_BYTES
    except UnicodeEncodeError:
        return False
