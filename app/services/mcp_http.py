"""The MCP server behind ``/mcp``: made with the first request, since what it needs takes half a second to load."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from app.config.settings import Settings
from app.errors import ShutdownError
from app.mcp.server.principal import Principal
from app.services.stopping import Stopping

if TYPE_CHECKING:
    from app.mcp.server.door import McpDoor
    from app.mcp.server.http_sessions import HttpSessions

log = logging.getLogger(__name__)

_MODULES = ("app.mcp.server.door", "app.mcp.server.http_sessions")


class McpHttp:
    """Serves requests at ``/mcp`` from the first one on. ``open_door`` makes the server that all sessions share."""

    def __init__(
        self, open_door: Callable[[], McpDoor], settings: Callable[[], Settings], stopping: Stopping
    ) -> None:
        self._open_door = open_door
        self._settings = settings
        self._stopping = stopping
        self._making = asyncio.Lock()
        self._door: McpDoor | None = None
        self._sessions: HttpSessions | None = None

    async def handle(self, scope: Scope, receive: Receive, send: Send, principal: Principal, body: bytes) -> None:
        """Answer a request that was let in and whose body was read. Raises ShutdownError while the server stops."""
        sessions = self._sessions or await self._made()
        await sessions.handle(scope, receive, send, principal, body)

    async def _made(self) -> HttpSessions:
        async with self._making:
            if self._sessions is None:
                if self._stopping.begun:
                    raise ShutdownError
                for module in _MODULES:
                    await asyncio.to_thread(importlib.import_module, module)  # the event loop goes on meanwhile
                from app.mcp.server.http_sessions import HttpSessions

                settings = self._settings
                door = self._open_door()
                await door.start()
                self._door = door
                sessions = HttpSessions(
                    door.server,
                    max_sessions=lambda: settings().mcp_max_sessions,
                    idle_seconds=lambda: settings().mcp_session_seconds,
                )
                await sessions.start()
                self._stopping.at_begin(sessions.close_streams)
                self._sessions = sessions
                log.info("MCP clients are served")
            return self._sessions

    async def stop(self) -> None:
        """End all sessions; nothing happens when nobody ever came."""
        async with self._making:
            if self._sessions is not None:
                await self._sessions.stop()
            if self._door is not None:
                await self._door.stop()
