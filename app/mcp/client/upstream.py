"""One MCP server: started when it is needed, stopped when it is idle, started anew when it has died (P92, MOD-12)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from app.errors import both
from app.extend import (
    CallContext,
    CallProgress,
    Clock,
    ErrorKind,
    EventSink,
    Json,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from app.mcp.client.around import Around
from app.mcp.client.patience import Allowance, Patience
from app.mcp.client.results import tool_result, tool_spec
from app.mcp.client.sent import SentArguments
from app.mcp.client.server_entry import ServerEntry
from app.mcp.client.status import (
    ConsentStore,
    McpServerError,
    ServerState,
    ServerStatus,
    SessionLostError,
    SignInNeededError,
    Tool,
    ToolRefusedError,
)

if TYPE_CHECKING:
    from mcp.client.client import Client

    from app.mcp.client.connection import Connection, Way

log = logging.getLogger(__name__)

MAX_RUNNING = 16
"""Calls of one server at a time, where its entry does not say."""

MAX_WAITING = 1_000
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
PATIENCE = 2.0
"""A call waits out a pause that is as short as this."""

STABLE_SECONDS = 10.0
"""A server that died sooner than this after its start has failed."""

RELIST_PAUSE = 0.25
RELIST_EVERY = 1.0
MIN_TTL = 30.0
PROGRESS_EVERY = 0.01


class Upstream:
    """One server of the file. ``changed`` is called when its tools are others.

    ``monotonic`` gives seconds of a steady clock, ``clock`` those since the epoch.
    """

    def __init__(
        self,
        entry: ServerEntry,
        around: Around,
        *,
        events: EventSink,
        consents: ConsentStore | None,
        clock: Clock,
        monotonic: Callable[[], float],
        changed: Callable[[], None],
        prefix: bool,
    ) -> None:
        self.entry = entry
        self._around = replace(around, told=self._told, logged=self._logged)
        self._forward = around.told
        self._events = events
        self._consents = consents
        self._clock = clock
        self._monotonic = monotonic
        self._changed = changed
        self._prefix = prefix
        self._identity = identity_of(entry)
        self._state = ServerState.DISABLED if entry.disabled else ServerState.IDLE
        self._since = clock()
        self._error = ""
        self._details = ""
        self._told_error = ""
        self._listed: tuple[Tool, ...] = ()
        self._waiting_consent: tuple[str, ...] = ()
        self._sent: Mapping[str, SentArguments] = MappingProxyType({})
        self.specs: Mapping[str, ToolSpec] = MappingProxyType({})
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
        self._waiting = 0
        self._places = asyncio.Semaphore(entry.max_running or MAX_RUNNING)
        self._callers: list[CallContext] = []
        self._closing = False
        self.known = entry.disabled
        """Whether its tools have been listed, now or before."""
        self.settled = asyncio.Event()
        """Set when its tools are known, or it has been tried."""
        if entry.disabled:
            self.settled.set()

    # --- what it is ------------------------------------------------------------------------------------------------

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that may be used, as JSON."""
        return self._listed

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
            error=self._error,
            details=self._details,
            tools=len(self._listed),
            changed=self._waiting_consent,
            pid=connection.link.pid if ready and connection is not None else None,
            protocol=connection.client.protocol_version if ready and connection is not None else "",
            running=self._users,
        )

    def _set(self, state: ServerState, error: McpServerError | None = None) -> None:
        if state is not self._state:
            self._state, self._since = state, self._clock()
        self._error = error.message if error is not None else ""
        self._details = error.details if error is not None else ""

    # --- its tools -------------------------------------------------------------------------------------------------

    async def recall(self) -> None:
        """Take the list that was kept when the server last ran."""
        if self._consents is not None and not self.entry.disabled:
            kept = await self._consents.cached(self.entry.name, self._identity)
            if kept is not None:
                self._take(kept.allowed, tuple(tool.name for tool in kept.changed))

    async def consented(self) -> None:
        """A person has accepted tools as they are now."""
        await self.recall()

    async def learn(self) -> None:
        """Start the server to learn what it can do; what goes wrong is told by ``status``."""
        with suppress(McpServerError):
            await self._connected()

    async def relist(self) -> None:
        """Ask the running server for its tools. Raises McpServerError."""
        connection = await self._connected()
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
        entry = self.entry
        tools = tuple(tool for tool in allowed if _wanted(str(tool["name"]), entry))
        self._waiting_consent = changed
        first, self.known = not self.known, True
        self.settled.set()
        if tools == self._listed and not first:
            return
        specs = (tool_spec(entry, tool, self._allowance(str(tool["name"])).most, prefix=self._prefix) for tool in tools)
        self._listed = tools
        self._sent = MappingProxyType({str(tool["name"]): SentArguments(tool) for tool in tools})
        self.specs = MappingProxyType({spec.name: spec for spec in specs})
        self._changed()

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

    async def look(self) -> None:
        """Now and then: stop it when it is idle, list again what is stale, start what should run."""
        now = self._monotonic()
        idle = self.entry.idle_seconds or self._around.limits().idle_seconds
        if self._connection is not None and not self._users:
            if not self.entry.auto_start and now - self._used >= idle:
                log.info("MCP server %s is stopped: nobody has used it for %g s", self.entry.name, idle)
                await self._drop(ServerState.IDLE)
            elif self._stale_at is not None and now >= self._stale_at:
                self._stale_at = None
                self._relist_now()
        wanted = self.entry.auto_start or not self.known
        if self._connection is None and wanted and not self.entry.disabled and now >= self._not_before:
            await self.learn()

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

    async def _drop(self, state: ServerState, error: McpServerError | None = None) -> None:
        connection, self._connection = self._connection, None
        if not self.entry.disabled:
            self._set(state, error)
        if connection is not None:
            await connection.close()

    async def _connected(self) -> Connection:
        """A connection that works, started where there is none. Raises McpServerError."""
        connection = self._connection
        if connection is not None and not connection.link.gone.is_set() and not connection.closed.is_set():
            return connection
        if self._closing or self.entry.disabled:
            raise McpServerError(both("已停用", "is switched off"))
        pause = self._not_before - self._monotonic()
        if pause > PATIENCE:
            seconds = max(1, round(pause))
            told = both(f"{seconds} 秒后可再试", f"it may be tried again in {seconds} s")
            raise McpServerError(f"{self._error}; {told}" if self._error else told, self._details)
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
        self._set(ServerState.STARTING)
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
        log.info("MCP server %s is ready (%s)", self.entry.name, connection.client.protocol_version)
        return connection

    async def _open(self) -> Connection:
        connect = await asyncio.to_thread(_sdk)
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
            if error.details:
                log.info("MCP server %s: %s", self.entry.name, error.details)

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
            self._set(ServerState.FAILED, error)
            log.warning("MCP server %s has gone: %s", self.entry.name, error.message)
        else:
            self._failed(connection.failure(None))
        self._connection = None

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- calls -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """The SDK's client, which stays open meanwhile. Raises McpServerError."""
        with self._in_use():
            connection = await self._connected()
            yield connection.client

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._used = self._monotonic()

    def _allowance(self, tool: str) -> Allowance:
        own = self.entry.tool_timeouts.get(tool) or self.entry.timeout
        if own is not None:
            return Allowance(own, own)
        limits = self._around.limits()
        return Allowance(limits.call_seconds, max(limits.call_seconds, limits.call_max_seconds))

    async def call(self, tool: str, call: ToolCall, context: CallContext, started: Callable[..., None]) -> ToolResult:
        """Run one call; never raises but when it is cancelled."""
        allowance = self._allowance(tool)
        if self._waiting >= MAX_WAITING:
            return _error(ErrorKind.QUEUE, self._said(both("等待的调用过多", "too many calls wait")))
        with self._in_use():
            self._waiting += 1
            try:
                async with asyncio.timeout(allowance.most):
                    await self._places.acquire()
            except TimeoutError:
                return _error(ErrorKind.QUEUE, self._said(both("排队超时", "no place in time")))
            finally:
                self._waiting -= 1
            self._callers.append(context)
            try:
                return await self._call(tool, call, context, started, allowance)
            except ToolRefusedError as error:
                return _error(ErrorKind.PLUGIN, error.message)
            except McpServerError as error:
                return _error(ErrorKind.EXECUTION, self._said(error.message))
            finally:
                self._callers.remove(context)
                self._places.release()

    async def _call(
        self,
        tool: str,
        call: ToolCall,
        context: CallContext,
        started: Callable[..., None],
        allowance: Allowance,
    ) -> ToolResult:
        again = True
        while True:
            connection = await self._connected()
            sent = self._sent.get(tool)
            if sent is None:
                return _error(ErrorKind.UNKNOWN_TOOL, self._gone(tool))
            arguments, fault = await sent.of(call)
            if fault:
                return _error(ErrorKind.PLUGIN, fault)
            started(pid=connection.link.pid)
            try:
                return await self._ask(connection, tool, arguments, call, context, allowance)
            except SessionLostError:
                await self._drop(ServerState.IDLE)
                if not again:
                    raise
                again = False

    async def _ask(
        self,
        connection: Connection,
        tool: str,
        arguments: Mapping[str, Json],
        call: ToolCall,
        context: CallContext,
        allowance: Allowance,
    ) -> ToolResult:
        patience = Patience(allowance, context.deadline)
        last = 0.0

        async def progress(done: float, total: float | None, message: str | None) -> None:
            nonlocal last
            patience.progress()
            now = self._monotonic()
            if now - last >= PROGRESS_EVERY or done == total:
                last = now
                self._events.publish(CallProgress(context.turn_id, call.id, done, total, (message or "")[:2000]))

        questions = connection.questions
        try:
            with questions.during(call, context) if questions is not None else nullcontext() as asked:
                async with patience.within(asked):
                    return tool_result(await connection.call_tool(tool, arguments, progress))
        except TimeoutError:
            seconds = round(patience.spent, 1)
            return _error(
                ErrorKind.TIMEOUT,
                self._said(both(f"{seconds:g} 秒内没有结果，已取消", f"gave no result in {seconds:g} s; cancelled")),
            )

    def _said(self, text: str) -> str:
        """A text about this server, with its name in front."""
        name = self.entry.name
        return f"{both(f'MCP 服务器 {name}', f'MCP server {name}')}: {text}"

    def _gone(self, tool: str) -> str:
        if tool in self._waiting_consent:
            return self._said(
                both(f"工具 {tool} 的描述已变更，待人确认", f"tool {tool} has changed and waits for a person's consent")
            )
        return self._said(both(f"不再提供工具 {tool}", f"there is no tool {tool} any more"))

    def _logged(self, server: str, level: str, data: Json, logger: str) -> None:
        """What the server logs: at the level of debugging to ours, since it may hold anything, and to its callers."""
        log.debug("[%s] %s%s", server, level, f" {logger}" if logger else "")
        told = set[int]()
        for context in self._callers:
            if context.caller is not None and id(context.caller) not in told:
                told.add(id(context.caller))
                context.caller.log(level, data, logger)


def identity_of(entry: ServerEntry) -> str:
    """What is behind a server's name, so that a list that was kept for something else is not used."""
    what = [entry.kind, entry.command, entry.args, entry.cwd, entry.url]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def _wanted(tool: str, entry: ServerEntry) -> bool:
    shown = not entry.allow or any(fnmatchcase(tool, pattern) for pattern in entry.allow)
    return shown and not any(fnmatchcase(tool, pattern) for pattern in entry.deny)


def _error(kind: ErrorKind, message: str) -> ToolResult:
    return ToolResult(error_kind=kind, message=message)


def _sdk() -> Callable[[ServerEntry, Around, Way | None], Any]:
    """What needs the SDK, whose import takes half a second: in a thread, and only where there is a server to start."""
    from app.mcp.client.connection import connected

    return connected
