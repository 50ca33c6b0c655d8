"""Builds what finds plugins and runs them: processes, static values, modules inside the server, callbacks."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx

from app.config import dotenv
from app.config.program_files import program_plugins
from app.config.settings import Settings
from app.extend import CallTool, EventSink, FileFetcher, PluginEmbeddings, PluginMemory
from app.plugins.background import BackgroundLimits
from app.plugins.callbacks import Callbacks
from app.plugins.discovery import PluginSet, discover
from app.plugins.hosts import PluginHost
from app.plugins.in_process import InProcessLimits, InProcessPlugins
from app.plugins.in_process_context import RunChat, ServerParts
from app.plugins.missing_files import MissingFiles
from app.plugins.places import Limits
from app.plugins.plugin_edit import PluginFolders
from app.plugins.processes import Processes
from app.plugins.static_runs import STATIC_LIMITS, StaticRunner
from app.plugins.static_values import StaticValues
from app.plugins.statics import StaticPlugins
from app.plugins.stdio import StdioPlugins
from app.prompt.diaries import ALL_DIARIES
from app.services.completions import PlainCompletions
from app.services.in_force import InForce
from app.tools.auth_code import AuthCode
from app.tools.background_results import BackgroundResults, Retention
from app.tools.callback_tokens import CallbackTokens

FILE_CACHE = ".file_cache"
"""Folder of the home with copies of files that clients have and plugins wanted (spec 5.9)."""

REPLACE_SECONDS = 300.0
"""Longest time that one kind of plugins gets to change over to a new set; what is not done by then stays undone."""

log = logging.getLogger(__name__)


def first_plugins(in_force: InForce) -> PluginSet:
    """The plugins at the start; what is odd about them is logged. Blocks."""
    found = search_plugins(in_force)
    for problem in found.problems:
        log.warning("%s", problem)
    for ported in found.ported:
        reason = f"{ported.lacks} is not on this machine" if ported.lacks else "its module is for Node"
        log.info("plugin %s: %s; the program's own serves in its place", ported.name, reason)
    return found


def search_plugins(in_force: InForce, before: PluginSet | None = None) -> PluginSet:
    """The plugins on disk, those of the home before those of the program; blocks.

    What cannot be read is as in ``before``.
    """
    config = in_force.config
    search_path = config.environ.get("PATH", os.defpath)
    found = discover(plugin_roots(in_force), dotenv.parse_values, before, search_path=search_path)
    return found if config.only_plugins is None else _only(config.only_plugins, found)


def plugin_roots(in_force: InForce) -> tuple[Path, ...]:
    """The folders with plugins, that of the home first."""
    first = in_force.config.plugin_folder or in_force.home / "Plugin"
    return tuple(dict.fromkeys(root.resolve() for root in (first, program_plugins())))


def plugin_folders(in_force: InForce) -> PluginFolders:
    """What switches plugins on and off and changes what they say."""
    return PluginFolders(plugin_roots(in_force), in_force.home / ".vcp" / "edited.lock")


def _only(names: frozenset[str], found: PluginSet) -> PluginSet:
    """The plugins of these names, and what is odd about them; all others are as if they were not there."""
    plugins = tuple(plugin for plugin in found.plugins if plugin.name in names)
    problems = tuple(complaint for plugin in plugins for complaint in plugin.manifest.complaints)
    return PluginSet(plugins, problems, ported=tuple(plugin for plugin in found.ported if plugin.name in names))


def process_limits(settings: Settings) -> Limits:
    """How many plugin processes there may be, and how long and how large they may get."""
    return Limits(
        running=settings.plugin_max_running,
        queued=settings.plugin_queue_limit,
        queue_seconds=settings.plugin_queue_seconds,
        output_bytes=settings.plugin_output_limit_mb * 1024 * 1024,
        stop_seconds=settings.plugin_stop_seconds,
    )


def callback_tokens(in_force: InForce) -> CallbackTokens:
    """The tokens by which callbacks are known (D19)."""
    return CallbackTokens(in_force.home / ".vcp" / "callbacks", time.time)


def background_results(in_force: InForce) -> BackgroundResults:
    """What background plugins brought in the end."""
    return BackgroundResults(
        in_force.home / "VCPAsyncResults",
        in_force.home / ".vcp" / "background_results",
        lambda: Retention(in_force.settings.background_result_days, in_force.settings.background_result_count),
        time.time,
    )


def stdio_plugins(
    in_force: InForce,
    found: PluginSet,
    processes: Processes,
    auth_code: AuthCode,
    callbacks: Callbacks,
    fetchers: Sequence[FileFetcher],
) -> StdioPlugins:
    """Plugins that are processes for the time of a call, or go on after their first answer."""
    return StdioPlugins(
        found,
        processes,
        project_base=in_force.home,
        environ=in_force.plugin_environ,
        auth_code=auth_code,
        port=in_force.port,
        callbacks=callbacks,
        background_limits=lambda: BackgroundLimits(
            in_force.settings.background_max_running, in_force.settings.background_max_seconds
        ),
        missing_files=MissingFiles(in_force.home / FILE_CACHE, fetchers, time.monotonic, time.time),
    )


def static_plugins(in_force: InForce, found: PluginSet, events: EventSink) -> StaticPlugins:
    """Plugins that run by a timetable and fill placeholders."""
    runner = StaticRunner(Processes(STATIC_LIMITS), project_base=in_force.home, environ=in_force.plugin_environ)
    return StaticPlugins(
        found,
        runner,
        StaticValues(in_force.home / ".vcp" / "static_values"),
        clock=time.time,
        zone=in_force.zone,
        max_chars=lambda: in_force.settings.static_value_max_chars,
        events=events,
        enabled=lambda: in_force.settings.run_static_plugins,
        served=frozenset({ALL_DIARIES}),
    )


async def change_over(hosts: Sequence[PluginHost], plugins: PluginSet) -> None:
    """Let all hosts change over to these plugins."""
    for host in hosts:
        try:
            async with asyncio.timeout(REPLACE_SECONDS):
                await host.replace(plugins)
        except Exception:  # the plugin boundary: one kind of plugins must not keep the others from changing over
            log.exception("%s could not change over to the new plugins", type(host).__name__)


def in_process_plugins(
    in_force: InForce,
    found: PluginSet,
    *,
    call_tool: CallTool,
    chat: RunChat,
    complete: PlainCompletions,
    embed: PluginEmbeddings,
    memory: PluginMemory,
    events: EventSink,
    auth_code: AuthCode,
    new_id: Callable[[str], str],
    http: httpx.AsyncClient,
    on_demand: bool,
) -> InProcessPlugins:
    """Plugins that are Python modules inside the server, and what they may use of it."""
    parts = ServerParts(
        home=in_force.home,
        environ=in_force.plugin_environ,
        zone=in_force.zone,
        max_depth=lambda: in_force.settings.max_call_depth,
        password_wanted=lambda: in_force.settings.vcp_tool_code,
        call_tool=call_tool,
        chat=chat,
        complete=complete,
        embed=embed,
        memory=memory,
        events=events,
        auth_code=auth_code,
        new_id=new_id,
        clock=time.time,
        http=http,
    )
    return InProcessPlugins(found, parts, in_force.following(InProcessLimits.of), on_demand=on_demand)
