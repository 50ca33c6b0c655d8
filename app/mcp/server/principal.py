"""Who called ``/mcp``, as far as sessions and signed states are concerned (mcp.md MCP-41). Knows nothing of the SDK."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever showed the server's key is one and the same; of a token its client, its person and who made it."""

    client: str
    subject: str | None = None
    issuer: str | None = None


KEY_HOLDER = Principal("key")
"""Whoever has the server's key."""
