"""What is known of one server, for all requests to it: read from the store, changed and written (MCP-78).

Reading and writing take place in threads. One comes after the other: else what was read before a change could arrive
after it, and put old tokens, whose refresh token is used up, in the place of the new ones, in the file too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from app.config.disk_work import on_disk
from app.mcp.client.oauth.store import Credentials, OAuthStore
from app.mcp.client.oauth.turn import turn

TURN_SECONDS = 60.0
"""Longest wait for another process that refreshes."""

_log = logging.getLogger(__name__)


class Kept:
    """The credentials of one server. ``adopt`` is called when others have taken their place, in the event loop."""

    def __init__(self, store: OAuthStore, server_url: str, adopt: Callable[[], None]) -> None:
        self.credentials = Credentials()
        self._store = store
        self._server_url = server_url
        self._adopt = adopt
        self._file = asyncio.Lock()
        self._turn = asyncio.Lock()
        self._seen: tuple[object, ...] | None = None

    async def load(self) -> None:
        """Take over what this or another process has written."""

        def read() -> tuple[tuple[object, ...], Credentials] | None:
            seen = self._store.signature(self._server_url)
            return None if seen == self._seen else (seen, self._store.load(self._server_url))

        async with self._file:
            try:
                found = await asyncio.to_thread(read)
            except OSError as error:  # removed while it was looked at; not so for whoever has his turn
                _log.debug("the kept sign-in is being written: %s", error)
                return
            if found is not None:
                self._seen, self.credentials = found
                self._adopt()

    async def change(self, change: Callable[[Credentials], None]) -> None:
        """Change and write; a disk that refuses costs a sign-in after the next start, and no more.

        Whoever is cancelled meanwhile is told so when the file is written: before, nobody else may have his turn.
        """

        def write() -> tuple[object, ...]:
            self._store.save(self._server_url, self.credentials)
            return self._store.signature(self._server_url)

        async with self._file:
            change(self.credentials)
            try:
                self._seen = await on_disk(write)
            except OSError as error:
                _log.warning("the sign-in at an MCP server cannot be kept: %s", error.strerror or error)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """One at a time, over all processes, to refresh or to write what must not undo a refresh.

        False when it is not our turn for too long.
        """
        async with self._turn, AsyncExitStack() as held:
            ours = True
            try:
                await asyncio.to_thread(self._store.make_folder)
                await held.enter_async_context(turn(self._store.refresh_lock(self._server_url), TURN_SECONDS))
            except OSError as error:  # TimeoutError is one too
                _log.warning("it is not our turn to change the sign-in at an MCP server: %s", error)
                ours = False
            yield ours
