"""What decides which of a server's tools are there. Pure."""

from __future__ import annotations

import hashlib
import json
from fnmatch import fnmatchcase

from app.mcp.client.server_entry import ServerEntry


def identity_of(entry: ServerEntry) -> str:
    """What is behind a server's name, so that a list that was kept for something else is not used."""
    what = [entry.kind, entry.command, entry.args, entry.cwd, entry.url]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def wanted(tool: str, entry: ServerEntry) -> bool:
    """Whether the entry lets a tool of this name in."""
    shown = not entry.allow or any(fnmatchcase(tool, pattern) for pattern in entry.allow)
    return shown and not any(fnmatchcase(tool, pattern) for pattern in entry.deny)
