"""In-process Python plugins: loaded, swapped, stopped; their tools, preprocessors, placeholders and routes.

A plugin is served here when its manifest says ``communication.protocol: direct`` and its script is a Python module
(spec 5.3, 5.7). Each stands alone: one that cannot be loaded, fails or hangs is named, and costs nothing but itself.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from app.config.settings import Settings
from app.errors import VcpError, both
from app.extend import (
    Body,
    CallContext,
    DeclaredRoute,
    ErrorKind,
    PlaceholderSource,
    Preprocessor,
    PromptContext,
    PromptSource,
    Reloaded,
    ResourceSource,
    Stage,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from app.plugins.discovery import Plugin, PluginSet
from app.plugins.environment import resolve_settings
from app.plugins.in_process_context import ServerParts, printable
from app.plugins.in_process_modules import told_error
from app.plugins.in_process_pages import OwnedPage
from app.plugins.in_process_plugin import LoadedPlugin, Tools, Version, load, log_fault
from app.plugins.in_process_routes import merged_routes
from app.plugins.in_process_work import PluginHangingError, PluginTimeoutError, Workers, WorkLimits
from app.plugins.loop_watch import LoopWatch
from app.plugins.manifest import IN_PROCESS_TYPES
from app.plugins.output import failure
from app.plugins.places import QueueError
from app.plugins.preprocessor_order import PreprocessorOrder
from app.plugins.stdio import tool_spec

START_SECONDS = 10.0
"""How long the start of the server waits for its plugins; later ones come in when they are ready."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InProcessLimits:
    """``work`` bounds threads and waiting, ``result_chars`` the result of a call."""

    work: WorkLimits = field(default_factory=WorkLimits)
    result_chars: int = 64 * 1024 * 1024

    @classmethod
    def of(cls, settings: Settings) -> InProcessLimits:
        """Those that the settings name."""
        work = WorkLimits(
            threads=settings.plugin_threads,
            queued=settings.plugin_queue_limit,
            queue_seconds=settings.plugin_queue_seconds,
            stop_seconds=settings.plugin_stop_seconds,
        )
        return cls(work, settings.plugin_output_limit_mb * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class PluginState:
    """How one plugin is, for people: ``problem`` is why its present version could not be loaded, empty if it was."""

    name: str
    serving: bool
    problem: str
    hanging: int


class InProcessPlugins:
    """A host of plugins, a source of tools and of routes, and a part that starts and stops.

    ``limits`` is asked at each use. With ``on_demand`` nothing is loaded but a tool's plugin at its first call: for
    processes that only run tools (D88).
    """

    def __init__(
        self,
        plugins: PluginSet,
        parts: ServerParts,
        limits: Callable[[], InProcessLimits],
        *,
        on_demand: bool = False,
        watch: LoopWatch | None = None,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self._parts = parts
        self._on_demand = on_demand
        self._start_seconds = start_seconds
        self._watch = watch or LoopWatch()
        self._workers = Workers(self._watch, lambda: limits().work)
        self._tools = Tools(
            workers=self._workers,
            watch=self._watch,
            parts=parts,
            stop_seconds=lambda: limits().work.stop_seconds,
            result_limit=lambda: limits().result_chars,
        )
        self._order = PreprocessorOrder(parts.home)
        self._numbers = itertools.count(1)
        self._slots: dict[str, _Slot] = {}
        self._found: Mapping[str, Plugin] = {}
        self._told: list[Callable[[], None]] = []
        self._lock = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()
        self._running = False
        self._specs: Mapping[str, ToolSpec] = {}
        self._take_in(plugins)

    # What the server asks for

    def tools(self) -> Mapping[str, ToolSpec]:
        """All plugins of this kind; hybrid ones that have ``call`` can be called."""
        return self._specs

    def changed(self, told: Callable[[], None]) -> None:
        """Call ``told`` whenever plugins were loaded, swapped or removed, and with them all that they bring."""
        self._told.append(told)

    def addressed(self, name: str) -> ToolSpec | None:
        """Nothing: all names are listed."""
        return None

    def preprocessors(self) -> tuple[Preprocessor, ...]:
        """Those of now, in the order of ``preprocessor_order.json``; for one turn, which keeps the list.

        Their code may be swapped while the turn runs; one that is removed meanwhile changes nothing any more.
        """
        ready = {name: slot for name, slot in self._slots.items() if slot.loaded and slot.loaded.offers("process")}
        return tuple(_Step(ready[name]) for name in self._order.sorted(ready)) if ready else ()

    def placeholders(self) -> tuple[PlaceholderSource, ...]:
        """Those of all plugins that are loaded now, by the plugin's name."""
        return tuple(source for loaded in self._loaded() for source in loaded.placeholders)

    def routes(self) -> Sequence[DeclaredRoute]:
        """Those of all plugins that are loaded now, by the plugin's name."""
        return merged_routes(route for loaded in self._loaded() for route in loaded.routes)

    def resources(self) -> tuple[ResourceSource, ...]:
        """Those of all plugins that are loaded now, by the plugin's name."""
        return tuple(source for loaded in self._loaded() for source in loaded.resources)

    def prompts(self) -> tuple[PromptSource, ...]:
        """Those of all plugins that are loaded now, by the plugin's name."""
        return tuple(source for loaded in self._loaded() for source in loaded.prompts)

    def pages(self) -> tuple[OwnedPage, ...]:
        """Those of all plugins that are loaded now."""
        return tuple(page for loaded in self._loaded() for page in loaded.pages)

    def states(self) -> tuple[PluginState, ...]:
        """How each plugin is, by name."""
        return tuple(
            PluginState(name, slot.loaded is not None, slot.problem, self._workers.hanging(printable(name)))
            for name, slot in sorted(self._slots.items())
        )

    def problems(self) -> tuple[str, ...]:
        """Why plugins could not be loaded as they are now, for people; those that were loaded before still serve."""
        return tuple(f"{state.name}: {state.problem}" for state in self.states() if state.problem)

    def health(self) -> str:
        """Always well: a plugin that fails is told in the log and in ``states``; the server serves without it."""
        return ""

    # Start, change, stop

    async def start(self) -> None:
        """Load all plugins together; goes on without those that take longer than ``start_seconds``."""
        self._running = True
        self._watch.start()
        await self._settle()

    async def replace(self, plugins: PluginSet) -> None:
        """Serve this set from now on; what did not change is left alone, what cannot be loaded leaves the old version.

        Never raises. Plugins that take long are swapped when they are ready, and that is told by a ``Reloaded``.
        """
        self._take_in(plugins)
        if self._running:
            await self._settle()

    def settings_changed(self) -> None:
        """Load those plugins anew, in the background, whose own settings are others now."""
        if self._running and not self._on_demand and any(self._is_stale(slot) for slot in self._slots.values()):
            self._begin(self._announce_after(self._begin(self._reconcile(), "reload in-process plugins")), "announce")

    async def load_all(self) -> None:
        """Load now what else waits for its first call; ``problems`` then says what could not be loaded."""
        await self._reconcile()

    async def stop(self) -> None:
        """Stop every plugin, all together, within bounded time."""
        self._running = False
        for task in tuple(self._background):
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        loaded = self._loaded()
        for slot in self._slots.values():
            slot.loaded = None
        await asyncio.gather(*(plugin.stop() for plugin in loaded))
        self._watch.stop()

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        """Run a hybrid plugin's ``call``. Raises nothing but the caller's own cancellation."""
        name = spec.name
        slot = self._slots.get(name)
        if slot is None:
            return failure(
                ErrorKind.UNKNOWN_TOOL, both(f'插件 "{name}" 已不再加载。', f'Plugin "{name}" is not loaded any more.')
            )
        if self._on_demand and slot.loaded is None:
            async with self._lock:
                await self._load(slot)
        loaded = slot.loaded
        if loaded is None:
            said = both(f'插件 "{name}" 没有加载', f'Plugin "{name}" is not loaded')
            return failure(ErrorKind.EXECUTION, f"{said}: {slot.problem or both('正在加载', 'it is being loaded')}")
        manifest = loaded.version.plugin.manifest
        if not loaded.offers("call"):
            said = both("该插件不提供工具调用。", "It offers no tool calls.")
            text = f'Plugin "{name}" (type: {manifest.plugin_type}, protocol: {manifest.protocol}) is not callable.'
            return failure(ErrorKind.EXECUTION, f"{text} {said}")
        if manifest.requires_admin and not self._parts.auth_code():
            return failure(
                ErrorKind.EXECUTION,
                both(
                    f'插件 "{name}" 需要管理员验证码，但验证码无法读取，插件没有运行。',
                    f'Plugin "{name}" is for administrators and the auth code cannot be read; it was not run.',
                ),
            )
        try:
            place = await self._workers.place(name, spec.max_running, context.deadline)
            try:
                started()
                return await loaded.call(call, context)
            finally:
                place.release()
        except PluginTimeoutError:
            return failure(ErrorKind.TIMEOUT, f'Plugin "{name}" execution timed out.')
        except (QueueError, PluginHangingError) as error:
            return failure(ErrorKind.QUEUE, error.message)
        except Exception as error:  # noqa: BLE001 - the plugin boundary: what a plugin raises is its answer
            log_fault(name, "call()", error)
            said = error.message if isinstance(error, VcpError) else str(error)
            return failure(ErrorKind.EXECUTION, said.strip() or type(error).__name__)

    # Inside

    def _loaded(self) -> list[LoadedPlugin]:
        return [slot.loaded for _, slot in sorted(self._slots.items()) if slot.loaded is not None]

    def _take_in(self, plugins: PluginSet) -> None:
        self._found = {plugin.name: plugin for plugin in plugins.plugins if runs_in_process(plugin)}
        for name, plugin in self._found.items():
            slot = self._slots.setdefault(name, _Slot(name, plugin))
            slot.plugin = plugin
        self._renew_specs()

    def _renew_specs(self) -> None:
        self._specs = MappingProxyType({name: _spec(slot) for name, slot in self._slots.items() if name in self._found})
        for told in self._told:
            told()

    def _version(self, plugin: Plugin) -> Version:
        settings = resolve_settings(plugin.manifest, plugin.own, self._parts.environ())
        return Version(plugin, tuple(sorted(settings.items())), str(self._parts.zone()))

    def _is_stale(self, slot: _Slot) -> bool:
        return slot.tried != self._version(slot.plugin)

    async def _settle(self) -> None:
        """Load what has to be loaded; go on without what takes longer than ``start_seconds``."""
        if self._on_demand:
            return
        task = self._begin(self._reconcile(), "load in-process plugins")
        done, _ = await asyncio.wait({task}, timeout=self._start_seconds)
        if not done:
            late = sorted(printable(slot.name) for slot in self._slots.values() if slot.loading)
            log.warning("plugins that are still being loaded come in later: %s", ", ".join(late))
            self._begin(self._announce_after(task), "announce late plugins")

    async def _reconcile(self) -> None:
        """Make what is loaded that which was found; one at a time."""
        async with self._lock:
            gone = [slot for name, slot in self._slots.items() if name not in self._found]
            for slot in gone:
                del self._slots[slot.name]
                self._retire(slot)
            stale = [slot for slot in self._slots.values() if self._is_stale(slot)]
            await asyncio.gather(*(self._load(slot) for slot in stale))
            if gone or stale:
                self._renew_specs()

    async def _load(self, slot: _Slot) -> None:
        version = self._version(slot.plugin)
        slot.tried, slot.loading = version, True
        try:
            loaded = await load(version, self._tools, next(self._numbers))
        except Exception as error:  # noqa: BLE001 - the plugin boundary: one that cannot be loaded costs nothing but itself
            slot.problem = told_error(error)
            stays = "; the version before it goes on" if slot.loaded is not None else ""
            log.error("plugin %s could not be loaded: %s%s", printable(slot.name), slot.problem, stays)
            return
        finally:
            slot.loading = False
        slot.problem = ""
        self._retire(slot)
        slot.loaded = loaded
        log.info("plugin %s is loaded", printable(slot.name))
        self._renew_specs()

    def _retire(self, slot: _Slot) -> None:
        """Let the calls of the old version end, then stop it; meanwhile everything goes on."""
        old, slot.loaded = slot.loaded, None
        if old is not None:
            self._begin(old.retire(), f"retire plugin {slot.name}")

    def _begin(self, work: object, name: str) -> asyncio.Task[None]:
        assert asyncio.iscoroutine(work)
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=name)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _announce_after(self, task: asyncio.Task[None]) -> None:
        await asyncio.wait({task})
        self._parts.events.publish(Reloaded(("plugins",), self.problems()))


class _Slot:
    """The place of one plugin, which outlives its versions; ``tried`` is the last that was loaded, or failed."""

    def __init__(self, name: str, plugin: Plugin) -> None:
        self.name = name
        self.plugin = plugin
        self.loaded: LoadedPlugin | None = None
        self.tried: Version | None = None
        self.loading = False
        self.problem = ""

    @property
    def served(self) -> Plugin:
        """What is in force: the version that is loaded, else what was found."""
        return self.loaded.version.plugin if self.loaded is not None else self.plugin

    @property
    def may_be_called(self) -> bool:
        """Hybrid plugins are taken to have ``call`` until they are loaded: a call then says why they are not."""
        if self.served.manifest.plugin_type != "hybridservice":
            return False
        return self.loaded is None or self.loaded.offers("call")


def _spec(slot: _Slot) -> ToolSpec:
    """What every door sees of a plugin; commands that declare parameters get values of those types (D5)."""
    spec = tool_spec(slot.served)
    commands = tuple(
        replace(command, typed=command.typed or command.parameters is not None) for command in spec.commands
    )
    return replace(spec, commands=commands, callable=slot.may_be_called)


class _Step:
    """A preprocessor in the list of one turn: its place and stage are fixed, its code is that of now."""

    def __init__(self, slot: _Slot) -> None:
        assert slot.loaded is not None
        self.name = slot.name
        self.stage: Stage = slot.loaded.stage
        self._slot = slot

    async def process(self, body: Body, context: PromptContext) -> Body:
        loaded = self._slot.loaded
        if loaded is None or not loaded.offers("process"):
            return body
        return await loaded.process(body, context)


def runs_in_process(plugin: Plugin) -> bool:
    """Whether this plugin is a Python module for the server itself."""
    manifest = plugin.manifest
    return manifest.protocol == "direct" and plugin.runs_here and manifest.plugin_type in IN_PROCESS_TYPES
