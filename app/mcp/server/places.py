"""How many calls run at a time, for each client and in all; who is over that waits its turn (mcp.md MCP-27)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.errors import VcpError, both

MAX_WAITING = 10_000
"""Most calls that wait at a time, of all clients."""


class PlacesError(VcpError):
    """So many calls wait already that no more are taken."""

    status = 503
    code = "too_many_calls"


@dataclass(slots=True)
class _Waiting:
    client: Hashable
    called: asyncio.Future[None]


class Places:
    """Places for calls; ``in_all`` and ``per_client`` give the limits of now.

    Calls of one client are let in as they came. One that has to wait for its client's other calls holds up nobody else.
    """

    def __init__(self, in_all: Callable[[], int], per_client: Callable[[], int]) -> None:
        self._in_all = in_all
        self._per_client = per_client
        self._running: Counter[Hashable] = Counter()
        self._count = 0
        self._waiting: list[_Waiting] = []

    @property
    def running(self) -> int:
        """Calls that have a place now."""
        return self._count

    @property
    def waiting(self) -> int:
        """Calls that wait for one."""
        return len(self._waiting)

    @asynccontextmanager
    async def place(self, client: Hashable) -> AsyncIterator[None]:
        """Hold a place for the call of a client; waits for one. Raises ``PlacesError``."""
        await self._take(client)
        try:
            yield
        finally:
            self._count -= 1
            self._running[client] -= 1
            if not self._running[client]:
                del self._running[client]
            self._let_in()

    async def _take(self, client: Hashable) -> None:
        if not self._waiting and self._count < self._in_all() and self._running[client] < self._per_client():
            self._count += 1
            self._running[client] += 1
            return
        if len(self._waiting) >= MAX_WAITING:
            raise PlacesError(
                both(
                    f"已有 {MAX_WAITING} 个调用在排队，请稍后再试", f"{MAX_WAITING} calls wait already; try again later"
                )
            )
        waiting = _Waiting(client, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._let_in()
        try:
            await waiting.called
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            elif waiting.called.done() and not waiting.called.cancelled():
                self._count -= 1  # it was let in, in the very step in which it was cancelled
                self._running[client] -= 1
                self._let_in()
            raise

    def _let_in(self) -> None:
        """Give the free places away, in order, past those whose client has all that it may have."""
        in_all, per_client = self._in_all(), self._per_client()
        kept: list[_Waiting] = []
        for number, waiting in enumerate(self._waiting):
            if self._count >= in_all:
                kept += self._waiting[number:]
                break
            if self._running[waiting.client] >= per_client:
                kept.append(waiting)
                continue
            self._count += 1
            self._running[waiting.client] += 1
            waiting.called.set_result(None)
        self._waiting = kept
