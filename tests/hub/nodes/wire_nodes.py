"""Far nodes as they are outside: real connections that speak the messages of spec 6.4."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from app.extend import CallContext, Door, ToolCall, ToolResult
from app.hub.clients import ClientType
from app.hub.hub import PATHS
from tests.hub.clients import SOCKET_KEY, Wire, address, connected
from tests.server import Running, running
from tests.waiting import until as until

UPSTREAM = "http://127.0.0.1:9"
CONFIG = (f"VCP_Key={SOCKET_KEY}",)
NODE_PATH = PATHS[ClientType.NODE]


def manifest(name: str, **fields: Any) -> dict[str, Any]:
    """A manifest as nodes send it, with what nobody else should see."""
    return {
        "name": name,
        "displayName": name,
        "pluginType": "synchronous",
        "entryPoint": {"type": "python", "command": "python main.py"},
        "communication": {"protocol": "stdio"},
        "capabilities": {
            "invocationCommands": [{"command": "run", "description": f"Runs {name}.\nArgs: text", "example": "E1"}]
        },
        "basePath": "/secret/folder",
        "pluginSpecificEnvConfig": {"TOKEN": "secret-token"},
        **fields,
    }


class WireNode(Wire):
    """A node that does what the test says."""

    async def register(self, name: str | None, *tools: Any, **data: Any) -> None:
        """Announce tools, by manifest or by name, and wait until the server has read it."""
        entries = [manifest(tool) if isinstance(tool, str) else tool for tool in tools]
        named = {} if name is None else {"serverName": name}
        await self.tell("register_tools", **named, tools=entries, **data)

    async def tell(self, kind: str, **data: Any) -> None:
        """Send a message and wait until the server has read it."""
        await self.send({"type": kind, "data": data})
        await (await self.connection.ping())

    async def asked(self) -> dict[str, Any]:
        """What the next request holds."""
        data: dict[str, Any] = (await self.receive_type("execute_tool"))["data"]
        return data

    async def answer(self, request: Mapping[str, Any], result: Any = None, **data: Any) -> None:
        """Answer a request, with success unless ``data`` says otherwise."""
        said = {"status": "success", "result": result, **data}
        await self.send({"type": "tool_result", "data": {"requestId": request["requestId"], **said}})

    @asynccontextmanager
    async def answering(self, result: Callable[[dict[str, Any]], Any]) -> AsyncIterator[list[dict[str, Any]]]:
        """Answer all requests with what ``result`` makes of them; gives the list of those that came."""
        came: list[dict[str, Any]] = []

        async def serve() -> None:
            while True:
                request = await self.asked()
                came.append(request)
                await self.answer(request, result(request))

        task = asyncio.create_task(serve())
        try:
            yield came
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def main_server(home: Path, *config: str, upstream: str = UPSTREAM, **options: Any) -> AsyncIterator[Running]:
    """A server that nodes connect to."""
    async with running(home, upstream, config=(*CONFIG, *config), **options) as server:
        yield server


@asynccontextmanager
async def node(server: Running, name: str | None = None, *tools: Any, **data: Any) -> AsyncIterator[WireNode]:
    """A connected node; with a name or tools it is registered."""
    async with connected(address(server.url, NODE_PATH)) as wire:
        one = WireNode(wire.connection)
        if name is not None or tools:
            await one.register(name, *tools, **data)
        yield one


async def call(server: Running, tool: str, /, *, door: Door = Door.HUMAN_TOOL, **arguments: Any) -> ToolResult:
    """Run a tool through the router, as every door does."""
    number = server.services.new_id("call")
    texts = {name: value for name, value in arguments.items() if isinstance(value, str)}
    return await server.services.router.call(
        ToolCall(number, tool, arguments, texts, maid=arguments.get("maid")), CallContext("turn", door)
    )


def names(server: Running) -> list[str]:
    """The registered nodes."""
    return [state.name for state in server.services.nodes.list()]
