"""What a client is told whose request is cut off because the server stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import ShutdownError
from app.web.errors import send_error
from app.web.paths import shown_path

log = logging.getLogger(__name__)


class CutOff:
    """ASGI middleware: a request that is cancelled while the server stops is answered with 503 (P83).

    An answer that has begun breaks off. Chats end in their own way and are not seen here.
    """

    def __init__(self, app: ASGIApp, stopping: Callable[[], bool]) -> None:
        self._app = app
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            if scope["type"] != "http" or not self._stopping():
                raise
            log.warning("%s %s is cut off, the server stops", scope["method"], shown_path(scope["path"]))
            if not begun:
                await send_error(scope, receive, send, ShutdownError())
