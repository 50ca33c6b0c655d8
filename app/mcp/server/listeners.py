"""Telling clients that lists have changed (mcp.md MCP-16): all sessions, and subscriptions of clients without one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType

from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

log = logging.getLogger(__name__)

DEBOUNCE_SECONDS = 0.25
"""Changes within this time are told once."""

TELL_SECONDS = 10.0
"""How long one session may take to be told; then it misses it."""

MAX_SUBSCRIPTIONS = 1024
"""Most open subscriptions of clients without a session."""

MAX_URIS = 1000
"""Most resources that one session may watch, and most that change at a time."""

TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
RESOURCES = "notifications/resources/list_changed"
UPDATED = "notifications/resources/updated"

_EVENTS: Mapping[str, Callable[[], ServerEvent]] = MappingProxyType(
    {TOOLS: ToolsListChanged, PROMPTS: PromptsListChanged, RESOURCES: ResourcesListChanged}
)


class _Session:
    """One session: what it has to be told, at most once each, however slowly it reads."""

    def __init__(self, connection: Connection) -> None:
        self.uris: set[str] = set()
        self._connection = connection
        self._due: dict[tuple[str, str], None] = {}
        self._task: asyncio.Task[None] | None = None

    def tell(self, method: str, uri: str = "") -> None:
        self._due[method, uri] = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._tell())

    def gone(self) -> None:
        self._due.clear()
        if self._task is not None:
            self._task.cancel()

    async def _tell(self) -> None:
        while self._due:
            method, uri = next(iter(self._due))
            del self._due[method, uri]
            try:
                async with asyncio.timeout(TELL_SECONDS):
                    await self._connection.notify(method, {"uri": uri} if uri else None)
            except TimeoutError:
                log.warning("a client of MCP did not read %s within %g s", method, TELL_SECONDS)


class Listeners:
    """All who hear of changes. ``changed`` and ``updated`` may be called at any time while the door is started.

    ``tools_differ`` says whether the door's tools are others than when it was asked last: a change that the door does
    not show is told to nobody.
    """

    def __init__(self, tools_differ: Callable[[], bool], debounce_seconds: float = DEBOUNCE_SECONDS) -> None:
        self._tools_differ = tools_differ
        self._seconds = debounce_seconds
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus, max_subscriptions=MAX_SUBSCRIPTIONS)
        self._sessions: dict[Connection, _Session] = {}
        self._due: set[tuple[str, str]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def sessions(self) -> int:
        """Clients with a session that are told now."""
        return len(self._sessions)

    def start(self) -> None:
        """From now on changes are told; they may be reported from any thread."""
        self._loop = asyncio.get_running_loop()

    def joined(self, connection: Connection) -> None:
        """A session is there, until its connection ends."""
        if connection not in self._sessions:
            self._sessions[connection] = _Session(connection)
            connection.exit_stack.callback(self._left, connection)

    def _left(self, connection: Connection) -> None:
        session = self._sessions.pop(connection, None)
        if session is not None:
            session.gone()

    def watch(self, connection: Connection, uri: str) -> bool:
        """This session is told when the resource is another one; False when it watches too many already."""
        self.joined(connection)
        uris = self._sessions[connection].uris
        if len(uris) >= MAX_URIS and uri not in uris:
            return False
        uris.add(uri)
        return True

    def unwatch(self, connection: Connection, uri: str) -> None:
        """It is told no more."""
        session = self._sessions.get(connection)
        if session is not None:
            session.uris.discard(uri)

    def changed(self, method: str) -> None:
        """A list may be another one."""
        self._soon((method, ""))

    def updated(self, uri: str) -> None:
        """The content of a resource may be another one."""
        self._soon((UPDATED, uri))

    def _soon(self, what: tuple[str, str]) -> None:
        if self._loop is None:
            return
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            self._put(what)
        else:
            self._loop.call_soon_threadsafe(self._put, what)

    def _put(self, what: tuple[str, str]) -> None:
        if self._loop is None:
            return
        if len(self._due) >= MAX_URIS:
            what = (RESOURCES, "")  # who is told that the list changed looks at all of it
        self._due.add(what)
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._telling is not None and not self._telling.done():
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._fire)
            return
        due, self._due = self._due, set()
        if (TOOLS, "") in due and not self._tools_differ():
            due.discard((TOOLS, ""))
        for method, uri in sorted(due):
            for session in self._sessions.values():
                if not uri or uri in session.uris:
                    session.tell(method, uri)
        if due:
            self._telling = asyncio.create_task(self._publish(sorted(due)))

    async def _publish(self, due: list[tuple[str, str]]) -> None:
        for method, uri in due:
            await self._bus.publish(ResourceUpdated(uri=uri) if method == UPDATED else _EVENTS[method]())

    def stop(self) -> None:
        """Nobody is told any more; subscriptions end."""
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._telling is not None:
            self._telling.cancel()
        self.listen.close()
        for session in self._sessions.values():
            session.gone()
        self._sessions.clear()
