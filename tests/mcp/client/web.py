"""MCP servers over HTTP for tests: the SDK's own, and raw ones that say what a test wants."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route

from app.web.server import serve

App = Callable[[Any, Any, Any], Awaitable[None]]

MODERN = "2026-07-28"


async def answer(send: Any, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """A whole answer of a raw application."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def serving(app: App) -> AsyncIterator[str]:
    """The address of a raw application that runs meanwhile."""

    async def http_only(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await app(scope, receive, send)
            return
        while (message := await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": f"{message['type']}.complete"})

    async with serve(http_only, grace=0) as address:
        yield address


class Peer:
    """A server of the SDK with tools that a test may change; ``calls`` are those that came."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.schema: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
        self.schemas: dict[str, dict[str, Any]] = {}
        self.page = 1_000
        self.listed = 0
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.work: dict[str, Callable[[Any, dict[str, Any]], Awaitable[types.CallToolResult]]] = {}
        self.server: Server[Any] = Server("peer", version="2", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        self.listed += 1
        start = int(params.cursor or 0) if params is not None else 0
        tools = [
            types.Tool(name=name, description=f"The tool {name}", input_schema=self.schemas.get(name, self.schema))
            for name in self.names[start : start + self.page]
        ]
        following = start + self.page
        return types.ListToolsResult(tools=tools, next_cursor=str(following) if following < len(self.names) else None)

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.calls.append((params.name, params.arguments or {}))
        if params.name in self.work:
            return await self.work[params.name](context, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=f"{params.name} {params.arguments}")])

    @asynccontextmanager
    async def app(self, *, legacy: bool = False, **options: Any) -> AsyncIterator[App]:
        """The application that speaks streamable HTTP, in both eras or the ``legacy`` one alone."""
        manager = self.manager = StreamableHTTPSessionManager(self.server, **options)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self.headers.append(headers)
            if legacy and headers.get("mcp-protocol-version") == MODERN:
                await answer(send, 400, b"Bad Request: unsupported protocol version")
                return
            await manager.handle_request(scope, receive, send)

        async with manager.run():
            yield app

    @asynccontextmanager
    async def http(self, **options: Any) -> AsyncIterator[str]:
        """Its address over streamable HTTP."""
        async with self.app(**options) as app, serving(app) as address:
            yield f"{address}/mcp"

    @asynccontextmanager
    async def sse(self) -> AsyncIterator[str]:
        """Its address over HTTP+SSE of 2024-11-05, which refuses to be posted to."""
        transport = SseServerTransport("/messages/")

        async def opened(request: Any) -> Response:
            async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
                await self.server.run(read, write, self.server.create_initialization_options())
            return Response()

        app = Starlette(
            routes=[Route("/sse", opened, methods=["GET"]), Mount("/messages/", transport.handle_post_message)]
        )
        async with serving(app) as address:
            yield f"{address}/sse"


def text(words: str, **more: Any) -> types.CallToolResult:
    """A result of one text."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], **more)
