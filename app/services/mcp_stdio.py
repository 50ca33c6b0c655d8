"""Clients of the Model Context Protocol on standard input and output."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.extend import Json
from app.mcp.groups.proxy import SETTLED_SECONDS, FirstSettling
from app.services.mcp import Mcp

if TYPE_CHECKING:  # the SDK takes half a second to import: at run time only functions import what needs it
    from app.mcp.server.door import McpDoor
    from app.mcp.stdio.connection import Drive
    from app.mcp.stdio.session import Destination

log = logging.getLogger(__name__)

Streams = tuple[int, int]
"""The private descriptors of standard input and output, as ``take_standard_streams`` gives them."""


async def serve_stdio(door: McpDoor, streams: Streams | None = None, *, depth: int = 0) -> int:
    """Serve one client until its input ends or a signal comes; the exit code.

    Without ``streams`` standard input and output are taken from everybody else now; a program that runs anything
    before it serves takes them first of all. The door has been started. ``depth`` is how many tool calls led to this
    process.
    """
    from app.mcp.server.door import Asker

    async def drive(incoming: Any, outgoing: Any) -> None:
        await door.server.run(incoming, outgoing, door.initialization_options())

    return await _serve(drive, streams, Asker(depth=depth))


async def relay_stdio(where: Callable[[], Destination], streams: Streams | None = None) -> int:
    """Let another server serve the client; ``where`` finds it anew at each request, and may block."""
    from app.mcp.stdio.relay import Relay

    return await _serve(Relay(where).drive, streams)


async def serve_nothing(streams: Streams | None = None) -> int:
    """Serve a client although the plugins could not be loaded: no tools, and an error for all else (STD-44)."""
    from app.mcp.stdio.broken import broken_server

    server = broken_server()

    async def drive(incoming: Any, outgoing: Any) -> None:
        await server.run(incoming, outgoing, server.create_initialization_options())

    return await _serve(drive, streams)


def confine(door: McpDoor, root: Path, *, external_sources: bool = False) -> None:
    """From now on the tools of this door work below ``root``, a real path (STD-8 … STD-14)."""
    from app.mcp.stdio.roots import Confinement, Root

    schema: Callable[[str], Mapping[str, Json] | None] | None = door.server.get_tool_input_schema
    if schema is not None:
        door.server.middleware.append(Confinement(Root(root, external_sources), schema))


@asynccontextmanager
async def first_lists(door: McpDoor, mcp: Mcp, seconds: float = SETTLED_SECONDS) -> AsyncIterator[None]:
    """Learn the tools of MCP servers of which nothing is known yet, while clients of ``door`` are served.

    They are started for it, at most ``seconds`` are waited: by the first list, and by calls of tools that are not there
    yet. A client that starts us lists once and would never hear of them otherwise.
    """
    settled = asyncio.Event()

    async def settle() -> None:
        await mcp.upstream_servers.wait_settled(seconds)
        mcp.tool_groups.look()
        settled.set()

    def known(name: str) -> bool:
        schema = door.server.get_tool_input_schema
        return schema is not None and schema(name) is not None

    door.server.middleware.append(FirstSettling(settled, seconds, known))
    settling = asyncio.create_task(settle())
    try:
        yield
    finally:
        settling.cancel()
        await asyncio.wait((settling,))


async def _serve(drive: Drive, streams: Streams | None, attached: object = None) -> int:
    from app.mcp.stdio.connection import StdioConnection
    from app.mcp.stdio.descriptors import Input, Output, take_standard_streams

    reading, writing = streams or take_standard_streams()
    output = Output(writing)
    connection = StdioConnection(Input(reading), output, attached=attached)
    serving = asyncio.create_task(connection.serve(drive))
    _end_on_signals(connection.stop, serving)
    try:
        return 0 if await serving else 1
    except Exception:  # the boundary of a connection: its end is told in one line, and not by a stack
        log.exception("the connection has failed")
        return 1
    finally:
        output.close()


async def until_signalled(work: Coroutine[Any, Any, int]) -> int:
    """Do what serves a client; a signal before the client is served, or a second one, ends it with 0 (STD-41).

    While the client is served the front has signals of its own.
    """
    if (task := asyncio.current_task()) is not None and sys.platform != "win32":
        with suppress(RuntimeError, ValueError):  # not the main thread, as in tests
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        return 0


def _end_on_signals(stop: Callable[[], None], serving: asyncio.Task[bool]) -> None:
    """A signal is like the end of input (STD-41); a second one does not wait for what runs."""
    signalled = False

    def signal_came() -> None:
        nonlocal signalled
        if signalled:
            serving.cancel()
        signalled = True
        stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        if sys.platform == "win32":  # its event loops have no signal handlers
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(signal_came))
        else:
            with suppress(RuntimeError, ValueError):  # not the main thread, as in tests
                loop.add_signal_handler(number, signal_came)
