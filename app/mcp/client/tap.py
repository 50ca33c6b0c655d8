"""Stands between a transport and the SDK: mends answers, and bounds what a server says unasked."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self

from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from app.mcp.client.mending import mended_result, mended_tools, with_defaults

log = logging.getLogger(__name__)

UNASKED_PER_SECOND = 200.0
UNASKED_BURST = 1_000.0
"""So many notifications and requests of a server are taken; further ones are dropped."""

DROPPED_AT_ONCE = 100
DROPPED_PAUSE = 0.02
"""After so many dropped messages the next ones are left to wait, so that a flood does not take all of the processor."""

LEFT_OUT_TOLD = 10
"""So many tools of a connection that are left out are logged."""

MAX_ASKED = 10_000
"""Requests whose method is remembered until they are answered."""

_MENDED = ("tools/list", "tools/call")
Streams = AbstractAsyncContextManager[TransportStreams]


class Tap:
    """What one connection's messages have in common. ``modern`` says whether the server speaks a revision of now."""

    def __init__(self, server: str, modern: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self.server = server
        self._modern = modern
        self._clock = clock
        self._asked: dict[str, str] = {}
        self._tokens = UNASKED_BURST
        self._filled = clock()
        self._dropped = 0
        self._told: set[str] = set()

    @asynccontextmanager
    async def over(self, transport: Streams) -> AsyncIterator[TransportStreams]:
        """The same transport, tapped."""
        async with transport as (read, write):
            yield _Read(read, self), _Write(write, self)

    def sent(self, item: SessionMessage) -> None:
        """A message goes out."""
        message = item.message
        if isinstance(message, JSONRPCRequest) and message.method in _MENDED:
            if len(self._asked) >= MAX_ASKED:
                del self._asked[next(iter(self._asked))]  # nobody waits for an answer as old as that
            self._asked[str(message.id)] = message.method

    def came(self, item: SessionMessage | Exception) -> SessionMessage | Exception | None:
        """The message to give on, None to drop it."""
        if isinstance(item, Exception):
            return item
        message = item.message
        if isinstance(message, JSONRPCNotification | JSONRPCRequest):
            return item if self._takes() else None
        method = self._asked.pop(str(message.id), "")
        if isinstance(message, JSONRPCResponse) and method:
            if self._modern():
                message.result = with_defaults(method, message.result)
            if method == "tools/list":
                message.result = mended_tools(message.result, self._left_out)
            elif message.result.get("resultType", "complete") == "complete":
                message.result = mended_result(message.result, legacy=not self._modern())
        return item

    def _takes(self) -> bool:
        now = self._clock()
        self._tokens = min(UNASKED_BURST, self._tokens + (now - self._filled) * UNASKED_PER_SECOND)
        self._filled = now
        if self._tokens >= 1:
            self._tokens -= 1
            return True
        if not self._dropped:
            log.warning("MCP server %s says too much unasked: some of it is dropped", self.server)
        self._dropped += 1
        return False

    async def rest(self) -> None:
        """A message was dropped: let others have their turn, now and then."""
        if self._dropped % DROPPED_AT_ONCE == 0:
            await asyncio.sleep(DROPPED_PAUSE)

    def _left_out(self, name: str, why: str) -> None:
        if name in self._told or len(self._told) >= LEFT_OUT_TOLD:
            return
        self._told.add(name)
        last = "; further ones are not told" if len(self._told) == LEFT_OUT_TOLD else ""
        log.warning("tool %r of MCP server %s is left out: %s%s", name, self.server, why, last)


class _Wrapped:
    """A stream that is another one but for one method."""

    def __init__(self, inner: Any, tap: Tap) -> None:
        self._inner = inner
        self._tap = tap

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        closed: bool | None = await self._inner.__aexit__(exc_type, exc_val, exc_tb)
        return closed

    @property
    def last_context(self) -> Any:
        """The context of the sender, where the stream keeps it."""
        return getattr(self._inner, "last_context", None)


class _Read(_Wrapped):
    async def receive(self) -> SessionMessage | Exception:
        while True:
            item = self._tap.came(await self._inner.receive())
            if item is not None:
                return item
            await self._tap.rest()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            item = self._tap.came(await self._inner.__anext__())
            if item is not None:
                return item
            await self._tap.rest()


class _Write(_Wrapped):
    async def send(self, item: SessionMessage, /) -> None:
        self._tap.sent(item)
        await self._inner.send(item)
