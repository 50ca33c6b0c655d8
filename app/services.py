"""The composition root: builds every part with explicit arguments and starts and stops them together."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import datetime, tzinfo
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from app.chat.background import BackgroundTasks
from app.chat.inner import InnerChat
from app.chat.prepare import Preparation
from app.chat.running import RunningTurns
from app.chat.text_format import TextCallFormat
from app.chat.turn import TurnParts, TurnRules
from app.config import dotenv
from app.config.keys import check_bind
from app.config.model_redirect import ModelRedirect
from app.config.settings import Settings
from app.config.snapshot import CONFIG_FILE, Config
from app.errors import ConfigError, both
from app.extend import (
    CallFinished,
    CallFormat,
    FileFetcher,
    Guard,
    Lifecycle,
    PlaceholderSource,
    Preprocessor,
    Reloaded,
    RouteSource,
    ToolSource,
    ToolSpec,
    UpstreamResolver,
)
from app.observe.bus import EventBus
from app.observe.call_log import LOGGED, log_event
from app.observe.dumps import DebugDumps
from app.observe.metrics import OBSERVED, Metrics
from app.observe.server_log import LOG_FOLDER
from app.part_settings import process_limits, prompt_settings, retry_policy, upstream_limits
from app.plugins.background import BackgroundLimits
from app.plugins.callbacks import Callbacks
from app.plugins.discovery import PluginSet, discover
from app.plugins.hosts import PluginHost
from app.plugins.in_process import InProcessLimits, InProcessPlugins
from app.plugins.in_process_context import ServerParts, depth_headers, standing_in
from app.plugins.missing_files import MissingFiles
from app.plugins.processes import Processes
from app.plugins.static_runs import STATIC_LIMITS, StaticRunner
from app.plugins.static_values import StaticValues
from app.plugins.statics import StaticPlugins
from app.plugins.stdio import StdioPlugins
from app.prompt.agents import AgentBook
from app.prompt.background_results import BackgroundResultSource
from app.prompt.diaries import ALL_DIARIES, AllDiariesSource, DiarySource, Notebooks
from app.prompt.emoji_lists import LISTS_FOLDER, EmojiListSource
from app.prompt.engine import PromptEngine
from app.prompt.files import TextFiles
from app.prompt.variables import VariableFiles
from app.protocol.loopback import is_loopback
from app.reload.footprint import PLUGINS
from app.reload.reloader import Reloader
from app.reload.watcher import Pace, Watcher
from app.schedule.folder import TaskFolder
from app.schedule.intake import Intake
from app.schedule.runner import ScheduleRunner
from app.schedule.timely import TimelyContactGuard
from app.tools.auth_code import AuthCode
from app.tools.background_results import BackgroundResults, Retention
from app.tools.callback_tokens import CallbackTokens
from app.tools.guard import PasswordGuard
from app.tools.rendering import ResultFormat
from app.tools.router import Router
from app.upstream.client import UpstreamClient
from app.upstream.embeddings import Embeddings
from app.upstream.fleet import UpstreamStatus
from app.upstream.limits import UpstreamLimits
from app.upstream.retry import RetryPolicy
from app.upstream.side_requests import side_client
from app.upstream.targets import resolver_of

log = logging.getLogger(__name__)

REPLACE_SECONDS = 300.0
"""Longest time that one kind of plugins gets to change over to a new set; what is not done by then stays undone."""

AGENT_MAP = "agent_map.json"

FILE_CACHE = ".file_cache"
"""Copies of files that clients have and plugins wanted (spec 5.9)."""

HOME_FOLDERS = ("Plugin", "Agent", "TVStxt", "dailynote", "image", "file", "VCPTimedContacts", "VCPTimedResults")
"""Folders that an installation has; missing ones are made at start."""


def program_plugins() -> Path:
    """The folder of the plugins that come with the program (D37): in the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent
    shipped = package / "shipped" / "Plugin"
    return shipped if shipped.is_dir() else package.parent / "Plugin"


def make_home(home: Path) -> None:
    """Make the folders of an installation that are missing; ConfigError when one of them cannot be made."""
    for folder in (home / name for name in HOME_FOLDERS):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                both(
                    f"无法创建目录 {folder}，请手动创建，或用 --home 指定其他目录",
                    f"{folder} is no folder and cannot be made ({error.strerror or error}); make it, or choose another "
                    "home with --home",
                )
            ) from error


class Services:
    """All parts of one server.

    ``sources``, ``guards``, ``placeholders``, ``preprocessors`` and ``routes`` are what further parts bring,
    ``lifecycles`` those of them that start and stop with the server; ``fetchers`` find files that plugins lack. Guards
    are asked in this order, after the server's own. ``resolver`` serves while the configuration names no model API. One
    process ``owns_home``: it alone runs schedules, static plugins and watchers; others only run tools (D88).
    ``node_addresses`` gives the addresses of connected nodes, whose callbacks are taken (D19).

    ``read_config`` reads the configuration anew for a reload; without it the settings stay as they are, and nobody
    watches for changes.
    """

    def __init__(
        self,
        config: Config,
        key: str,
        *,
        resolver: UpstreamResolver | None = None,
        sources: Sequence[ToolSource] = (),
        guards: Sequence[Guard] = (),
        placeholders: Sequence[PlaceholderSource] = (),
        preprocessors: Sequence[Preprocessor] = (),
        routes: Sequence[RouteSource] = (),
        lifecycles: Sequence[Lifecycle] = (),
        fetchers: Sequence[FileFetcher] = (),
        owns_home: bool = True,
        node_addresses: Callable[[], Collection[str]] = tuple,
        read_config: Callable[[], Config] | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.config = config
        self._read_config = read_config
        self._fallback_resolver = resolver
        self._applied: list[Callable[[Config], None]] = []
        self.key = key
        self.owns_home = owns_home
        self.routes = tuple(routes)
        self.node_addresses = node_addresses
        self._address = ""
        self._lifecycles = tuple(lifecycles)
        self._placeholders = tuple(placeholders)
        self._preprocessors = tuple(preprocessors)
        self.started = False
        self.events = EventBus()
        self.events.listen(log_event, *LOGGED)
        self.metrics = self._metrics()
        self.dumps = self._debug_dumps()
        self._ids = itertools.count(1)
        self._run_id = secrets.token_hex(4)
        self.model_redirect = ModelRedirect(config.home, time.monotonic)
        self._agents = AgentBook(config.home / AGENT_MAP, TextFiles(config.home / "Agent"))
        self._variable_files = VariableFiles(TextFiles(config.home / "TVStxt"))
        self._emoji_lists = EmojiListSource(TextFiles(config.home / LISTS_FOLDER))
        self._auth_code = AuthCode(config.home)
        self.callback_tokens = CallbackTokens(config.home / ".vcp" / "callbacks", time.time)
        self.background_results = self._background_results()
        self.callbacks = Callbacks(
            self.callback_tokens, self.background_results, self.events, lambda: self._callback_base()
        )
        self.found_plugins = self.search_plugins()
        for problem in self.found_plugins.problems:
            log.warning("%s", problem)
        for ported in self.found_plugins.ported:
            reason = f"{ported.lacks} is not on this machine" if ported.lacks else "its module is for Node"
            log.info("plugin %s: %s; the program's own serves in its place", ported.name, reason)
        self._processes = Processes(process_limits(config.settings))
        self._missing_files = MissingFiles(config.home / FILE_CACHE, fetchers, time.monotonic)
        self.plugins = self._stdio_plugins()
        self.statics = self._static_plugins()
        self.side_requests = side_client(self.plugin_environ, self._chain_headers)
        self.in_process = self._in_process_plugins()
        self.routes = (*self.routes, self.in_process)
        self.plugin_hosts: tuple[PluginHost, ...] = (self.plugins, self.statics, self.in_process)
        self._task_folder = TaskFolder(config.home)
        self.intake = self._intake()
        own_guards = (self._password_guard(), self._timely_guard())
        self.router = Router((self.in_process, self.plugins, *sources), (*own_guards, *guards), self.events)
        self.schedule = self._schedule()
        self.upstream = UpstreamClient(*self._upstream_settings(config), environment=config.environ)
        self.running = RunningTurns(lambda: self.settings.max_running_turns)
        self.background = BackgroundTasks()
        self.inner_chat = self._inner_chat()
        self.embeddings = self._embeddings()
        self.turn_parts = self._turn_parts()
        self.in_process.changed(self._renew_turn_parts)
        self._reloader = Reloader(self, self.events)
        self._watcher = self._file_watcher(pace)

    def apply(self, config: Config) -> None:
        """Put a configuration in force for the turns and calls that begin from now on; the others keep theirs.

        Raises ConfigError, and nothing has changed, when the server cannot work with it.
        """
        check_bind(config)
        self.upstream = self.upstream.renewed(*self._upstream_settings(config), environment=config.environ)
        self.config = config
        self._processes.limit(process_limits(config.settings))
        self.turn_parts = self._turn_parts()
        self.in_process.settings_changed()
        for told in self._applied:
            told(config)

    def on_applied(self, told: Callable[[Config], None]) -> None:
        """Call ``told`` with each configuration that is put in force, for what a setting changes outside of here."""
        self._applied.append(told)

    async def reload(self, files: Iterable[str] = ()) -> Reloaded:
        """Read settings and plugins anew and put in force what has changed (spec 5.11); the answer says what that is.

        ``files`` names further files of the home known to have changed. One reload runs at a time.
        """
        return await self._reloader.reload(files)

    def read_config(self) -> Config:
        """The configuration on disk, or the one in force where nobody knows how to read it; blocks, ConfigError."""
        return self._read_config() if self._read_config is not None else self.config

    async def replace_plugins(self, plugins: PluginSet) -> None:
        """Let all hosts change over to these plugins; a turn that begins later also sees them in its prompt."""
        for host in self.plugin_hosts:
            try:
                async with asyncio.timeout(REPLACE_SECONDS):
                    await host.replace(plugins)
            except Exception:  # the plugin boundary: one kind of plugins must not keep the others from changing over
                log.exception("%s could not change over to the new plugins", type(host).__name__)
        self.found_plugins = plugins
        self.turn_parts = self._turn_parts()

    def _file_watcher(self, pace: Pace | None) -> Watcher | None:
        if self._read_config is None or not (self.owns_home and self.settings.live_reload):
            return None
        home = self.config.home

        async def changed(files: frozenset[Path]) -> None:
            others = {path.name for path in files if path.parent == home} - {CONFIG_FILE}
            if AGENT_MAP in others:
                await asyncio.to_thread(self._agents.load)  # tells at once what is wrong with it
            await self.reload(others)

        def code_folders() -> tuple[Path, ...]:
            # Not those of the program: while it is upgraded its plugins fit neither the old version nor the new one.
            root = (home / PLUGINS).resolve()
            found = self.found_plugins.plugins
            return tuple(plugin.folder for plugin in found if plugin.runs_in_process and plugin.folder.parent == root)

        return Watcher(home, changed, code_folders, pace=pace)

    def _upstream_settings(self, config: Config) -> tuple[UpstreamResolver, RetryPolicy, UpstreamLimits]:
        settings = config.settings
        given = None if config.has_model_api else self._fallback_resolver
        return given or resolver_of(config), retry_policy(settings), upstream_limits(settings)

    def _renew_turn_parts(self) -> None:
        self.turn_parts = self._turn_parts()

    def parts_of_turn(self) -> TurnParts:
        """What a turn that begins now works with: ``turn_parts``, with the preprocessors of plugins as they are now."""
        brought = self.in_process.preprocessors()
        if not brought:
            return self.turn_parts
        preparation = self.turn_parts.preparation.also(brought)
        return replace(self.turn_parts, preparation=preparation)

    @property
    def settings(self) -> Settings:
        """The settings of now; whoever needs one asks at each use, since a reload replaces them."""
        return self.config.settings

    def _turn_parts(self) -> TurnParts:
        """What a turn works with until its end, of the configuration of now."""
        return TurnParts(
            upstream=self.upstream,
            preparation=Preparation(self._prompt_engine(), self._preprocessors, self.events, self.dumps.dump),
            call_tool=self.router.call,
            find_spec=self._spec,
            events=self.events,
            background=self.background,
            clock=time.time,
            zone=self.config.zone,
            new_id=self._new_call_id,
            call_format=partial(self._call_format, self.config.zone),
            dump=self.dumps.dump,
            standing=standing_in,
        )

    def _debug_dumps(self) -> DebugDumps:
        dumps = DebugDumps(
            self.config.home / LOG_FOLDER,
            lambda: self.settings.debug_dump_files if self.settings.debug_mode else 0,
            lambda: datetime.now(self.config.zone),
        )
        self.events.listen(dumps.observe, CallFinished)
        return dumps

    def _metrics(self) -> Metrics:
        metrics = Metrics(time.monotonic)
        self.events.listen(metrics.observe, *OBSERVED)
        metrics.watch("vcp_ready", "1 while requests are served and every part is well.", lambda: self.ready)
        metrics.watch("vcp_running_turns", "Turns that run now.", lambda: len(self.running))
        metrics.watch(
            "vcp_plugin_processes",
            "Processes of plugins that run now, and calls that wait for a place.",
            lambda: {
                ("running",): self.plugins.processes.running,
                ("waiting",): self.plugins.processes.waiting,
                ("left",): len(self.plugins.processes.left_groups()),
            },
            labels=("state",),
        )
        metrics.watch(
            "vcp_dropped_events", "Events that a slow subscriber missed.", lambda: self.events.dropped, counts=True
        )
        self._watch_upstreams(metrics)
        return metrics

    def _watch_upstreams(self, metrics: Metrics) -> None:
        def watch(name: str, told: str, read: Callable[[UpstreamStatus], float], *, counts: bool = False) -> None:
            def reading() -> dict[tuple[str, ...], float]:
                return {(status.name or "API_URL",): read(status) for status in self.upstream.status()}

            metrics.watch(name, told, reading, labels=("upstream",), counts=counts)

        watch("vcp_upstream_running", "Requests that run at an upstream now.", lambda status: status.running)
        watch(
            "vcp_upstream_resting_seconds", "Seconds for which others are asked first.", lambda status: status.resting
        )
        watch("vcp_upstream_attempts", "Attempts at an upstream.", lambda status: status.attempts, counts=True)
        watch("vcp_upstream_faults", "Attempts that brought no answer.", lambda status: status.faults, counts=True)

    def _password_guard(self) -> PasswordGuard:
        return PasswordGuard(
            self._auth_code,
            enabled=lambda: self.settings.vcp_tool_code,
            everywhere=lambda: self.settings.vcp_tool_code_everywhere,
        )

    def _intake(self) -> Intake:
        return Intake(
            self._task_folder,
            zone=lambda: self.config.zone,
            limit=lambda: self.settings.schedule_max_pending,
            told=lambda: self.schedule.look_again(),
        )

    def _timely_guard(self) -> TimelyContactGuard:
        return TimelyContactGuard(
            self.intake, clock=time.time, zone=lambda: self.config.zone, new_uuid=lambda: str(uuid.uuid4())
        )

    def _schedule(self) -> ScheduleRunner:
        return ScheduleRunner(
            self._task_folder,
            self.router.call,
            self._spec,
            self.events,
            clock=time.time,
            zone=lambda: self.config.zone,
            new_id=lambda: self.new_id("task"),
            limit=lambda: self.settings.schedule_max_running,
            keep_days=lambda: self.settings.schedule_keep_days,
            grace=lambda: self.settings.shutdown_seconds,
        )

    def search_plugins(self, before: PluginSet | None = None) -> PluginSet:
        """The plugins on disk; what cannot be read is as in ``before``. Blocks."""
        roots = dict.fromkeys(root.resolve() for root in (self.config.home / "Plugin", program_plugins()))
        return discover(tuple(roots), parse_plugin_env, before, search_path=self.config.environ.get("PATH", os.defpath))

    def plugin_environ(self) -> Mapping[str, str]:
        """The environment that plugins see: the configuration of now, and where and how to call back to the server."""
        return {**self.config.environ, "PORT": str(self.port), "Key": self.key}

    def served_at(self, address: str) -> None:
        """The server listens at this address, such as ``http://127.0.0.1:4711``."""
        self._address = address

    @property
    def port(self) -> int:
        """The port that the server listens on; until it does, the configured one."""
        return urlsplit(self._address).port or self.settings.port

    def _chain_headers(self, url: str) -> Mapping[str, str]:
        """Requests of plugins to this server itself tell how deep they stand; others are told nothing."""
        parts = urlsplit(url)
        here = is_loopback(parts.hostname or "") or parts.hostname == self.settings.host
        return depth_headers() if here and parts.port == self.port else {}

    def _callback_base(self) -> str:
        address = self._address or f"http://127.0.0.1:{self.settings.port}"
        if self._address and not self.owns_home:
            return f"{address}/plugin-callback"  # what is configured is the address of the server that owns the home
        return self.settings.callback_base_url or f"{address}/plugin-callback"

    def _background_results(self) -> BackgroundResults:
        home = self.config.home
        return BackgroundResults(
            home / "VCPAsyncResults",
            home / ".vcp" / "background_results",
            lambda: Retention(self.settings.background_result_days, self.settings.background_result_count),
            time.time,
        )

    def _stdio_plugins(self) -> StdioPlugins:
        return StdioPlugins(
            self.found_plugins,
            self._processes,
            project_base=self.config.home,
            environ=self.plugin_environ,
            auth_code=self._auth_code,
            port=lambda: self.port,
            callbacks=self.callbacks,
            background_limits=lambda: BackgroundLimits(
                self.settings.background_max_running, self.settings.background_max_seconds
            ),
            missing_files=self._missing_files,
        )

    def _in_process_plugins(self) -> InProcessPlugins:
        parts = ServerParts(
            home=self.config.home,
            environ=self.plugin_environ,
            zone=lambda: self.config.zone,
            max_depth=lambda: self.settings.max_call_depth,
            password_wanted=lambda: self.settings.vcp_tool_code,
            call_tool=lambda call, context: self.router.call(call, context),
            chat=lambda body, context: self.inner_chat(body, context),
            embed=lambda texts, model=None: self.embeddings(texts, model=model and self.model_redirect.internal(model)),
            events=self.events,
            auth_code=self._auth_code,
            new_id=self.new_id,
            clock=time.time,
            http=self.side_requests,
        )
        return InProcessPlugins(
            self.found_plugins, parts, lambda: InProcessLimits.of(self.settings), on_demand=not self.owns_home
        )

    def _inner_chat(self) -> InnerChat:
        return InnerChat(
            self.running,
            self.parts_of_turn,
            lambda: self.turn_rules(stream=False),
            self.new_id,
            self.model_redirect.internal,
        )

    def _embeddings(self) -> Embeddings:
        def first_listed() -> str:
            return self.model_redirect.internal(next(iter(self.settings.whitelist_embedding_model), ""))

        return Embeddings(lambda: self.upstream, first_listed)

    def _static_plugins(self) -> StaticPlugins:
        runner = StaticRunner(Processes(STATIC_LIMITS), project_base=self.config.home, environ=self.plugin_environ)
        return StaticPlugins(
            self.found_plugins,
            runner,
            StaticValues(self.config.home / ".vcp" / "static_values"),
            clock=time.time,
            zone=lambda: self.config.zone,
            max_chars=lambda: self.settings.static_value_max_chars,
            events=self.events,
            enabled=lambda: self.settings.run_static_plugins,
            served=frozenset({ALL_DIARIES}),
        )

    def _prompt_engine(self) -> PromptEngine:
        config = self.config
        notebooks = Notebooks(config.home / "dailynote", config.settings.diary_max_chars)
        return PromptEngine(
            prompt_settings(config, self.found_plugins.image_key),
            self._agents,
            self._variable_files,
            self.router.specs,
            (
                self._emoji_lists,
                DiarySource(notebooks),
                AllDiariesSource(notebooks),
                self.statics,
                BackgroundResultSource(self.background_results, lambda: self.settings.tool_result_max_chars),
                *self._placeholders,
                *self.in_process.placeholders(),
            ),
            time.time,
        )

    @property
    def ready(self) -> bool:
        """True while requests are served and every part says that it is well."""
        return self.started and not self.trouble()

    def trouble(self) -> str:
        """What is wrong with a part, in its own words; empty while all are well."""
        parts = (*self._lifecycles, self.schedule, *(() if self._watcher is None else (self._watcher,)))
        return next((said for part in parts if (said := part.health())), "")

    def new_id(self, kind: str) -> str:
        """A name for a turn or a call, unique over restarts."""
        return f"{kind}-{self._run_id}-{next(self._ids)}"

    def _new_call_id(self) -> str:
        return self.new_id("call")

    def _call_format(self, zone: tzinfo, rules: TurnRules) -> CallFormat:
        return TextCallFormat(self._new_call_id, zone, rules.results, password_wanted=rules.password_wanted)

    def _spec(self, name: str) -> ToolSpec | None:
        found = self.router.find(name)
        return found[1] if found else None

    def turn_rules(self, *, stream: bool) -> TurnRules:
        """The settings that hold for one turn."""
        settings = self.config.settings
        return TurnRules(
            max_tool_rounds=settings.max_vcp_loop_stream if stream else settings.max_vcp_loop_non_stream,
            max_calls=settings.max_tool_calls_per_round,
            eager=settings.eager_tools,
            password_wanted=settings.vcp_tool_code,
            keep_tools_on_disconnect=not settings.cancel_tools_on_disconnect,
            results=ResultFormat(settings.compat_profile, settings.tool_result_max_chars),
        )

    @asynccontextmanager
    async def running_parts(self) -> AsyncIterator[None]:
        """Start all parts; at the end stop them in reverse, within bounded time (P43, P83)."""
        grace = self.config.settings.shutdown_seconds
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.dumps.settle)
            stack.push_async_callback(self.upstream.stop)
            await self.upstream.start()
            stack.push_async_callback(self.plugins.stop)
            await self.plugins.start()
            if self.owns_home:
                stack.push_async_callback(self.statics.stop)
                await self.statics.start()
                await asyncio.to_thread(self.background_results.sweep)
            stack.push_async_callback(self.side_requests.aclose)
            stack.push_async_callback(self.in_process.stop)
            await self.in_process.start()
            for part in self._lifecycles:
                stack.push_async_callback(part.stop)
                await part.start()
            if self.owns_home:  # after all that bring tools: tasks that are due run at once
                stack.push_async_callback(self.schedule.stop)
                await self.schedule.start()
            stack.push_async_callback(self._reloader.stop)
            if self._watcher is not None:
                stack.push_async_callback(self._watcher.stop)
                await self._watcher.start()
            stack.push_async_callback(self.background.stop, grace)
            # The web server has already waited for its requests; what is left now is cancelled at once.
            stack.push_async_callback(self.running.stop_all, 0)
            self.started = True
            try:
                yield
            finally:
                self.started = False


def parse_plugin_env(text: str) -> dict[str, str]:
    """A plugin's own ``config.env`` as a map; the last of equal keys wins."""
    return {entry.key: entry.value for entry in dotenv.parse(text)}
