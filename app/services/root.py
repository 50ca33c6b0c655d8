"""All parts of one server: made in one order, put under new settings, started and stopped together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from app.chat.background import BackgroundTasks
from app.chat.inner import InnerChat
from app.chat.running import RunningTurns
from app.chat.turn import TurnParts, TurnRules
from app.config.keys import check_bind, check_tool_port
from app.config.leftovers import sweep_leftovers
from app.config.model_redirect import ModelRedirect
from app.config.settings import Settings
from app.config.snapshot import Config
from app.extend import (
    CallStarted,
    FileFetcher,
    Guard,
    Lifecycle,
    PlaceholderSource,
    Preprocessor,
    Reloaded,
    RouteSource,
    ToolSource,
    UpstreamResolver,
)
from app.hub.hub import Hub
from app.hub.nodes.nodes import Nodes
from app.observe.bus import EventBus
from app.observe.call_log import LOGGED
from app.plugins.callbacks import Callbacks
from app.plugins.discovery import PluginSet
from app.plugins.hosts import PluginHost
from app.plugins.processes import Processes
from app.reload.reloader import Reloader
from app.reload.watcher import Pace, Watcher
from app.schedule.folder import TaskFolder
from app.schedule.runner import ScheduleRunner
from app.services import observing, overview, plugin_hosts, prompts, schedules, turns, upstreams
from app.services.client_secrets import ClientSecrets, call_log
from app.services.completions import PlainCompletions
from app.services.far_nodes import node_files
from app.services.guards import guards_of_the_core
from app.services.ids import Ids
from app.services.in_force import InForce
from app.services.mcp import Mcp
from app.services.memory import Memory, MemorySurroundings
from app.services.sockets import Sockets
from app.services.stopping import END_SECONDS, Stopping
from app.services.watching import home_watcher
from app.tools.auth_code import AuthCode
from app.tools.router import Router
from app.upstream.embeddings import Embeddings
from app.upstream.side_requests import side_client


class Services:
    """All parts of one server.

    ``sources``, ``guards``, ``placeholders``, ``preprocessors`` and ``routes`` are what further parts bring,
    ``lifecycles`` those of them that start and stop with the server; ``fetchers`` find files that plugins lack. Guards
    are asked in this order, after the server's own. ``resolver`` serves while the configuration names no model API. One
    process ``owns_home``: it alone runs schedules, static plugins and watchers; others only run tools (D88).

    ``read_config`` reads the configuration anew for a reload; without it the settings stay as they are, and nobody
    watches for changes.
    """

    # These six are used by parts that are made before them, which get a function that looks them up here.
    router: Router
    schedule: ScheduleRunner
    inner_chat: InnerChat
    embeddings: Embeddings
    nodes: Nodes
    hub: Hub

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
        read_config: Callable[[], Config] | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.in_force = InForce(config, key, owns_home=owns_home)
        self.started = False
        self.stopping = Stopping(
            lambda: self.settings.shutdown_seconds, lambda: max(END_SECONDS, self.settings.plugin_stop_seconds + 4)
        )
        self._read_config = read_config
        self._fallback_resolver = resolver
        self._placeholders = tuple(placeholders)
        self._preprocessors = tuple(preprocessors)
        self._lifecycles: tuple[Lifecycle, ...] = tuple(lifecycles)
        self._applied: list[Callable[[Config], None]] = []

        self._ids = Ids()
        self.events = EventBus()
        self.dumps = observing.debug_dumps(self.in_force, self.events)
        self.model_redirect = ModelRedirect(config.home, time.monotonic)
        self.auth_code = AuthCode(config.home)
        self.secrets = ClientSecrets(lambda: self.config, lambda: self.key, lambda: self.found_plugins, self.auth_code)
        self.events.listen(call_log(self.secrets), *LOGGED)
        self.traces = observing.tracing(self.in_force, self.events, self.secrets)
        self.side_requests = side_client(self.in_force.plugin_environ, self.in_force.chain_headers)
        self.upstream = upstreams.upstream_client(config, resolver)
        self.complete = PlainCompletions(lambda: self.upstream, self.model_redirect)
        self.running = RunningTurns(lambda: self.settings.max_running_turns)
        self.background = BackgroundTasks()

        # Memory.
        asked = (lambda: self.upstream), self.model_redirect, self.complete, self.side_requests, (lambda: self.hub)
        self.memory = Memory(MemorySurroundings(self.in_force, self.events, *asked))

        # Plugins.
        self.callback_tokens = plugin_hosts.callback_tokens(self.in_force)
        self.background_results = plugin_hosts.background_results(self.in_force)
        self.callbacks = Callbacks(
            self.callback_tokens, self.background_results, self.events, self.in_force.callback_base
        )
        self.found_plugins = plugin_hosts.first_plugins(self.in_force)
        fetchers = (*fetchers, node_files(self.in_force, lambda url, context: self.nodes.holder_for(url, context)))
        self._processes = Processes(plugin_hosts.process_limits(config.settings))
        self.plugins = plugin_hosts.stdio_plugins(
            self.in_force, self.found_plugins, self._processes, self.auth_code, self.callbacks, fetchers
        )
        self.statics = plugin_hosts.static_plugins(self.in_force, self.found_plugins, self.events)
        self.in_process = plugin_hosts.in_process_plugins(
            self.in_force,
            self.found_plugins,
            call_tool=lambda call, context: self.router.call(call, context),
            chat=lambda body, context: self.inner_chat(body, context),
            complete=self.complete,
            embed=lambda texts, model=None: self.embeddings(texts, model=model and self.model_redirect.internal(model)),
            memory=self.memory.for_plugins,
            events=self.events,
            auth_code=self.auth_code,
            new_id=self._ids.new,
            http=self.side_requests,
            on_demand=not owns_home,
        )
        self.plugin_hosts: tuple[PluginHost, ...] = (self.plugins, self.statics, self.in_process)

        # The Model Context Protocol: whose tools we use, who uses ours, and groups of tools.
        own = self.complete, self.secrets
        self.mcp = Mcp(self.in_force, self.events, lambda: self.router, lambda: self.approvals, self._ids.new, *own)
        self.routes = (*routes, self.in_process, *self.mcp.routes, *self.memory.routes)
        self._placeholders += (*self.mcp.placeholders, *self.memory.placeholders)
        self._preprocessors += self.memory.preprocessors
        self._lifecycles += (*self.memory.lifecycles, *self.mcp.lifecycles)

        # Who is connected over a WebSocket.
        own_tools: tuple[ToolSource, ...] = (self.in_process, self.plugins, *sources, *self.mcp.groups)
        connected = Sockets(
            self.in_force,
            self.events,
            plugins=lambda: self.found_plugins,
            secrets=self.secrets,
            background_results=self.background_results,
            own_tools=own_tools,
            placeholders=self.placeholder_sources,
            router=lambda: self.router,
            new_id=self._ids.new,
            keep=owns_home,
        )
        self.sockets = connected.served
        self.node_keys, self.hub, self.log_replay = connected.node_keys, connected.hub, connected.log_replay
        self.nodes, self.tool_clients, self.approvals = connected.nodes, connected.tool_clients, connected.approvals
        self._lifecycles += (*connected.lifecycles, self.traces)
        self.on_applied(connected.settings_changed)

        # Tools: the one way to call them, and calls that are put off.
        task_folder = TaskFolder(config.home)
        self.intake = schedules.task_intake(self.in_force, task_folder, told=lambda: self.schedule.look_again())
        own_guards = (*guards_of_the_core(self.in_force, self.auth_code, self.intake), self.approvals)
        self.router = Router(
            (*own_tools, *connected.further, *self.mcp.servers),
            (*own_guards, *guards),
            self.events,
            started_wanted=lambda: self.events.wanted(CallStarted),
        )
        self.schedule = schedules.schedule_runner(
            self.in_force, task_folder, self.router, self.events, self._ids, self.stopping
        )

        # Turns.
        self.prompt_files = prompts.PromptFiles(self.in_force)
        self.turn_parts = self._turn_parts()
        self.in_process.changed(self._renew_turn_parts)
        self.inner_chat = InnerChat(
            self.running,
            self.parts_of_turn,
            lambda: self.turn_rules(stream=False),
            self._ids.new,
            self.model_redirect.internal,
        )
        self.embeddings = upstreams.embeddings(self.in_force, lambda: self.upstream, self.model_redirect)

        # What looks at all of them.
        self.metrics = observing.server_metrics(
            self.events,
            ready=lambda: self.ready,
            running_turns=lambda: len(self.running),
            processes=self._processes,
            upstreams=lambda: self.upstream.status(),
            clients=connected.count,
            memory=self.memory.readings,
        )
        self.overview = overview.Overview(self.in_force, self.events, self.read_config)
        self._reloader = Reloader(self, self.events)
        self._watcher = self._file_watcher(pace)

    @property
    def config(self) -> Config:
        """The configuration of now."""
        return self.in_force.config

    @property
    def settings(self) -> Settings:
        """The settings of now; whoever needs one asks at each use, since a reload replaces them."""
        return self.in_force.settings

    @property
    def key(self) -> str:
        """The key that clients show."""
        return self.in_force.key

    @property
    def port(self) -> int:
        """The port that the server listens on; until it does, the configured one."""
        return self.in_force.port()

    def served_at(self, address: str) -> None:
        """The server listens at this address, such as ``http://127.0.0.1:4711``."""
        self.in_force.served_at(address)
        self._renew_turn_parts()  # the port stands in prompts

    def plugin_environ(self) -> Mapping[str, str]:
        """The environment that plugins see."""
        return self.in_force.plugin_environ()

    def new_id(self, kind: str) -> str:
        """A name for a turn or a call, unique over restarts."""
        return self._ids.new(kind)

    def search_plugins(self, before: PluginSet | None = None) -> PluginSet:
        """The plugins on disk; what cannot be read is as in ``before``. Blocks."""
        return plugin_hosts.search_plugins(self.in_force, before)

    def apply(self, config: Config) -> None:
        """Put a configuration in force for the turns and calls that begin from now on; the others keep theirs.

        Raises ConfigError, and nothing has changed, when the server cannot work with it.
        """
        check_bind(config)
        check_tool_port(config)
        self.upstream = upstreams.renewed_client(self.upstream, config, self._fallback_resolver)
        self.in_force.config = config
        self._processes.limit(plugin_hosts.process_limits(config.settings))
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
        await plugin_hosts.change_over(self.plugin_hosts, plugins)
        self.found_plugins = plugins
        self.turn_parts = self._turn_parts()

    def turn_rules(self, *, stream: bool) -> TurnRules:
        """The settings that hold for one turn."""
        return turns.turn_rules(self.settings, stream=stream, private=self.approvals.private())

    def parts_of_turn(self) -> TurnParts:
        """What a turn that begins now works with: ``turn_parts``, with the preprocessors of plugins as they are now."""
        brought = self.in_process.preprocessors()
        if not brought:
            return self.turn_parts
        preparation = self.turn_parts.preparation.also(brought)
        return replace(self.turn_parts, preparation=preparation)

    def _turn_parts(self) -> TurnParts:
        engine = prompts.prompt_engine(
            self.in_force,
            self.prompt_files,
            self.mcp.described_tools,
            image_key=self.found_plugins.image_key,
            background_results=self.background_results,
            placeholders=self.placeholder_sources(),
        )
        return turns.turn_parts(
            self.in_force,
            upstream=self.upstream,
            engine=engine,
            preprocessors=(*self._preprocessors, *self.mcp.in_force_preprocessors()),
            router=self.router,
            events=self.events,
            background=self.background,
            dumps=self.dumps,
            ids=self._ids,
        )

    def placeholder_sources(self) -> tuple[PlaceholderSource, ...]:
        """What fills placeholders now, beside the home's own files."""
        return (self.statics, *self._placeholders, *self.in_process.placeholders(), self.nodes.placeholders)

    def _renew_turn_parts(self) -> None:
        self.turn_parts = self._turn_parts()

    def _file_watcher(self, pace: Pace | None) -> Watcher | None:
        if self._read_config is None or not (self.in_force.owns_home and self.settings.live_reload):
            return None
        agents = self.prompt_files.agents
        return home_watcher(self.in_force.home, pace, agents, lambda: self.found_plugins, self.reload)

    @property
    def ready(self) -> bool:
        """True while requests are served and every part says that it is well."""
        return self.started and not self.trouble()

    def trouble(self) -> str:
        """What is wrong with a part, in its own words; empty while all are well."""
        parts = (*self._lifecycles, self.schedule, *(() if self._watcher is None else (self._watcher,)))
        return next((said for part in parts if (said := part.health())), "")

    @asynccontextmanager
    async def running_parts(self) -> AsyncIterator[None]:
        """Start all parts; at the end stop them in reverse, within bounded time (P43, P83)."""
        async with AsyncExitStack() as stack:

            def at_the_end(stop: Callable[[], Awaitable[None]]) -> None:
                stack.push_async_callback(self.stopping.end, stop)

            at_the_end(self.dumps.settle)
            at_the_end(self.upstream.stop)
            await self.upstream.start()
            at_the_end(self.plugins.stop)
            await self.plugins.start()
            if self.in_force.owns_home:
                at_the_end(self.statics.stop)
                await self.statics.start()
                await asyncio.to_thread(self.background_results.sweep)
                await asyncio.to_thread(sweep_leftovers, self.config.home, time.time(), self.config.notebooks)
            at_the_end(self.side_requests.aclose)
            at_the_end(self.in_process.stop)
            await self.in_process.start()
            for part in self._lifecycles:
                at_the_end(part.stop)
                await part.start()
            if self.in_force.owns_home:  # after all that bring tools: tasks that are due run at once
                at_the_end(self.schedule.stop)
                await self.schedule.start()
            at_the_end(self._reloader.stop)
            if self._watcher is not None:
                at_the_end(self._watcher.stop)
                await self._watcher.start()
            at_the_end(self._stop_background)
            # The web server has already waited for its requests; what is left now is cancelled at once.
            at_the_end(lambda: self.running.stop_all(0))
            self.started = True
            try:
                yield
            finally:
                self.started = False
                self.stopping.begin()

    async def _stop_background(self) -> None:
        await self.stopping.wait(self.background.tasks)
        await self.background.stop(0)
