"""Requests of sessions that have no answer yet: no two of one session may have one id (mcp.md MCP-4).

The SDK would let the second take the place of the first, whose answer then goes to the wrong request. An id is taken
from the moment in which its request is handed to the SDK until its work has ended, with or without a client that waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from app.errors import BadRequestError, both
from app.extend import Json
from app.mcp.server.connections import connection_of


def request_id(message: Json) -> str | int | None:
    """The id of a message that wants an answer; None for any other message."""
    if not isinstance(message, Mapping) or "method" not in message:
        return None
    named = message.get("id")
    return named if isinstance(named, str | int) and not isinstance(named, bool) else None


@dataclass(slots=True, eq=False)
class _Request:
    begun: bool = False


class RequestIds:
    """The ids in use, by session. 7 and "7" are one id, as they are to the SDK."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str], _Request] = {}

    def __len__(self) -> int:
        return len(self._requests)

    @asynccontextmanager
    async def taken(self, session: str, named: str | int) -> AsyncIterator[None]:
        """Hand a request on inside of this. Raises BadRequestError when its id is in use."""
        key = session, str(named)
        if key in self._requests:
            raise BadRequestError(both("已有同 id 的请求在运行", "a request with this id is still running"))
        mine = self._requests[key] = _Request()
        try:
            yield
        finally:
            if not mine.begun and self._requests.get(key) is mine:
                del self._requests[key]  # it was refused before its work began

    async def followed(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Middleware of the SDK's server, the first of all: frees the id when the work has ended."""
        session = connection_of(ctx).session_id
        if session is None or ctx.request_id is None:
            return await call_next(ctx)
        key = session, str(ctx.request_id)
        mine = self._requests.get(key)
        if mine is not None:
            mine.begun = True
        try:
            return await call_next(ctx)
        finally:
            if mine is not None and self._requests.get(key) is mine:
                del self._requests[key]
