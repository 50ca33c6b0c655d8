"""An MCP server with the older official SDK: ``old_server.py stdio|streamable-http NOTES``, with ``PORT`` for HTTP."""

import os
import sys
from pathlib import Path

import anyio
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import ImageContent

server = FastMCP("old", host="127.0.0.1", port=int(os.environ.get("PORT", "0")), log_level="ERROR")
NOTES = Path(sys.argv[2])


def note(text: str) -> None:
    """Write down what has come last."""
    NOTES.write_text(text, encoding="utf-8")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def broken() -> str:
    """Fails."""
    raise ValueError("it cannot be done")


@server.tool()
def picture() -> ImageContent:
    """A picture."""
    return ImageContent(type="image", data="iVBORw0KGgo=", mimeType="image/png")


@server.tool()
async def slow(context: Context, steps: int = 3) -> str:  # type: ignore[type-arg]
    """Tells how far it is, and notes that it was cancelled."""
    try:
        note("begun")
        for step in range(steps):
            await context.report_progress(step + 1, steps, f"step {step + 1}")
            await anyio.sleep(0.1)
    except anyio.get_cancelled_exc_class():
        note("cancelled")
        raise
    return "done"


server.run(transport=sys.argv[1])
