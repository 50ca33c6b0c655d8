"""MCP servers as one source of tools, for tests: entries in, calls out, nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from app.extend import CallContext, CallProgress, Door, Event, ToolCall, ToolResult
from app.mcp.client.servers import McpServers
from app.mcp.client.servers_file import ServerTable, read_servers
from app.mcp.client.status import ServerLimits, ServerStatus
from app.observe.bus import EventBus
from app.tools.router import Router
from tests.mcp.client.clock import SetClock
from tests.waiting import until

PEER = str(Path(__file__).with_name("peer.py"))


def peer(*modes: str, **entry: Any) -> dict[str, Any]:
    """An entry of a small server that behaves as its modes say."""
    return {"command": sys.executable, "args": [PEER, *modes], **entry}


def table_of(servers: Mapping[str, Any]) -> ServerTable:
    """The table of these entries."""
    table, problems = read_servers(json.dumps({"mcpServers": servers}).encode(), os.environ)
    assert not problems, problems
    return table


class Bench:
    """The servers of one test, behind a router; ``clock`` is the one of pauses and idleness."""

    def __init__(self, home: Path, servers: Mapping[str, Any], limits: ServerLimits, **options: Any) -> None:
        self.table = table_of(servers)
        self.limits = limits
        self.clock = SetClock()
        self.bus = EventBus()
        self.events: list[Event] = []
        self.bus.listen(self.events.append)
        self.progress: list[CallProgress] = []
        self.bus.listen(self._heard, CallProgress)
        self.started: list[int | None] = []
        options = {"look_seconds": 0.02, "stop_seconds": 0.5, "probe_seconds": 0.5, **options}
        self.servers = McpServers(
            lambda: self.table,
            lambda: self.limits,
            home=home,
            environ=lambda: os.environ,
            ours=lambda name: name == "API_Key",
            events=self.bus,
            clock=time.time,
            monotonic=self.clock,
            **options,
        )
        self.router = Router((self.servers,), (), self.bus)

    def _heard(self, event: Event) -> None:
        assert isinstance(event, CallProgress)
        self.progress.append(event)

    def put(self, servers: Mapping[str, Any]) -> None:
        """The file says this now."""
        self.table = table_of(servers)

    async def call(self, name: str, /, *, caller: Any = None, **arguments: Any) -> ToolResult:
        """Call a tool through the router."""
        context = CallContext("turn", Door.MCP, caller=caller)
        return await self.router.call(ToolCall("call", name, arguments), context)

    async def text(self, name: str, /, **arguments: Any) -> str:
        """The result of a call that succeeds."""
        result = await self.call(name, **arguments)
        assert result.ok, result.message
        return str(result.structured)

    def status(self, name: str) -> ServerStatus:
        """How a server stands."""
        return next(status for status in self.servers.states() if status.name == name)

    def pid(self, name: str) -> int:
        """The process of a running server."""
        pid = self.status(name).pid
        assert pid is not None
        return pid

    def names(self) -> list[str]:
        """All tools of now."""
        return list(self.servers.tools())


@asynccontextmanager
async def bench(
    home: Path, servers: Mapping[str, Any], *, limits: ServerLimits | None = None, settle: bool = True, **options: Any
) -> AsyncIterator[Bench]:
    """Servers that have been tried once, unless not to ``settle``; all are gone afterwards."""
    before = asyncio.all_tasks()
    made = Bench(home, servers, limits or ServerLimits(connect_seconds=20, call_seconds=20), **options)
    await made.servers.start()
    try:
        if settle:
            assert await made.servers.wait_settled(30)
        yield made
    finally:
        pids = [status.pid for status in made.servers.states() if status.pid is not None]
        await made.servers.stop()
        for pid in pids:
            await gone(pid)
        left = [str(task.get_coro()) for task in asyncio.all_tasks() - before]
        assert not [task for task in left if "app/mcp/client/" in task or "mcp.client" in task]


def lives(pid: int) -> bool:
    """Whether there is such a process, other than as a zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def gone(pid: int) -> None:
    """Wait until there is no such process."""
    await until(lambda: not lives(pid))


def notes(path: Path) -> list[str]:
    """What the peer wrote down."""
    return path.read_text().splitlines() if path.exists() else []
