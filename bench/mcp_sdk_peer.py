"""An MCP server made with the official SDK, over standard input and output: what most servers of others are like."""

from __future__ import annotations

import anyio
from mcp.server.stdio import stdio_server

from bench.mcp import memory_server


async def serve() -> None:
    """Serve until the end of input."""
    server = memory_server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(serve)
