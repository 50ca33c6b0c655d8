"""The MCP server behind ``/mcp``: made with the first request, since what it needs takes half a second to load."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from app.config.settings import Settings
from app.errors import ShutdownError
from app.mcp.server.principal import HTTP_CALLER, HttpCaller
from app.services.stopping import Stopping

if TYPE_CHECKING:  # at run time only functions import these
    from app.mcp.server.door import Asker, McpDoor
    from app.mcp.server.http_sessions import HttpSessions


class McpHttp:
    """Serves requests at ``/mcp`` from the first one on; ``door`` gives the server that all fronts share."""

    def __init__(
        self, door: Callable[[], Awaitable[McpDoor]], settings: Callable[[], Settings], stopping: Stopping
    ) -> None:
        self._door = door
        self._settings = settings
        self._stopping = stopping
        self._making = asyncio.Lock()
        self._sessions: HttpSessions | None = None

    async def handle(self, scope: Scope, receive: Receive, send: Send, caller: HttpCaller, body: bytes) -> None:
        """Answer a request that was let in and whose body was read. Raises ShutdownError while the server stops."""
        sessions = self._sessions or await self._made()
        await sessions.handle(scope, receive, send, caller, body)

    async def _made(self) -> HttpSessions:
        async with self._making:
            if self._stopping.begun:
                raise ShutdownError
            if self._sessions is None:
                # In a thread, so that the event loop goes on meanwhile.
                await asyncio.to_thread(_import_sdk)
                from app.mcp.server.http_sessions import HttpSessions

                settings = self._settings
                sessions = HttpSessions(
                    (await self._door()).server,
                    max_sessions=lambda: settings().mcp_max_sessions,
                    idle_seconds=lambda: settings().mcp_session_seconds,
                )
                await sessions.start()
                self._stopping.at_begin(sessions.close_streams)
                self._sessions = sessions
            return self._sessions

    async def stop(self) -> None:
        """End all sessions; nothing happens when nobody ever came."""
        async with self._making:
            if self._sessions is not None:
                await self._sessions.stop()


def _import_sdk() -> None:
    import app.mcp.sdk
    import app.mcp.server.http_sessions  # noqa: F401 - loaded ahead, in a thread


def asker(request: Any) -> Asker:
    """Who sent a request, where it came over HTTP; of those that came otherwise nothing is known."""
    from app.mcp.server.door import Asker

    caller = request.scope.get(HTTP_CALLER) if isinstance(request, HTTPConnection) else None
    if not isinstance(caller, HttpCaller):
        return Asker()
    return Asker(f"{caller.principal} at {caller.address}", caller.address, caller.depth)
