"""What an in-process plugin gets from the server: its ``PluginContext`` and the calls behind it."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import httpx

from app.errors import BadRequestError, VcpError, both
from app.extend import (
    Body,
    CallContext,
    CallProgress,
    CallTool,
    Clock,
    Door,
    ErrorKind,
    Event,
    EventSink,
    Informed,
    Json,
    PluginContext,
    PluginEmbeddings,
    PluginMemory,
    Pushed,
    ShelfChanged,
    ToolCall,
    ToolResult,
)
from app.plugins.discovery import Plugin
from app.plugins.json_values import NotJsonError, checked_json
from app.protocol.call_depth import CALL_DEPTH_HEADER

PUSH_LIMIT = 16 * 1024 * 1024
"""Most characters of one pushed message."""

PASSWORD = "tool_password"
"""The argument with the hourly code, while ``VCPToolCode`` asks for it."""

STORES = Path(".vcp") / "plugins"
"""Where the folders of plugins' own data lie, below the home."""

_PLAIN_NAME = re.compile(r"\w[\w -]{0,79}(?<! )")

T = TypeVar("T")


class DepthError(BadRequestError):
    """Chats, tools and plugins called each other too deep."""

    code = "depth_limit"

    def __init__(self, limit: int) -> None:
        super().__init__(
            both(f"对话与工具互相调用超过 {limit} 层", f"chats and tools called each other more than {limit} deep")
        )


@dataclass(slots=True)
class Standing:
    """The call of a plugin that is running, or the chat that a plugin began: where what it does further stands.

    ``over`` once the call has returned: what it left running in the background is not bound to its deadline any more.
    """

    context: CallContext
    call_id: str | None
    over: bool = False


STANDING: ContextVar[Standing | None] = ContextVar("standing", default=None)
"""Follows a call into the tasks and threads that it starts, so that no chain gets around the limit of depth."""


@contextmanager
def standing_in(context: CallContext) -> Iterator[None]:
    """What plugins do for this turn stands in it; one that a plugin began stands where that plugin does already."""
    if STANDING.get() is not None:
        yield
        return
    token = STANDING.set(Standing(context, None))
    try:
        yield
    finally:
        STANDING.reset(token)


def depth_headers() -> Mapping[str, str]:
    """The header that tells our own server how deep a plugin's request stands; empty outside of calls and turns."""
    running = STANDING.get()
    return {} if running is None else {CALL_DEPTH_HEADER: str(running.context.depth + 1)}


RunChat = Callable[[Body, CallContext], Awaitable[Json]]
"""Runs a turn of our own that stands at the given depth, for the given client; raises VcpError."""


Complete = Callable[[Body, int], Awaitable[Json]]
"""Asks the model API for a plain completion, for a chain of the given depth; raises VcpError."""


@dataclass(frozen=True, slots=True)
class ServerParts:
    """What plugins may use of the server; callables give the value of now."""

    home: Path
    environ: Callable[[], Mapping[str, str]]
    zone: Callable[[], tzinfo]
    max_depth: Callable[[], int]
    password_wanted: Callable[[], bool]
    call_tool: CallTool
    chat: RunChat
    complete: Complete
    embed: PluginEmbeddings
    memory: PluginMemory
    events: EventSink
    auth_code: Callable[[], str | None]
    new_id: Callable[[str], str]
    clock: Clock
    http: httpx.AsyncClient


class _Environment(Mapping[str, str]):
    """The environment of now, looked up at each use."""

    def __init__(self, now: Callable[[], Mapping[str, str]]) -> None:
        self._now = now

    def __getitem__(self, name: str) -> str:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def __repr__(self) -> str:
        return f"<environment of {len(self)} variables>"  # it holds keys; they must not get into a log


def make_context(
    plugin: Plugin, settings: Mapping[str, str], zone: tzinfo, parts: ServerParts, loop: asyncio.AbstractEventLoop
) -> PluginContext:
    """The context of one loaded plugin. Makes its folder, so it blocks; ``loop`` is the server's.

    Raises OSError when the folder cannot be made, VcpError when it leads out of the home.
    """
    use = _Use(plugin.name, parts, loop)
    return PluginContext(
        name=plugin.name,
        folder=plugin.folder,
        home=parts.home,
        store_dir=store_dir(parts.home, plugin.name),
        config=MappingProxyType(dict(settings)),
        environ=_Environment(parts.environ),
        call_tool=use.call_tool,
        chat=use.chat,
        complete=use.complete,
        embed=parts.embed,
        memory=parts.memory,
        push=use.push,
        inform=use.inform,
        progress=use.progress,
        shelf_changed=use.shelf_changed,
        wait=use.wait,
        auth_code=parts.auth_code,
        clock=parts.clock,
        zone=zone,
        log=logging.getLogger(f"plugin.{printable(plugin.name)}"),
        http=parts.http,
    )


def printable(name: str) -> str:
    """A plugin's name as a logger's: dots would make a hierarchy of it, and anything may stand in a manifest."""
    return re.sub(r"[^\w -]", "_", name)[:80] or "_"


def store_dir(home: Path, name: str) -> Path:
    """The plugin's own folder in the home, made if need be; whatever its name is, it is one folder below ``STORES``."""
    folder = name
    if not _PLAIN_NAME.fullmatch(name):
        folder = f"{printable(name)}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
    root = home / STORES
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = root / folder
    path.mkdir(mode=0o700, exist_ok=True)
    if not path.resolve().is_relative_to(home.resolve()):
        raise VcpError(both(f"{path} 指向安装目录之外", f"{path} leads out of the installation"))
    return path


class _Use:
    """The calls of one plugin into the server."""

    def __init__(self, name: str, parts: ServerParts, loop: asyncio.AbstractEventLoop) -> None:
        self._name = name
        self._parts = parts
        self._loop = loop

    async def call_tool(
        self, tool: str, arguments: Mapping[str, Json], *, within: CallContext | None = None
    ) -> ToolResult:
        """See ``PluginTools``."""
        parts = self._parts
        outer, parent = self._standing(within)
        limit = parts.max_depth()
        if outer.depth + 1 > limit:
            return ToolResult(error_kind=ErrorKind.LIMIT, message=DepthError(limit).message)
        given = dict(arguments)
        password = given.pop(PASSWORD, None) if parts.password_wanted() else None
        maid = given.get("maid")
        call = ToolCall(
            id=parts.new_id("call"),
            tool=tool,
            arguments=given,
            password=password if isinstance(password, str) else None,
            maid=maid if isinstance(maid, str) and maid else None,
        )
        context = replace(outer, door=Door.AGENT, parent_call_id=parent, depth=outer.depth + 1, eager=False)
        return await parts.call_tool(call, context)

    async def chat(self, body: Body, *, within: CallContext | None = None) -> Json:
        """See ``PluginChat``."""
        outer, parent = self._standing(within)
        limit = self._parts.max_depth()
        if outer.depth + 1 > limit:
            raise DepthError(limit)
        context = replace(outer, door=Door.AGENT, parent_call_id=parent, depth=outer.depth + 1, eager=False)
        token = STANDING.set(Standing(context, parent))
        try:
            return await self._parts.chat(body, context)
        finally:
            STANDING.reset(token)

    async def complete(self, body: Body) -> Json:
        """See ``PluginCompletion``."""
        outer, _ = self._standing(None)
        return await self._parts.complete(body, outer.depth + 1)

    def push(self, message_type: str, data: Json, *, target_client_type: str | None = None) -> None:
        """See ``PluginPush``."""
        self._publish(Pushed(self._name, message_type, checked_json(data, PUSH_LIMIT), target_client_type))

    def inform(self, message: Mapping[str, Json]) -> None:
        """See ``PluginInform``."""
        told = checked_json(dict(message) if isinstance(message, Mapping) else message, PUSH_LIMIT)
        if not isinstance(told, dict) or not isinstance(told.get("type"), str):
            raise NotJsonError(both("消息缺少文本字段 type", "the message has no type, which must be a text"))
        self._publish(Informed(self._name, told))

    def progress(self, call: ToolCall, progress: float, total: float | None = None, message: str = "") -> None:
        """See ``PluginProgress``."""
        running = STANDING.get()
        turn_id = running.context.turn_id if running is not None else ""
        self._publish(CallProgress(turn_id, call.id, float(progress), None if total is None else float(total), message))

    def shelf_changed(self, uri: str = "") -> None:
        """See ``PluginShelfChanged``."""
        if not isinstance(uri, str):
            raise TypeError("the address of a resource is a text")
        self._publish(ShelfChanged(self._name, uri))

    def _publish(self, event: Event) -> None:
        if self._in_loop():
            self._parts.events.publish(event)
        else:
            self._loop.call_soon_threadsafe(self._parts.events.publish, event)

    def wait(self, awaitable: Awaitable[T]) -> T:
        """See ``PluginWait``."""
        if not self._in_loop():
            return asyncio.run_coroutine_threadsafe(_awaited(awaitable), self._loop).result()
        if asyncio.iscoroutine(awaitable):
            awaitable.close()
        raise RuntimeError("wait() is for plain methods, which run in threads; write await here")

    def _in_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _standing(self, within: CallContext | None) -> tuple[CallContext, str | None]:
        """The context of what leads to the next call, and the id of that call."""
        running = STANDING.get()
        if running is not None and (within is None or within is running.context):
            context = replace(running.context, deadline=None) if running.over else running.context
            return context, running.call_id
        if within is not None:
            return within, within.parent_call_id
        return CallContext(turn_id=self._parts.new_id("plugin"), door=Door.AGENT), None


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
