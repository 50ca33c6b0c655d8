"""The tools of all MCP servers as one source of the router (D68, MCP-50 to MCP-58; P84 to P95)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from app.errors import NotFoundError, both
from app.extend import SERVER_ORIGIN, CallContext, Clock, ErrorKind, EventSink, Json, ToolCall, ToolResult, ToolSpec
from app.mcp.client.around import Around
from app.mcp.client.calling import Calls
from app.mcp.client.server_entry import ServerEntry
from app.mcp.client.servers_file import ServerTable
from app.mcp.client.status import ConsentStore, McpServerError, ServerLimits, ServerStatus, Tool
from app.mcp.client.upstream import Upstream
from app.tools.router import prepare_arguments

if TYPE_CHECKING:
    from mcp.client.client import Client

    from app.mcp.client.questions import Questions

log = logging.getLogger(__name__)

STARTS_AT_ONCE = 8
"""So many servers are started at the same time to learn their tools."""

LOOK_SECONDS = 1.0
PUBLISH_SECONDS = 0.1
"""Changes of several servers that come so close together are one change for everybody else."""


def _ready_for_nobody(server: str) -> None:
    """Nobody wants to know."""


class McpServers:
    """Tools of MCP servers, as ``server.tool``; with ``prefix`` false under their own names.

    ``configured`` gives the servers of now and is asked once in ``look_seconds``. ``environ`` is the environment of
    this process; ``ours`` tells the names in it that no child inherits (D72). ``questions`` makes the callbacks of a
    new connection, ``sign_in`` an ``httpx2.Auth``; ``ready`` is called with the name of a server that lets us in. With
    ``on_demand`` no server is started before it is needed, or ``wait_settled`` is called. This object imports the SDK
    when it starts the first server, in a thread.
    """

    def __init__(
        self,
        configured: Callable[[], ServerTable],
        limits: Callable[[], ServerLimits],
        *,
        home: Path,
        environ: Callable[[], Mapping[str, str]],
        ours: Callable[[str], bool],
        events: EventSink,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
        consents: ConsentStore | None = None,
        questions: Callable[[ServerEntry], Questions] | None = None,
        sign_in: Callable[[ServerEntry], Any] | None = None,
        ready: Callable[[str], None] = _ready_for_nobody,
        on_demand: bool = False,
        prefix: bool = True,
        look_seconds: float = LOOK_SECONDS,
        probe_seconds: float = 5.0,
        stop_seconds: float = 2.0,
    ) -> None:
        self._configured = configured
        self._events = events
        self._clock = clock
        self._monotonic = monotonic
        self._consents = consents
        self._prefix = prefix
        self._on_demand = on_demand
        self._look_seconds = look_seconds
        self._around = Around(
            home=home,
            limits=limits,
            environ=environ,
            ours=ours,
            told=self._server_told,
            logged=_nowhere,
            questions=questions,
            sign_in=sign_in,
            ready=ready,
            probe_seconds=probe_seconds,
            stop_seconds=stop_seconds,
        )
        self._table: ServerTable | None = None
        self._upstreams: dict[str, Upstream] = {}
        self._calls: dict[Upstream, Calls] = {}
        self._specs: Mapping[str, ToolSpec] = MappingProxyType({})
        self._owners: Mapping[str, tuple[Calls, str]] = MappingProxyType({})
        self._told: list[Callable[[], None]] = []
        self._told_of: list[Callable[[str, str], None]] = []
        self._publishing: asyncio.TimerHandle | None = None
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._followed = asyncio.Lock()
        self._stopped = False
        if consents is not None:
            consents.changed(self._consented)

    # --- as a source of tools --------------------------------------------------------------------------------------

    def tools(self) -> Mapping[str, ToolSpec]:
        """All tools of now that may be called, by server in the order of the file."""
        return self._specs

    def changed(self, told: Callable[[], None]) -> None:
        """Call ``told`` each time the tools have changed."""
        self._told.append(told)

    def addressed(self, name: str) -> ToolSpec | None:
        """A tool of a server that was never listed, whose call starts it; or a hidden one, whose call says so.

        A tool that has just been listed, and of which nobody has been told yet, is found too.
        """
        if any(name in upstream.list.specs for upstream in self._upstreams.values()):
            self._publish()
            return self._specs.get(name)
        upstream = (self._unknown_one(name) or self._hiding_one(name)) if self._prefix else None
        if upstream is None:
            return None
        server = upstream.entry.name
        return ToolSpec(name, SERVER_ORIGIN + server, name, groups=frozenset({server}))

    def _unknown_one(self, name: str) -> Upstream | None:
        for server, upstream in self._upstreams.items():
            if not upstream.known and name.startswith(f"{server}.") and len(name) > len(server) + 1:
                return upstream
        return None

    def _hiding_one(self, name: str) -> Upstream | None:
        """The server whose tool of this name has changed and waits for a person's consent."""
        for server, upstream in self._upstreams.items():
            if name.startswith(f"{server}.") and name[len(server) + 1 :] in upstream.list.changed:
                return upstream
        return None

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        """Run the call, starting its server first where it does not run."""
        found = self._owners.get(spec.name)
        upstream = self._unknown_one(spec.name) if found is None else None
        if upstream is not None:
            try:
                await upstream.learn()
            except McpServerError as error:
                text = f"MCP {upstream.entry.name}: {error.message}"
                return ToolResult(error_kind=ErrorKind.EXECUTION, message=text)
            self._publish()
            found = self._owners.get(spec.name)
            listed = self._specs.get(spec.name)
            if listed is not None:
                call = prepare_arguments(listed, call)  # nobody could before
        if found is None:
            if (hiding := self._hiding_one(spec.name)) is not None:
                text = self._calls[hiding].gone(spec.name.removeprefix(f"{hiding.entry.name}."))
            else:
                text = both(f"工具 {spec.name} 已不存在", f"there is no tool {spec.name} any more")
            return ToolResult(error_kind=ErrorKind.UNKNOWN_TOOL, message=text)
        calls, tool = found
        return await calls.run(tool, call, context, started)

    # --- its life --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """List what is known from before, and begin to learn the rest in the background."""
        await self._follow()
        self._publish()
        self._looking = asyncio.create_task(self._look_now_and_then())

    def health(self) -> str:
        """Empty: a server that fails is no fault of ours; ``states`` tells of it."""
        return ""

    async def stop(self) -> None:
        """End all servers."""
        self._stopped = True
        if self._publishing is not None:
            self._publishing.cancel()
        begun = [task for task in (self._looking, *self._tasks) if task is not None]
        for task in begun:
            task.cancel()
        if begun:
            await asyncio.wait(begun)
        await asyncio.gather(*(upstream.close() for upstream in self._upstreams.values()))

    async def look(self) -> None:
        """Take over what has changed in the file; then everything that is due for each server."""
        await self._follow()
        for upstream in self._upstreams.values():
            needed = not self._on_demand or upstream.runs
            if needed and upstream.due() and not upstream.looking.locked():
                self._spawn(self._one_look(upstream))

    async def _look_now_and_then(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._look_seconds)

    async def _one_look(self, upstream: Upstream) -> None:
        async with upstream.looking, self._starts:
            await upstream.look()

    async def _follow(self) -> None:
        """Make the servers those of the file: what is as it was is not touched (P93)."""
        async with self._followed:
            table = self._configured()
            if table is self._table:
                return
            old, kept = self._upstreams, dict[str, Upstream]()
            fresh: list[Upstream] = []
            for name, entry in table.entries.items():
                known = old.get(name)
                if known is not None and known.entry == entry:
                    kept[name] = known
                else:
                    kept[name] = self._made(entry)
                    fresh.append(kept[name])
            gone = [upstream for name, upstream in old.items() if kept.get(name) is not upstream]
            self._table, self._upstreams = table, kept
            await asyncio.gather(*(upstream.recall() for upstream in fresh))
            self._publish_soon()
            for upstream in gone:
                del self._calls[upstream]
                self._spawn(upstream.close())

    def _made(self, entry: ServerEntry) -> Upstream:
        upstream = Upstream(
            entry,
            self._around,
            consents=self._consents,
            clock=self._clock,
            monotonic=self._monotonic,
            changed=self._publish_soon,
            prefix=self._prefix,
        )
        self._calls[upstream] = Calls(upstream, self._events)
        return upstream

    def _publish_soon(self) -> None:
        if self._publishing is None and not self._stopped:
            self._publishing = asyncio.get_running_loop().call_later(PUBLISH_SECONDS, self._publish)

    def _publish(self) -> None:
        """Make the map of all tools anew; of two with one name the first has it."""
        if self._publishing is not None:
            self._publishing.cancel()
            self._publishing = None
        specs: dict[str, ToolSpec] = {}
        owners: dict[str, tuple[Calls, str]] = {}
        for upstream in self._upstreams.values():
            for name, spec in upstream.list.specs.items():
                if name in specs:
                    log.warning(
                        "tool %s of %s is not used: %s has one of this name", name, spec.origin, specs[name].origin
                    )
                    continue
                specs[name] = spec
                owners[name] = self._calls[upstream], spec.commands[0].id
        same = specs.keys() == self._specs.keys() and all(specs[name] is self._specs[name] for name in specs)
        self._owners = MappingProxyType(owners)
        if same and list(specs) == list(self._specs):
            return
        self._specs = MappingProxyType(specs)
        for told in self._told:
            told()

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _consented(self, server: str) -> None:
        upstream = self._upstreams.get(server)
        if upstream is not None and not self._stopped:
            self._spawn(upstream.recall())

    def _server_told(self, server: str, what: str) -> None:
        for told in self._told_of:
            told(server, what)

    # --- for people and other parts --------------------------------------------------------------------------------

    def states(self) -> tuple[ServerStatus, ...]:
        """All servers of the file, in its order; the tools that they are said to have can be called at every door."""
        if self._publishing is not None:
            self._publish()
        return tuple(upstream.status() for upstream in self._upstreams.values())

    async def tools_of(self, server: str, *, refresh: bool = False) -> tuple[Tool, ...]:
        """The tools of one server that may be used, as JSON (``name``, ``inputSchema`` and so on), in its order.

        With ``refresh`` it is started and asked anew, and so it is when nothing is known of it. Raises NotFoundError
        for an unknown server, McpServerError when it cannot be started.
        """
        upstream = self._upstream(server)
        if refresh or not upstream.known:
            await upstream.relist()
            self._publish()
        return upstream.list.tools

    async def wait_settled(self, seconds: float) -> bool:
        """Wait until every server is known or has been tried once; False when that takes longer."""
        if self._on_demand:
            self._on_demand = False
            await self.look()
        waiting = [asyncio.ensure_future(upstream.settled.wait()) for upstream in self._upstreams.values()]
        if not waiting:
            return True
        try:
            done, _ = await asyncio.wait(waiting, timeout=seconds)
        finally:
            for one in waiting:
                one.cancel()
        self._publish()
        return len(done) == len(waiting)

    def retry(self, server: str) -> None:
        """Try a server again at once, for instance since somebody has signed in there."""
        upstream = self._upstreams.get(server)
        if upstream is not None and not self._stopped:
            upstream.forgive()
            if not upstream.known and not self._on_demand:
                self._spawn(self._one_look(upstream))

    def entry_of(self, server: str) -> ServerEntry:
        """What the file says of a server; raises NotFoundError."""
        return self._upstream(server).entry

    async def start_server(self, server: str) -> None:
        """Start a server now, without a pause, and list its tools. Raises NotFoundError, McpServerError."""
        self._upstream(server).forgive()
        await self.tools_of(server, refresh=True)

    async def stop_server(self, server: str) -> None:
        """End a server until it is needed again; its tools stay listed. Raises NotFoundError."""
        await self._upstream(server).rest()

    def told_of(self, told: Callable[[str, str], None]) -> None:
        """Call ``told(server, what)`` when a server says that its ``tools``, ``prompts`` or ``resources`` changed."""
        self._told_of.append(told)

    @asynccontextmanager
    async def client(self, server: str) -> AsyncIterator[Client]:
        """The SDK's client of a server, started where need be, for its resources and prompts; open while in use.

        Raises NotFoundError, McpServerError.
        """
        async with self._upstream(server).client() as client:
            yield client

    def _upstream(self, server: str) -> Upstream:
        upstream = self._upstreams.get(server)
        if upstream is None:
            raise NotFoundError(both(f"没有名为 {server} 的 MCP 服务器", f"no MCP server is called {server}"))
        return upstream


def _nowhere(server: str, level: str, data: Json, logger: str) -> None:
    """Each server has its own."""
