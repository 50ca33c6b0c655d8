"""Who is signed in where, and who has to: the OAuth side of all MCP servers (mcp.md 2.6; MCP-73 to MCP-79)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx2
from mcp_types import LATEST_PROTOCOL_VERSION

from app.errors import VcpError, both
from app.extend import Clock
from app.mcp.client.oauth.callback import Callback
from app.mcp.client.oauth.errors import SignInError
from app.mcp.client.oauth.provider import RegisteredClient, SignedInAuth
from app.mcp.client.oauth.store import OAuthStore
from app.mcp.client.oauth.turn import turn
from app.mcp.client.server_entry import ServerEntry, ServerKind

SIGN_IN_SECONDS = 300.0
"""How long a person has for the browser; then the listener is closed."""

REQUEST_SECONDS = 30.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SignInNeeded:
    """A server lets nobody in until a person has signed in. ``url`` is the page for that while one waits for it."""

    server: str
    since: float
    challenge: str = ""
    url: str = ""
    error: str = ""
