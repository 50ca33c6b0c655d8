"""Who sent a request to ``/mcp``, as the web layer found out (mcp.md MCP-41). Knows nothing of the SDK."""

from __future__ import annotations

from dataclasses import dataclass

HTTP_CALLER = "vcp.mcp_caller"
"""Key of the ASGI scope under which the ``HttpCaller`` of a request is."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever showed the server's key is one and the same; of a token its client, its person and who made it.

    Sessions and signed states belong to one.
    """

    client: str
    subject: str | None = None
    issuer: str | None = None


KEY_HOLDER = Principal("key")
"""Whoever has the server's key."""


@dataclass(frozen=True, slots=True)
class HttpCaller:
    """A request's sender: who it is, from where, and how deep in a chain of chats and tools it stands."""

    principal: Principal
    address: str | None = None
    depth: int = 0
