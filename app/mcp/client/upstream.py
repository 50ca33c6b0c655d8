"""One MCP server: started when it is needed, stopped when it is idle, started anew when it has died (P92, MOD-12)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.errors import both
from app.extend import CallContext, Clock, Json
from app.mcp.client.around import Around, opener
from app.mcp.client.listing import ToolList, identity_of, tool_list
from app.mcp.client.patience import Allowance
from app.mcp.client.server_entry import ServerEntry
from app.mcp.client.status import (
    ConsentStore,
    McpServerError,
    ServerState,
    ServerStatus,
    SignInNeededError,
    Tool,
)

if TYPE_CHECKING:
    from mcp.client.client import Client

    from app.mcp.client.connection import Connection, Way

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
PATIENCE = 2.0
"""A call waits out a pause that is as short as this."""

STABLE_SECONDS = 10.0
"""A server that died sooner than this after its start has failed."""

RELIST_PAUSE = 0.25
RELIST_EVERY = 1.0
MIN_TTL = 30.0


class Upstream:
    """One server of the file. ``changed`` is called when its tools are others.

    ``monotonic`` gives seconds of a steady clock, ``clock`` those since the epoch.
    """

    def __init__(
        self,
        entry: ServerEntry,
        around: Around,
        *,
        consents: ConsentStore | None,
        clock: Clock,
        monotonic: Callable[[], float],
        changed: Callable[[], None],
        prefix: bool,
    ) -> None:
        self.entry = entry
        self._around = replace(around, told=self._told, logged=self._logged)
        self._forward = around.told
        self._consents = consents
        self._clock = clock
        self._monotonic = monotonic
        self._changed = changed
        self._prefix = prefix
        self._identity = identity_of(entry)
        self._state = ServerState.DISABLED if entry.disabled else ServerState.IDLE
        self._since = clock()
        self._fault: McpServerError | None = None
        self._told_error = ""
        self.list = ToolList()
        self._connection: Connection | None = None
        self._way: Way | None = None
        self._starting: asyncio.Task[Connection] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._not_before = 0.0
        self._ready_at = 0.0
        self._used = monotonic()
        self._stale_at: float | None = None
        self._relisting: asyncio.TimerHandle | None = None
        self._relisted = -RELIST_EVERY
        self._users = 0
        self.callers: list[CallContext] = []
        """Where the calls came from that run now."""
        self._closing = self._resting = False
        self.looking = asyncio.Lock()
        """Held while ``look`` runs."""
        self.known = entry.disabled
        """Whether its tools have been listed, now or before."""
        self.settled = asyncio.Event()
        """Set when its tools are known, or it has been tried."""
        if entry.disabled:
            self.settled.set()

    # --- what it is ------------------------------------------------------------------------------------------------

    def status(self) -> ServerStatus:
        """How it stands."""
        connection = self._connection
        ready = self._state is ServerState.READY and connection is not None
        return ServerStatus(
            name=self.entry.name,
            kind=self.entry.kind,
            state=self._state,
            since=self._since,
            description=self.entry.description,
            shown=self.entry.shown,
            error=self._fault.message if self._fault is not None else "",
            details=self._fault.details if self._fault is not None else "",
            tools=len(self.list.tools),
            changed=self.list.changed,
            pid=connection.link.pid if ready and connection is not None else None,
            protocol=connection.client.protocol_version if ready and connection is not None else "",
            running=self._users,
        )

    def _set(self, state: ServerState, error: McpServerError | None = None) -> None:
        if state is not self._state:
            self._state, self._since = state, self._clock()
        self._fault = error

    # --- its tools -------------------------------------------------------------------------------------------------

    async def recall(self) -> None:
        """Take the list that was kept when the server last ran."""
        if self._consents is not None and not self.entry.disabled:
            kept = await self._consents.cached(self.entry.name, self._identity)
            if kept is not None:
                self._take(kept.allowed, tuple(tool.name for tool in kept.changed))

    async def learn(self) -> None:
        """Start the server, so that its tools are known. Raises McpServerError."""
        await self.connected()

    async def relist(self) -> None:
        """Ask the running server for its tools. Raises McpServerError."""
        connection = await self.connected()
        await self._list(connection)

    async def _list(self, connection: Connection) -> None:
        self._relisted = self._monotonic()
        listing = await connection.tools()
        allowed, changed = listing.tools, tuple[str, ...]()
        if self._consents is not None:
            judged = await self._consents.judge(self.entry.name, listing.tools, self._identity)
            allowed, changed = tuple(judged.allowed), tuple(tool.name for tool in judged.changed)
        self._stale_at = self._monotonic() + max(listing.ttl, MIN_TTL) if listing.ttl > 0 else None
        self._take(allowed, changed)

    def _take(self, allowed: Sequence[Tool], changed: tuple[str, ...]) -> None:
        first, self.known = not self.known, True
        self.settled.set()
        before = self.list
        self.list = tool_list(self.entry, allowed, changed, lambda tool: self.allowance(tool).most, prefix=self._prefix)
        if self.list.tools != before.tools or first:
            self._changed()
        else:  # so that nobody takes them for others
            self.list = replace(before, changed=changed)

    def _told(self, server: str, what: str) -> None:
        if what == "tools" and self._relisting is None and not self._closing:
            pause = max(RELIST_PAUSE, self._relisted + RELIST_EVERY - self._monotonic())
            self._relisting = asyncio.get_running_loop().call_later(pause, self._relist_now)
        self._forward(server, what)

    def _relist_now(self) -> None:
        self._relisting = None
        if self._connection is not None and not self._closing:
            self._spawn(self._relist_quietly())

    async def _relist_quietly(self) -> None:
        try:
            async with asyncio.timeout(self._around.limits().connect_seconds):
                await self.relist()
        except (McpServerError, TimeoutError) as error:
            log.warning("the tools of MCP server %s could not be listed again: %s", self.entry.name, error)

    # --- its life --------------------------------------------------------------------------------------------------

    def due(self) -> bool:
        """Whether ``look`` has something to do."""
        return self._is_idle() or self._is_stale() or self._should_run()

    async def look(self) -> None:
        """Stop it when it is idle, list again what is stale, start what should run."""
        if self._is_idle():
            log.info("MCP server %s is stopped: nobody has used it for some time", self.entry.name)
            await self._drop(ServerState.IDLE)
        elif self._is_stale():
            self._stale_at = None
            self._relist_now()
        elif self._should_run():
            with suppress(McpServerError):  # ``status`` and the log tell of it
                await self.learn()

    def _is_idle(self) -> bool:
        if self._connection is None or self._users or self.entry.auto_start:
            return False
        idle = self.entry.idle_seconds or self._around.limits().idle_seconds
        return self._monotonic() - self._used >= idle

    def _is_stale(self) -> bool:
        return self._connection is not None and self._stale_at is not None and self._monotonic() >= self._stale_at

    def _should_run(self) -> bool:
        """One that is to run always does; of which nothing is known, or that failed, is tried until it works again."""
        wanted = self.entry.auto_start or not self.known or self._state is ServerState.FAILED
        may = not (self.entry.disabled or self._closing or self._resting)
        return wanted and may and self._connection is None and self._monotonic() >= self._not_before

    async def close(self) -> None:
        """End it, and all that was begun for it."""
        self._closing = True
        if self._relisting is not None:
            self._relisting.cancel()
        begun = [*self._tasks, *([self._starting] if self._starting is not None else [])]
        for task in begun:
            task.cancel()
        if begun:
            await asyncio.wait(begun)
        await self._drop(ServerState.IDLE)

    async def rest(self) -> None:
        """End it until the next call needs it, or somebody asks for its tools."""
        self._resting = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait((self._starting,))
        await self._drop(ServerState.IDLE)

    async def _drop(self, state: ServerState, error: McpServerError | None = None) -> None:
        connection, self._connection = self._connection, None
        if not self.entry.disabled:
            self._set(state, error)
        if connection is not None:
            await connection.close()

    @property
    def runs(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    def forgive(self) -> None:
        """Let the next start come at once."""
        self._failures, self._not_before = 0, 0.0

    async def forget(self, connection: Connection) -> None:
        """The server no longer knows this connection."""
        if self._connection is connection:
            await self._drop(ServerState.IDLE)

    async def connected(self) -> Connection:
        """A connection that works, started where there is none. Raises McpServerError."""
        connection = self._connection
        if connection is not None and not connection.link.gone.is_set() and not connection.closed.is_set():
            return connection
        if self._closing or self.entry.disabled:
            raise McpServerError(both("已停用", "is switched off"))
        self._resting = False
        pause = self._not_before - self._monotonic()
        if pause > PATIENCE:
            seconds = max(1, round(pause))
            told = both(f"{seconds} 秒后可再试", f"it may be tried again in {seconds} s")
            if self._fault is None:
                raise McpServerError(both("暂时不可用", "is not there now"))
            raise McpServerError(f"{self._fault.message}; {told}", self._fault.details)
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(max(0.0, pause)))
            self._starting.add_done_callback(self._started)
        try:
            return await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if self._closing:
                raise McpServerError(both("已停用", "is switched off")) from None
            raise

    def _started(self, task: asyncio.Task[Connection]) -> None:
        if self._starting is task:
            self._starting = None
        if not task.cancelled():
            task.exception()  # whoever waited has got it

    async def _start(self, pause: float) -> Connection:
        if pause:
            await asyncio.sleep(pause)
        if self._connection is not None:
            await self._drop(ServerState.IDLE)
        self._set(ServerState.STARTING, self._fault)  # so long as nothing is better nothing else is told
        try:
            connection = await self._open()
        except McpServerError as error:
            self._failed(error)
            raise
        finally:
            self.settled.set()
            if self._state is ServerState.STARTING:
                self._set(ServerState.IDLE)
        self._connection, self._way = connection, connection.way
        self._used = self._ready_at = self._monotonic()
        self._told_error = ""
        self._set(ServerState.READY)
        self._spawn(self._watch(connection))
        self._around.ready(self.entry.name)
        log.info("MCP server %s is ready (%s)", self.entry.name, connection.client.protocol_version)
        return connection

    async def _open(self) -> Connection:
        connect = await asyncio.to_thread(opener)
        try:
            connection = await connect(self.entry, self._around, self._way)
        except McpServerError:
            self._way = None
            raise
        try:
            async with asyncio.timeout(self.entry.connect_seconds or self._around.limits().connect_seconds):
                await self._list(connection)
        except TimeoutError:
            details = connection.link.details()
            await connection.close()
            raise McpServerError(both("列出工具超时", "took too long to list its tools"), details) from None
        except BaseException:
            await connection.close()
            raise
        return connection

    def _failed(self, error: McpServerError) -> None:
        self._failures += 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures - 1, 10))
        self._not_before = self._monotonic() + pause
        state = ServerState.SIGN_IN if isinstance(error, SignInNeededError) else ServerState.FAILED
        self._set(state, error)
        if error.message != self._told_error:
            self._told_error = error.message
            log.warning("MCP server %s failed: %s", self.entry.name, error.message)

    async def _watch(self, connection: Connection) -> None:
        """Notice that a server has gone, so that the next call starts it anew."""
        await connection.closed.wait()
        if self._connection is not connection or self._closing:
            return
        if self._monotonic() - self._ready_at >= STABLE_SECONDS:
            self._failures = 0
            self._not_before = 0.0
            self._told_error = ""
            error = connection.failure(None)
            self._set(ServerState.IDLE, error)
            log.warning("MCP server %s has gone: %s", self.entry.name, error.message)
        else:
            self._failed(connection.failure(None))
        self._connection = None

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- its use ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """The SDK's client, which stays open meanwhile. Raises McpServerError."""
        with self.in_use():
            connection = await self.connected()
            yield connection.client

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """It is not stopped while the block runs."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._used = self._monotonic()

    def allowance(self, tool: str) -> Allowance:
        """The time that a call of this tool has: its own limit or the server's as it stands, else the settings'."""
        own = self.entry.tool_timeouts.get(tool) or self.entry.timeout
        if own is not None:
            return Allowance(own, own)
        limits = self._around.limits()
        return Allowance(limits.call_seconds, max(limits.call_seconds, limits.call_max_seconds))

    def _logged(self, server: str, level: str, data: Json, logger: str) -> None:
        """What the server logs: only that it did to our log, since it may hold anything, and all to its callers."""
        log.debug("[%s] logs at level %s", server, level)
        told = set[int]()
        for context in self.callers:
            if context.caller is not None and id(context.caller) not in told:
                told.add(id(context.caller))
                context.caller.log(level, data, logger)
