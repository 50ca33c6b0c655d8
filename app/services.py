"""The composition root: builds every part with explicit arguments and starts and stops them together."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from app.chat.background import BackgroundTasks
from app.chat.inner import InnerChat
from app.chat.prepare import Preparation
from app.chat.running import RunningTurns
from app.chat.text_format import TextCallFormat
from app.chat.turn import TurnParts, TurnRules
from app.config import dotenv
from app.config.model_redirect import ModelRedirect
from app.config.settings import Settings
from app.config.snapshot import Config
from app.errors import ConfigError, both
from app.extend import (
    CallFinished,
    CallFormat,
    Guard,
    Lifecycle,
    PlaceholderSource,
    Preprocessor,
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
from app.plugins.discovery import PluginSet, discover
from app.plugins.hosts import PluginHost
from app.plugins.in_process import InProcessLimits, InProcessPlugins
from app.plugins.in_process_context import ServerParts
from app.plugins.places import Limits
from app.plugins.processes import Processes
from app.plugins.static_runs import STATIC_LIMITS, StaticRunner
from app.plugins.static_values import StaticValues
from app.plugins.statics import StaticPlugins
from app.plugins.stdio import StdioPlugins
from app.prompt.agents import AgentBook
from app.prompt.diaries import ALL_DIARIES, AllDiariesSource, DiarySource, Notebooks
from app.prompt.emoji_lists import LISTS_FOLDER, EmojiListSource
from app.prompt.engine import PromptEngine
from app.prompt.files import TextFiles
from app.prompt.settings import PromptSettings
from app.prompt.variables import VariableFiles
from app.schedule.folder import TaskFolder
from app.schedule.intake import Intake
from app.schedule.runner import ScheduleRunner
from app.schedule.timely import TimelyContactGuard
from app.tools.auth_code import AuthCode
from app.tools.guard import PasswordGuard
from app.tools.rendering import ResultFormat
from app.tools.router import Router
from app.upstream.client import UpstreamClient
from app.upstream.embeddings import Embeddings
from app.upstream.limits import UpstreamLimits
from app.upstream.retry import RetryPolicy
from app.upstream.side_requests import side_client
from app.upstream.targets import SingleUpstream

log = logging.getLogger(__name__)

HOME_FOLDERS = ("Plugin", "Agent", "TVStxt", "dailynote", "image", "file", "VCPTimedContacts", "VCPTimedResults")
"""Folders that an installation has; missing ones are made at start."""

MAX_CALL_DEPTH = 5
"""How often chats, tools and plugins may lead to each other."""


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
    ``lifecycles`` those of them that start and stop with the server. Guards are asked in this order, after the
    server's own. One process ``owns_home``: it alone runs schedules, static plugins and watchers; others only run
    tools (D88).
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
        owns_home: bool = True,
    ) -> None:
        settings = config.settings
        self.config = config
        self.key = key
        self.owns_home = owns_home
        self.routes = tuple(routes)
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
        self._agents = AgentBook(config.home / "agent_map.json", TextFiles(config.home / "Agent"))
        self._variable_files = VariableFiles(TextFiles(config.home / "TVStxt"))
        self._emoji_lists = EmojiListSource(TextFiles(config.home / LISTS_FOLDER))
        self._auth_code = AuthCode(config.home)
        self.found_plugins = self._search_plugins()
        self.plugins = self._stdio_plugins()
        self.statics = self._static_plugins()
        self.side_requests = side_client(self.plugin_environ)
        self.in_process = self._in_process_plugins()
        self.routes = (*self.routes, self.in_process)
        self.plugin_hosts: tuple[PluginHost, ...] = (self.plugins, self.statics, self.in_process)
        self._task_folder = TaskFolder(config.home)
        self.intake = self._intake()
        own_guards = (self._password_guard(), self._timely_guard())
        self.router = Router((self.in_process, self.plugins, *sources), (*own_guards, *guards), self.events)
        self.schedule = self._schedule()
        self.upstream = UpstreamClient(
            resolver or SingleUpstream(settings.api_url, settings.api_key, settings.upstream_proxy or None),
            RetryPolicy(settings.api_retries, settings.api_retry_delay),
            UpstreamLimits(
                connect=settings.upstream_connect_timeout,
                first_byte=settings.upstream_first_byte_timeout,
                idle=settings.upstream_idle_timeout,
            ),
            environment=config.environ,
        )
        self.running = RunningTurns(settings.max_running_turns)
        self.background = BackgroundTasks()
        self.inner_chat = self._inner_chat()
        self.embeddings = self._embeddings()
        self.turn_parts = self._turn_parts()
        self.in_process.changed(self._renew_turn_parts)

    def apply(self, config: Config) -> None:
        """Put a configuration in force for the turns and calls that begin from now on; the others keep theirs."""
        self.config = config
        self.turn_parts = self._turn_parts()
        self.in_process.settings_changed()

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
            call_format=self._call_format,
            dump=self.dumps.dump,
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
        return metrics

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

    def _search_plugins(self, before: PluginSet | None = None) -> PluginSet:
        roots = dict.fromkeys(root.resolve() for root in (self.config.home / "Plugin", program_plugins()))
        found = discover(tuple(roots), parse_plugin_env, before)
        for problem in found.problems:
            log.warning("%s", problem)
        return found

    def plugin_environ(self) -> Mapping[str, str]:
        """The environment that plugins see: the configuration of now, and where and how to call back to the server."""
        return {**self.config.environ, "PORT": str(self.settings.port), "Key": self.key}

    def _stdio_plugins(self) -> StdioPlugins:
        settings = self.settings
        limits = Limits(
            running=settings.plugin_max_running,
            queued=settings.plugin_queue_limit,
            queue_seconds=settings.plugin_queue_seconds,
            output_bytes=settings.plugin_output_limit_mb * 1024 * 1024,
            stop_seconds=settings.plugin_stop_seconds,
        )
        return StdioPlugins(
            self.found_plugins,
            Processes(limits),
            project_base=self.config.home,
            environ=self.plugin_environ,
            auth_code=self._auth_code,
            port=settings.port,
        )

    def _in_process_plugins(self) -> InProcessPlugins:
        parts = ServerParts(
            home=self.config.home,
            environ=self.plugin_environ,
            zone=lambda: self.config.zone,
            max_depth=lambda: MAX_CALL_DEPTH,
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
        settings, home = config.settings, config.home
        notebooks = Notebooks(home / "dailynote", settings.diary_max_chars)
        return PromptEngine(
            PromptSettings(
                variables=config.families.variables,
                sar=config.families.sar,
                detectors=config.families.detectors,
                super_detectors=config.families.super_detectors,
                zone=config.report_zone,
                port=settings.port,
                image_key=self.found_plugins.image_key or settings.image_key,
                expand_agents_in_all_roles=settings.expand_agents_in_all_roles,
                resolve_variables_in_any_order=settings.resolve_variables_in_any_order,
                detectors_last=settings.compat_profile == "head",
            ),
            self._agents,
            self._variable_files,
            self.router.specs,
            (
                self._emoji_lists,
                DiarySource(notebooks),
                AllDiariesSource(notebooks),
                self.statics,
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
        return next((said for part in (*self._lifecycles, self.schedule) if (said := part.health())), "")

    def new_id(self, kind: str) -> str:
        """A name for a turn or a call, unique over restarts."""
        return f"{kind}-{self._run_id}-{next(self._ids)}"

    def _new_call_id(self) -> str:
        return self.new_id("call")

    def _call_format(self, rules: TurnRules) -> CallFormat:
        return TextCallFormat(self._new_call_id, self.config.zone, rules.results, password_wanted=rules.password_wanted)

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
            stack.push_async_callback(self.side_requests.aclose)
            stack.push_async_callback(self.in_process.stop)
            await self.in_process.start()
            for part in self._lifecycles:
                stack.push_async_callback(part.stop)
                await part.start()
            if self.owns_home:  # after all that bring tools: tasks that are due run at once
                stack.push_async_callback(self.schedule.stop)
                await self.schedule.start()
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
