"""One session with the server that owns the home, over its ``/mcp``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import anyio
import httpx2
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import JSONRPCMessage

from app.errors import VcpError, both
from app.protocol.call_depth import CALL_DEPTH_HEADER

log = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
GOODBYE_SECONDS = 2.0
"""How long ending a session may take."""

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Longest message of the server; our own writes none over 8 MiB."""

REFUSED = frozenset({401, 403})
UNKNOWN = 404
"""What a server answers to a session that it does not know (MCP-41)."""


class UnreachableError(VcpError):
    """The server cannot be reached."""

    def __init__(self) -> None:
        super().__init__(both("无法访问服务器", "the server cannot be reached"))


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the server is: the address of its ``/mcp``, its key, and a mark that is another after each start.

    ``depth`` is how many tool calls led to this process.
    """

    url: str
    key: str = field(repr=False)
    start: str = ""
    depth: int = 0


class Session:
    """Lives in a task of its own until it fails or is closed.

    ``heard`` is given what the server says; ``lost`` is called once when the session is over. ``refused`` is set while
    the server's last answer was that it does not take the key, ``forgotten`` once it has said that it knows no such
    session.
    """

    def __init__(
        self,
        destination: Destination,
        heard: Callable[[Session, JSONRPCMessage], Awaitable[None]],
        lost: Callable[[Session], Awaitable[None]],
    ) -> None:
        self.destination = destination
        self.refused = False
        self.forgotten = False
        self._heard = heard
        self._lost = lost
        self._out: WriteStream[SessionMessage] | None = None
        self._opened = asyncio.Event()
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._live())

    @property
    def usable(self) -> bool:
        """True while messages can be sent."""
        return not self._over.is_set()

    async def opened(self) -> None:
        """Wait until messages can be sent, or never will be."""
        await self._opened.wait()

    async def ended(self) -> None:
        """Wait until it is over."""
        await self._over.wait()

    def end(self) -> None:
        """Take no more messages; the rest of it ends by itself."""
        self._over.set()

    async def close(self) -> None:
        """End it, on the server too."""
        self._over.set()
        await asyncio.wait((self._task,), timeout=GOODBYE_SECONDS)
        self._task.cancel()
        [fault] = await asyncio.gather(self._task, return_exceptions=True)
        if isinstance(fault, Exception):
            log.error("the session with the server has failed", exc_info=fault)

    async def send(self, message: JSONRPCMessage, headers: Mapping[str, str]) -> None:
        """Send a message with these HTTP headers; UnreachableError when the session is over."""
        if self._out is None or self._over.is_set():
            raise UnreachableError
        try:
            await self._out.send(SessionMessage(message, ClientMessageMetadata(headers=dict(headers))))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise UnreachableError from error

    async def _live(self) -> None:
        try:
            async with (
                httpx2.AsyncClient(
                    headers=_headers(self.destination),
                    timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
                    trust_env=False,
                    event_hooks={"response": [self._look_at]},
                ) as client,
                streamable_http_client(
                    self.destination.url, http_client=client, max_sse_event_size=MAX_EVENT_BYTES
                ) as (read, self._out),
                anyio.create_task_group() as group,
            ):
                group.start_soon(self._hear, read)
                self._opened.set()
                await self._over.wait()
                group.cancel_scope.cancel()
        except* (httpx2.HTTPError, anyio.BrokenResourceError, anyio.ClosedResourceError) as faults:
            log.warning("the session with the server has ended (%s)", type(_first(faults)).__name__)
        finally:
            self._opened.set()
            self._over.set()
            await self._lost(self)

    async def _hear(self, read: ReadStream[SessionMessage | Exception]) -> None:
        async for item in read:
            if isinstance(item, SessionMessage):
                await self._heard(self, item.message)
        self._over.set()

    async def _look_at(self, response: httpx2.Response) -> None:
        self.refused = response.status_code in REFUSED
        self.forgotten |= response.status_code == UNKNOWN and MCP_SESSION_ID in response.request.headers


def _headers(destination: Destination) -> list[tuple[bytes, bytes]]:
    headers = [(b"Authorization", b"Bearer " + destination.key.encode())]
    if destination.depth:
        headers.append((CALL_DEPTH_HEADER.encode(), str(destination.depth).encode()))
    return headers


def _first(fault: BaseException) -> BaseException:
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault
