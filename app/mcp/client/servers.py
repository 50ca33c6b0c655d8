"""The tools of all MCP servers as one source of the router (D68, MCP-50 to MCP-58; P84 to P95)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from app.extend import CallContext, Clock, EventSink, ToolCall, ToolResult, ToolSpec
from app.mcp.client.servers_file import ServerTable
from app.mcp.client.status import ConsentStore, ServerLimits, ServerStatus, Tool

if TYPE_CHECKING:
    from mcp.client.client import Client


class McpServers:
    """Tools of MCP servers, as ``server.tool``; with ``prefix`` false under their own names.

    ``configured`` gives the servers of now and is asked often. ``environ`` is the environment of this process and
    ``secrets`` the names in it that no child may inherit (D72). This object imports the SDK when it starts the first
    server, in a thread.
    """

    def __init__(
        self,
        configured: Callable[[], ServerTable],
        limits: Callable[[], ServerLimits],
        *,
        home: Path,
        environ: Callable[[], Mapping[str, str]],
        secrets: Callable[[], frozenset[str]],
        events: EventSink,
        clock: Clock,
        consents: ConsentStore | None = None,
        prefix: bool = True,
    ) -> None: ...

    def tools(self) -> Mapping[str, ToolSpec]:
        """All tools of now that may be called."""
        return MappingProxyType({})

    def changed(self, told: Callable[[], None]) -> None:
        """Call ``told`` each time the tools have changed."""

    def addressed(self, name: str) -> ToolSpec | None:
        """None: every tool is listed."""
        return None

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        """Run the call, starting its server first where it does not run."""
        raise NotImplementedError

    async def start(self) -> None:
        """List what is known and begin to learn the rest in the background; returns at once."""

    def health(self) -> str:
        """Empty: a server that fails is no fault of this one."""
        return ""

    async def stop(self) -> None:
        """End all servers."""

    def states(self) -> tuple[ServerStatus, ...]:
        """All servers of the file, in its order."""
        return ()

    async def tools_of(self, server: str, *, refresh: bool = False) -> tuple[Tool, ...]:
        """The tools of one server that may be used, as JSON (``name``, ``inputSchema`` and so on), in its order.

        With ``refresh`` it is started and asked anew. Raises NotFoundError for an unknown server, McpServerError when
        it cannot be started.
        """
        raise NotImplementedError

    async def wait_settled(self, seconds: float) -> bool:
        """Wait until every server has been tried once, at most so long; False when some are still starting."""
        return True

    def told_of(self, told: Callable[[str, str], None]) -> None:
        """Call ``told(server, what)`` when a server says that its ``tools``, ``prompts`` or ``resources`` changed."""

    @asynccontextmanager
    async def client(self, server: str) -> AsyncIterator[Client]:
        """The SDK's client of a server, started where need be, for its resources and prompts; kept while in use."""
        raise NotImplementedError
        yield
