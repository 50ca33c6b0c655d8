"""One version of one in-process plugin: loaded, used, retired."""

from __future__ import annotations

import asyncio
import copy
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.errors import VcpError, both
from app.extend import (
    Body,
    CallContext,
    DeclaredRoute,
    ErrorKind,
    Found,
    PlaceholderSource,
    PromptContext,
    PromptSource,
    ResourceSource,
    Stage,
    ToolCall,
    ToolResult,
    Trust,
)
from app.plugins.discovery import Plugin
from app.plugins.in_process_context import STANDING, ServerParts, Standing, make_context, printable
from app.plugins.in_process_modules import PluginCodeError, PluginPackage, error_place
from app.plugins.in_process_pages import OwnedPage, checked_pages
from app.plugins.in_process_routes import checked_routes
from app.plugins.in_process_shelves import checked_prompts, checked_resources
from app.plugins.in_process_work import Workers
from app.plugins.json_values import checked_json
from app.plugins.loop_watch import LoopWatch
from app.protocol.tool_values import content_parts

BODY_LIMIT = 1024 * 1024 * 1024
"""Most characters of a request body that a preprocessor returns."""
PLACEHOLDERS_LIMIT = 100
"""Most placeholder sources of one plugin."""
_METHODS = ("start", "process", "call", "routes", "placeholders", "resources", "prompts", "pages", "stop")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Version:
    """What makes a loaded plugin the same as one that is found: manifest, code and settings, and the zone of dates."""

    plugin: Plugin
    settings: tuple[tuple[str, str], ...]
    zone: str

    @property
    def seconds(self) -> float:
        """How long each of its methods may take."""
        return self.plugin.manifest.timeout


@dataclass(frozen=True, slots=True)
class Tools:
    """What loading a plugin takes from the server."""

    workers: Workers
    watch: LoopWatch
    parts: ServerParts
    stop_seconds: Callable[[], float]
    result_limit: Callable[[], int]


class LoadedPlugin:
    """A plugin whose module is imported and whose object is started. Made by :func:`load`."""

    def __init__(self, version: Version, tools: Tools, package: PluginPackage, instance: object) -> None:
        self.version = version
        self.name = version.plugin.name
        self.stage = stage_of(version.plugin)
        self.routes: tuple[DeclaredRoute, ...] = ()
        self.placeholders: tuple[PlaceholderSource, ...] = ()
        self.resources: tuple[ResourceSource, ...] = ()
        self.prompts: tuple[PromptSource, ...] = ()
        self.pages: tuple[OwnedPage, ...] = ()
        self._tools = tools
        self._package = package
        self._instance = instance
        self._shown_name = printable(self.name)
        self._at_work = _AtWork()

    def offers(self, method: str) -> bool:
        """Whether the plugin's object has this method."""
        return callable(getattr(self._instance, method, None))

    async def start(self) -> None:
        """Start the object and take in what it brings; raises what goes wrong."""
        if not any(self.offers(method) for method in _METHODS):
            raise PluginCodeError(
                both(
                    f"create() 返回的对象没有任何可用的方法（{', '.join(_METHODS)}）",
                    f"what create() returned has none of the methods {', '.join(_METHODS)}",
                )
            )
        if self.offers("start"):
            await self._run("start")
        if self.offers("routes"):
            self.routes = checked_routes(self.name, await self._run("routes"), self._tools.watch, self._busy)
        if self.offers("placeholders"):
            self.placeholders = self._checked_sources(await self._run("placeholders"))
        if self.offers("resources"):
            self.resources = checked_resources(self, await self._run("resources"))
        if self.offers("prompts"):
            self.prompts = checked_prompts(self, await self._run("prompts"))
        if self.offers("pages"):
            self.pages = checked_pages(self.name, self, await self._run("pages"))

    async def process(self, body: Body, context: PromptContext) -> Body:
        """The preprocessor's step; raises when it fails or returns no body.

        A body that the plugin does not want is neither copied nor checked: long conversations pass for nothing.
        """
        if self.offers("wants") and not await self._tools.watch.stepped(self._shown_name, self._wants(body, context)):
            return body
        copied = copy.deepcopy(body)  # one that fails half-way, or too late, must not have changed the original
        changed = await self._run("process", copied, context)
        if not isinstance(changed, dict):
            raise TypeError(f"process() returned {type(changed).__name__}, not the body")
        checked_json(changed, BODY_LIMIT)
        return changed

    async def _wants(self, body: Body, context: PromptContext) -> bool:
        with self._at_work:
            wanted = getattr(self._instance, "wants")(body, context)  # noqa: B009 - a plugin's own method
        if not isinstance(wanted, bool):
            raise TypeError(f"wants() returned {type(wanted).__name__}, not True or False")
        return wanted

    async def call(self, call: ToolCall, context: CallContext) -> ToolResult:
        """The result of a tool call; raises what the plugin raises, PluginTimeoutError, NotJsonError."""
        loop = asyncio.get_running_loop()
        seconds = self.version.seconds
        if context.deadline is not None:
            seconds = min(seconds, max(0.0, context.deadline - loop.time()))
        inner = context.until(loop.time() + seconds)
        standing = Standing(inner, call.id)
        own = call.given(dict(call.arguments), dict(call.texts))  # a plugin may change what others still read
        token = STANDING.set(standing)
        try:
            value = await self._run("call", own, inner, seconds=seconds)
            standing.over = True
        finally:
            STANDING.reset(token)
        limit = self._tools.result_limit()
        if isinstance(value, ToolResult):
            return _checked_result(value, limit)
        checked_json(value, limit)
        return ToolResult(structured=list(value) if isinstance(value, tuple) else value, parts=content_parts(value))

    async def resolve(
        self, source: PlaceholderSource, found: Sequence[Found], context: PromptContext
    ) -> Mapping[str, str]:
        """What a placeholder source of the plugin answers."""
        texts = await self._run_method(source.resolve, found, context, seconds=self.version.seconds, what="resolve")
        if not isinstance(texts, Mapping):
            raise TypeError(f"resolve() returned {type(texts).__name__}, not a map")
        return texts

    async def run_source(self, method: Callable[..., Any], *arguments: Any, what: str) -> Any:
        """What a method of a resource source or a prompt returns; raises VcpError for whatever goes wrong."""
        try:
            return await self._run_method(method, *arguments, seconds=self.version.seconds, what=what)
        except VcpError:
            raise
        except Exception as error:  # the plugin boundary: told to the client in one line
            log_fault(self.name, f"{what}()", error)
            raise PluginCodeError(
                both(f'插件 "{self._shown_name}" 出错', f'plugin "{self._shown_name}" failed') + f": {what}()"
            ) from error

    async def stop(self) -> None:
        """Stop the object and forget its code; bounded, and never raises but for the caller's own cancellation."""
        try:
            if self.offers("stop"):
                await self._run("stop", seconds=self._tools.stop_seconds())
        except Exception as error:  # noqa: BLE001 - the plugin boundary: the others stop as well
            log_fault(self.name, "stop", error)
        finally:
            await self._tools.workers.end_tasks(printable(self.name), self._package.name)
            await asyncio.to_thread(self._package.unload)

    async def retire(self) -> None:
        """Wait for calls that run, as long as they may, then stop."""
        try:
            async with asyncio.timeout(self.version.seconds):
                await self._at_work.idle.wait()
        except TimeoutError:
            log.warning("plugin %s is stopped while calls of it still run", printable(self.name))
        finally:
            await self.stop()

    async def _run(self, method: str, *arguments: Any, seconds: float | None = None) -> Any:
        return await self._run_method(
            getattr(self._instance, method),
            *arguments,
            seconds=self.version.seconds if seconds is None else seconds,
            what=method,
        )

    async def _run_method(self, method: Callable[..., Any], *arguments: Any, seconds: float, what: str) -> Any:
        with self._at_work:
            return await self._tools.workers.run(
                self._shown_name, method, *arguments, seconds=seconds, what=f"{what}()"
            )

    def _busy(self) -> _AtWork:
        """While it lasts the plugin is not stopped for a newer version."""
        return self._at_work

    def _checked_sources(self, sources: object) -> tuple[PlaceholderSource, ...]:
        listed = list(sources) if isinstance(sources, Iterable) else [sources]
        if len(listed) > PLACEHOLDERS_LIMIT:
            raise PluginCodeError(
                both(f"占位符来源超过 {PLACEHOLDERS_LIMIT} 个", f"more than {PLACEHOLDERS_LIMIT} placeholder sources")
            )
        return tuple(_OwnedSource(self, source) for source in listed)


class _AtWork:
    """Entered by everything that a plugin does, also at the same time; ``idle`` is set while nobody is inside."""

    def __init__(self) -> None:
        self.idle = asyncio.Event()
        self.idle.set()
        self._running = 0

    def __enter__(self) -> None:
        self._running += 1
        self.idle.clear()

    def __exit__(self, *error: object) -> None:
        self._running -= 1
        if not self._running:
            self.idle.set()


def _checked_result(result: ToolResult, limit: int) -> ToolResult:
    """The result itself, when its fields are what they should be; raises TypeError, NotJsonError."""
    parts = result.parts
    if parts is not None and not (isinstance(parts, tuple | list) and all(isinstance(part, dict) for part in parts)):
        raise TypeError("ToolResult.parts must be a tuple of dictionaries, or None")
    if not isinstance(result.message, str):
        raise TypeError("ToolResult.message must be a text")
    if not isinstance(result.error_kind, ErrorKind | None):
        raise TypeError("ToolResult.error_kind must be an ErrorKind, or None")
    if not isinstance(result.mcp, dict | None):
        raise TypeError("ToolResult.mcp must be a dictionary, or None")
    checked_json([result.structured, list(parts or ()), result.message, result.mcp], limit)
    return result


class _OwnedSource:
    """A plugin's placeholder source: its fields as they were when it was loaded, its answers within the limits."""

    def __init__(self, owner: LoadedPlugin, source: Any) -> None:
        self._owner = owner
        self._source = source
        try:
            self.name = str(source.name)
            self.pattern: re.Pattern[str] = source.pattern
            self.roles = frozenset(source.roles)
            self.trust = Trust(getattr(source, "trust", Trust.DATA))
            self.after_detectors = bool(getattr(source, "after_detectors", False))
            complete = isinstance(self.pattern, re.Pattern) and callable(source.resolve)
        except (AttributeError, TypeError, ValueError) as error:
            raise _incomplete(str(error)) from error
        if not complete:
            raise _incomplete("pattern, resolve")

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        return await self._owner.resolve(self._source, found, context)


def _incomplete(what: str) -> PluginCodeError:
    return PluginCodeError(both(f"占位符来源不完整：{what}", f"a placeholder source is incomplete: {what}"))


async def load(version: Version, tools: Tools, number: int) -> LoadedPlugin:
    """Import, make and start a version of a plugin, each step within its time; raises what goes wrong.

    Nothing is left of one that cannot be started but its log lines.
    """
    plugin = version.plugin
    stage_of(plugin)
    name = printable(plugin.name)
    loop = asyncio.get_running_loop()
    context = await asyncio.to_thread(
        make_context, plugin, dict(version.settings), tools.parts.zone(), tools.parts, loop
    )
    package = PluginPackage(plugin.name, plugin.folder, plugin.manifest.script, number)
    run = tools.workers.run
    try:
        module = await run(name, package.load, seconds=version.seconds, what="import")
        create = getattr(module, "create", None)
        if not callable(create):
            raise PluginCodeError(both("模块没有 create(context) 函数", "the module has no function create(context)"))
        instance = await run(name, create, context, seconds=version.seconds, what="create()")
    except BaseException:
        await asyncio.to_thread(package.unload)
        raise
    loaded = LoadedPlugin(version, tools, package, instance)
    try:
        await loaded.start()
    except BaseException:
        await loaded.stop()
        raise
    return loaded


def stage_of(plugin: Plugin) -> Stage:
    """The ``stage`` of the manifest; ``after`` where it names none. Raises VcpError for another word."""
    word = plugin.manifest.raw.get("stage", Stage.AFTER)
    try:
        return Stage(word)
    except ValueError:
        stages = ", ".join(Stage)
        raise VcpError(both(f"stage 必须是 {stages} 之一", f"stage must be one of {stages}")) from None


def log_fault(plugin: str, what: str, error: BaseException) -> None:
    """One line about an error of a plugin: where, not its words, which may hold what was asked for."""
    place = error_place(error)
    log.warning(
        "plugin %s: %s failed: %s%s", printable(plugin), what, type(error).__name__, f" at {place}" if place else ""
    )
