"""A strict stdio connection over real pipes in this process, with a small server of the SDK behind it."""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

from app.mcp.client.lines import LineCutter
from app.mcp.stdio.connection import Drive, Limits, StdioConnection
from app.mcp.stdio.descriptors import Input, Output

MODERN = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
}


def request(id: Any, method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}


def notification(method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


def call(id: Any, tool: str, modern: bool = False, **arguments: Any) -> dict[str, Any]:
    return request(id, "tools/call", {"name": tool, "arguments": arguments, **(MODERN if modern else {})})


def initialize(id: Any = "init", version: str = "2025-11-25") -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    return request(id, "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client})


class Tools:
    """What the server of these tests does; ``seen`` are the calls that began, ``cancelled`` those that were ended."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.seen: list[str] = []
        self.cancelled: list[str] = []
        self.server: Server[Any] = Server("test", version="1", on_list_tools=self._list, on_call_tool=self._call)

    async def drive(self, incoming: Any, outgoing: Any) -> None:
        await self.server.run(incoming, outgoing, self.server.create_initialization_options())

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema={"type": "object"})])

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        said = str(arguments.get("text", ""))
        self.seen.append(params.name)
        match params.name:
            case "wait":
                try:
                    await self.release.wait()
                except asyncio.CancelledError:
                    self.cancelled.append(said)
                    raise
            case "large":
                said = "x" * int(arguments["size"])
            case "broken":
                raise RuntimeError("/secret/place")
            case "notify":
                await context.session.send_resource_updated("x:" + "x" * int(arguments["size"]))
        return types.CallToolResult(content=[types.TextContent(type="text", text=said)])


class Client:
    """The other end of the pipes."""

    def __init__(self, write: int, read: int, connection: StdioConnection) -> None:
        self.connection = connection
        self._write = write
        self._input = Input(read)
        self._lines = LineCutter(64 * 1024 * 1024)
        self._frames: deque[bytes] = deque()
        self.raw: list[bytes] = []

    async def send(self, *frames: Any) -> None:
        """Each frame as a line; bytes as they are, without a newline."""
        for frame in frames:
            data = frame if isinstance(frame, bytes) else json.dumps(frame).encode() + b"\n"
            await asyncio.to_thread(_write_all, self._write, data)

    async def next(self) -> Any:
        """The next frame; None at the end of the output."""
        async with asyncio.timeout(20):
            while not self._frames:
                piece = await self._input.next()
                if not piece:
                    return None
                for line in self._lines.feed(piece):
                    assert isinstance(line, bytes)
                    self._frames.append(line)
                    self.raw.append(line)
        return json.loads(self._frames.popleft())

    async def ask(self, frame: Any) -> Any:
        await self.send(frame)
        return await self.next()

    async def begin(self, version: str = "2025-11-25") -> Any:
        """Initialize; the result."""
        answer = await self.ask(initialize(version=version))
        await self.send(notification("notifications/initialized"))
        return answer["result"]

    def end(self) -> None:
        """No more input."""
        if self._write >= 0:
            os.close(self._write)
            self._write = -1

    async def left(self) -> None:
        """Read to the end, whatever comes."""
        while await self._input.next():
            pass
        await asyncio.to_thread(self._input.thread.join, 10)

    async def rest(self) -> list[Any]:
        """All frames up to the end of the output."""
        found = []
        while (frame := await self.next()) is not None:
            found.append(frame)
        return found


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@asynccontextmanager
async def linked(
    drive: Drive, limits: Limits | None = None, *, stuck_seconds: float = 30.0
) -> AsyncIterator[tuple[Client, asyncio.Task[bool]]]:
    """A client, and the task that serves it; all is over at the end of the block."""
    read_in, write_in = os.pipe()
    read_out, write_out = os.pipe()
    source, sink = Input(read_in), Output(write_out, stuck_seconds=stuck_seconds)
    connection = StdioConnection(source, sink, limits)
    client = Client(write_in, read_out, connection)

    async def serving() -> bool:
        try:
            return await connection.serve(drive)
        finally:
            sink.close()
            os.close(write_out)

    task = asyncio.create_task(serving())
    try:
        yield client, task
    finally:
        client.end()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.left()
        for thread in (source.thread, sink.thread):
            await asyncio.to_thread(thread.join, 10)
        os.close(read_in)
        os.close(read_out)


def talk(
    work: Callable[[Client, Tools, asyncio.Task[bool]], Any], limits: Limits | None = None, *, stuck: float = 30.0
) -> None:
    """Run a conversation with the server of these tests."""

    async def conversation() -> None:
        tools = Tools()
        async with linked(tools.drive, limits, stuck_seconds=stuck) as (client, task), asyncio.timeout(30):
            await work(client, tools, task)

    asyncio.run(conversation())
