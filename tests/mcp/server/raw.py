"""A client that writes and reads single messages, for what the SDK's client hides."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    jsonrpc_message_adapter,
)

from app.mcp.server.door import McpDoor
from tests.mcp.server.bench import MODERN

ANSWER_SECONDS = 20


class Raw:
    """One connection, over streams in memory."""

    def __init__(self, to_server: Any, from_server: Any) -> None:
        self._to_server = to_server
        self._from_server = from_server
        self._ids = itertools.count(1)
        self.notes: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.replies: dict[Any, dict[str, Any]] = {}

    async def send(self, method: str, params: Any = None, *, id: Any = None) -> None:
        """Send a request, or a notification without an id."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if id is not None:
            message["id"] = id
        if params is not None:
            message["params"] = params
        await self.put(message)

    async def put(self, message: dict[str, Any]) -> None:
        """Send any message."""
        await self._to_server.send(SessionMessage(message=jsonrpc_message_adapter.validate_python(message)))

    async def take(self) -> dict[str, Any]:
        """The next message of the server, filed by its kind."""
        async with asyncio.timeout(ANSWER_SECONDS):
            received = await self._from_server.receive()
        message: dict[str, Any] = received.message.model_dump(by_alias=True, mode="json", exclude_none=True)
        if "method" not in message:
            self.replies[message.get("id")] = message
        elif "id" in message:
            self.asked.append(message)
        else:
            self.notes.append(message)
        return message

    async def reply(self, id: Any) -> dict[str, Any]:
        """The reply to this request; what comes before it is filed."""
        while id not in self.replies:
            await self.take()
        return self.replies[id]

    async def note(self, method: str) -> dict[str, Any]:
        """The first notification of this method that has not been taken."""
        while True:
            for number, note in enumerate(self.notes):
                if note["method"] == method:
                    return self.notes.pop(number)
            await self.take()

    async def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        """Send a request and wait for its reply."""
        id = f"r{next(self._ids)}"
        await self.send(method, params, id=id)
        return await self.reply(id)

    def waiting(self) -> int:
        """Messages of the server that have not been taken."""
        count: int = self._from_server.statistics().current_buffer_used
        return count

    async def hello(self, version: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
        """Open a session."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
        }
        answer = await self.ask("initialize", params)
        await self.send("notifications/initialized")
        return answer


def modern(params: dict[str, Any] | None = None, *, meta: dict[str, Any] | None = None, **capabilities: Any) -> Any:
    """Parameters of a request of the newest revision."""
    envelope = {PROTOCOL_VERSION_META_KEY: MODERN, CLIENT_CAPABILITIES_META_KEY: capabilities, **(meta or {})}
    return {**(params or {}), "_meta": envelope}


@asynccontextmanager
async def connected(door: McpDoor) -> AsyncIterator[Raw]:
    """A connection to the door, which ends with the block."""
    to_server, requests = anyio.create_memory_object_stream[SessionMessage | Exception](1000)
    answers, from_server = anyio.create_memory_object_stream[SessionMessage](10_000)
    serving = asyncio.create_task(door.server.run(requests, answers, door.initialization_options()))
    try:
        yield Raw(to_server, from_server)
    finally:
        await to_server.aclose()
        async with asyncio.timeout(ANSWER_SECONDS):
            await serving
        await from_server.aclose()
