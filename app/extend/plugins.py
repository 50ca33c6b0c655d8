"""In-process Python plugins: what they get (``PluginContext``) and what they may offer (``InProcessPlugin``).

They are trusted code of the operator and run inside the server (spec 5.7); ``docs/plugins.md`` is their tutorial.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Protocol, TypeVar

import httpx

from app.extend.memory import PluginMemory
from app.extend.pages import PluginPage
from app.extend.prompts import PlaceholderSource, PromptContext
from app.extend.server import DeclaredRoute
from app.extend.shelves import PromptSource, ResourceSource
from app.extend.tools import CallContext, ToolCall, ToolResult
from app.extend.values import Body, Clock, Json

T = TypeVar("T")


class PluginTools(Protocol):
    """Runs a tool for a plugin, through the router like every other call; never raises, the result says what happened.

    The call that is running now is found by itself, also in threads and in tasks that the plugin starts meanwhile:
    its depth, client and deadline are carried on. ``within`` names another one.
    """

    async def __call__(
        self, tool: str, arguments: Mapping[str, Json], *, within: CallContext | None = None
    ) -> ToolResult:
        """``within`` is the call that leads to this one, where it is not the one that is running now."""
        ...


class PluginChat(Protocol):
    """Runs a whole turn of our own server: prompt, model, tools (spec 7.5)."""

    async def __call__(self, body: Body, *, within: CallContext | None = None) -> Json:
        """The completion; ``stream`` in the body is ignored. Raises ``VcpError`` that says what went wrong.

        Chats that lead to tools that lead to chats end at a limit of depth.
        """
        ...


class PluginEmbeddings(Protocol):
    """Makes vectors of texts with the configured embedding model."""

    async def __call__(self, texts: Sequence[str], *, model: str | None = None) -> list[list[float]]:
        """One vector for each text, in their order. Raises ``VcpError`` when they cannot be made."""
        ...


class PluginCompletion(Protocol):
    """Asks the model API for one plain completion: no prompt of the server, no tools, no rounds."""

    async def __call__(self, body: Body) -> Json:
        """The answer as the API gave it; ``stream`` must not be set. Raises ``VcpError``."""
        ...


class PluginPush(Protocol):
    """Hands a message to connected clients (spec 5.8); returns at once, nobody waits for them. Any thread may call it.

    Raises ``VcpError`` for data that is no JSON.
    """

    def __call__(self, message_type: str, data: Json, *, target_client_type: str | None = None) -> None: ...


class PluginInform(Protocol):
    """Tells those who watch the inner workings (clients of type VCPInfo, spec 6.5); returns at once, from any thread.

    ``message`` is sent as it is and needs a ``type``. Raises ``VcpError`` for what is no JSON object with one.
    """

    def __call__(self, message: Mapping[str, Json]) -> None: ...


class PluginProgress(Protocol):
    """Tells those who wait for a call how far it is; returns at once. Any thread may call it.

    ``progress`` of ``total`` in whatever the plugin counts; it should grow. Clients hear of it at most ten times a
    second, and only those that asked for it (MCP-12).
    """

    def __call__(self, call: ToolCall, progress: float, total: float | None = None, message: str = "") -> None: ...


class PluginShelfChanged(Protocol):
    """Tells MCP clients that what the plugin offers them is another one; returns at once. Any thread may call it."""

    def __call__(self, uri: str = "") -> None:
        """The content behind ``uri`` is; without one the lists of its resources and prompts are."""
        ...


class PluginWait(Protocol):
    """Lets a plain method, which runs in a thread, wait for something asynchronous of the server."""

    def __call__(self, awaitable: Awaitable[T]) -> T:
        """The result. Raises ``RuntimeError`` in the event loop itself, where ``await`` is the word."""
        ...


@dataclass(frozen=True, slots=True)
class PluginContext:
    """What the server gives to an in-process plugin; one object for each loaded plugin.

    ``config`` are the keys of its ``configSchema`` and ``DebugMode``, resolved as for processes (spec 5.4); when one of
    them changes, the plugin is loaded anew. ``environ`` is the whole configuration of now, ``PORT`` and ``Key`` of the
    server in it. ``store_dir`` is a folder of its own that survives updates. ``auth_code`` gives the code for
    administrators' tools, None when it cannot be read (spec 7.3). ``http`` is shared by all plugins and closed by the
    server.
    """

    name: str
    folder: Path
    home: Path
    store_dir: Path
    config: Mapping[str, str]
    environ: Mapping[str, str]
    call_tool: PluginTools
    chat: PluginChat
    complete: PluginCompletion
    embed: PluginEmbeddings
    memory: PluginMemory
    push: PluginPush
    inform: PluginInform
    progress: PluginProgress
    shelf_changed: PluginShelfChanged
    wait: PluginWait
    auth_code: Callable[[], str | None]
    clock: Clock
    zone: tzinfo
    log: logging.Logger
    http: httpx.AsyncClient


class InProcessPlugin(Protocol):
    """What ``create(context)`` of a plugin's module returns. Every method may be missing, and may be plain or async.

    Plain methods run in a bounded pool of threads, async ones in the server's loop, where one that blocks is named in
    the log. Each has the time of the manifest's ``communication.timeout`` (``stop``: ``PluginStopSeconds``).
    """

    async def start(self) -> None:
        """Called once before anything else; an exception leaves the plugin out."""

    def wants(self, body: Body, context: PromptContext) -> bool:
        """Whether ``process`` is to be asked about this body; without this method it always is.

        A plain method that runs in the loop on the body itself, so it only reads and takes no time. What it spares is
        the copy of the body and the check of what comes back.
        """
        ...

    async def process(self, body: Body, context: PromptContext) -> Body:
        """A preprocessor's step, at the ``stage`` that the manifest names; returns the body to go on with.

        ``body`` is a copy of its own. An error, and what is no JSON, leaves the body as it was.
        """
        ...

    async def call(self, call: ToolCall, context: CallContext) -> ToolResult | Json:
        """A tool call of a hybrid plugin: a ``ToolResult``, or JSON that becomes a successful one."""
        ...

    def routes(self) -> Sequence[DeclaredRoute]:
        """The routes of a service, each with its access."""
        ...

    def placeholders(self) -> Sequence[PlaceholderSource]:
        """Placeholders that the plugin fills."""
        ...

    def resources(self) -> Sequence[ResourceSource]:
        """What MCP clients may read of the plugin."""
        ...

    def prompts(self) -> Sequence[PromptSource]:
        """Prompts for MCP clients."""
        ...

    def pages(self) -> Sequence[PluginPage]:
        """Pages for the admin panel."""
        ...

    async def stop(self) -> None:
        """Called once at the end, after a failed start and after a reload too.

        At a reload the new object has been started and serves already, and calls of the old one have ended.
        """
