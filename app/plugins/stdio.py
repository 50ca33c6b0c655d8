"""Stdio plugins as a source of tools: one process per call (spec 5.3-5.6).

A synchronous plugin answers when its process ends; an asynchronous one answers first and works on in the background.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from app.errors import VcpError, both
from app.extend import LOCAL, CallContext, Clock, Door, ErrorKind, ToolCall, ToolResult, ToolSpec
from app.plugins.background import BackgroundLimits, BackgroundProcess, BackgroundProcesses
from app.plugins.callbacks import Callbacks
from app.plugins.command import CommandError
from app.plugins.discovery import Plugin, PluginSet
from app.plugins.environment import ServerFacts, child_environment
from app.plugins.missing_files import MissingFiles
from app.plugins.output import Answer, bad_output, failure, read_answer, result_of_answer, stderr_text
from app.plugins.places import QueueError, StoppingError
from app.plugins.processes import Ending, Job, Processes, Ran
from app.plugins.starting import plan_start, why_not_started
from app.protocol.json_text import compact_json
from app.tools.plain_arguments import plain_arguments
from app.tools.task_ids import TaskIds, task_ids

log = logging.getLogger(__name__)


class StdioPlugins:
    """All plugins that were found, as tools; those that do not run as one process per call are listed, not callable.

    ``environ`` gives the server's environment of now, ``config.env`` included; ``auth_code`` the code for
    administrators' plugins or None when it cannot be read (spec 7.3); ``port`` that which the server listens on.
    Without ``callbacks`` background plugins are told no address to call back to, without ``missing_files`` nobody
    fetches what a plugin lacks.
    """

    def __init__(
        self,
        plugins: PluginSet,
        processes: Processes,
        *,
        project_base: Path,
        environ: Callable[[], Mapping[str, str]],
        auth_code: Callable[[], str | None],
        port: int | Callable[[], int | None] | None = None,
        server_python: str = sys.executable,
        callbacks: Callbacks | None = None,
        background_limits: Callable[[], BackgroundLimits] = BackgroundLimits,
        clock: Clock = time.time,
        missing_files: MissingFiles | None = None,
    ) -> None:
        self._missing_files = missing_files
        self._processes = processes
        self._callbacks = callbacks
        self.background = BackgroundProcesses(processes, background_limits, clock)
        self._project_base = project_base.absolute()
        self._environ = environ
        self._auth_code = auth_code
        self._port = port
        self._server_python = server_python
        self._told: list[Callable[[], None]] = []
        self._plugins: Mapping[str, Plugin] = {}
        self._tools: Mapping[str, ToolSpec] = {}
        self._image_key = ""
        self._offer(plugins)

    @property
    def processes(self) -> Processes:
        """The processes of these plugins."""
        return self._processes

    async def replace(self, plugins: PluginSet) -> None:
        """Offer these plugins from now on; calls that run go on with what they began with."""
        self._offer(plugins)

    def _offer(self, plugins: PluginSet) -> None:
        self._plugins = {plugin.name: plugin for plugin in plugins.plugins}
        self._image_key = plugins.image_key
        self._tools = MappingProxyType({plugin.name: tool_spec(plugin) for plugin in plugins.plugins})
        for told in self._told:
            told()

    def changed(self, told: Callable[[], None]) -> None:
        """Call ``told`` after each ``replace``."""
        self._told.append(told)

    def health(self) -> str:
        """Nothing that could be wrong outside of a call."""
        return ""

    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools of now, by name, in the order of discovery."""
        return self._tools

    def addressed(self, name: str) -> ToolSpec | None:
        """Nothing: all names are listed."""
        return None

    async def start(self) -> None:
        """Tidy up; processes start with their calls."""
        if self._missing_files is not None:
            await self._missing_files.start()

    async def stop(self) -> None:
        """End every plugin process within bounded time."""
        if self._missing_files is not None:
            await self._missing_files.stop()
        await self.background.stop()

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        """Run the plugin's process and read its answer. Raises nothing but the caller's own cancellation."""
        name = spec.name
        plugin = self._plugins.get(name)
        if plugin is None:
            return failure(
                ErrorKind.UNKNOWN_TOOL, both(f'插件 "{name}" 已不再加载。', f'Plugin "{name}" is not loaded any more.')
            )
        if not plugin.manifest.callable_over_stdio:
            return failure(ErrorKind.EXECUTION, _not_callable(plugin))
        try:

            async def attempt(call: ToolCall) -> ToolResult:
                if plugin.manifest.answers_first:
                    return await self._call_background(plugin, spec, call, context, started)
                job = self._job(plugin, spec, call, context)
                return _result(name, await self._processes.run(job, read_answer, started), self._processes)

            if self._missing_files is None:
                return await attempt(call)
            return await self._missing_files.call(attempt, call, context)
        except _RefusedError as error:
            return failure(ErrorKind.EXECUTION, error.message)
        except QueueError as error:
            return failure(ErrorKind.QUEUE, error.message)
        except StoppingError as error:
            return failure(ErrorKind.CANCELLED, error.message)
        except CommandError as error:
            return failure(ErrorKind.EXECUTION, f'Failed to start plugin "{name}": {error.message}')
        except OSError as error:
            return failure(ErrorKind.EXECUTION, f'Failed to start plugin "{name}": {why_not_started(error)}')
        except Exception as error:
            # The plugin boundary: whatever a manifest or an answer provokes in here must not end the turn.
            log.exception("calling plugin %s failed", name)
            said = both(f'插件 "{name}" 无法运行', f'Plugin "{name}" could not be run')
            return failure(ErrorKind.EXECUTION, f"{said}: {error}")

    async def _call_background(
        self, plugin: Plugin, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        """The first answer of a background plugin; its process works on (D14, P51)."""
        name, callbacks = spec.name, self._callbacks
        address = await callbacks.issue(plugin, context.mute) if callbacks is not None else None
        ids = TaskIds()

        def tasks(answer: Answer) -> tuple[str, ...]:
            nonlocal ids
            ids = task_ids(name, answer.fields, result_of_answer(name, answer, None, "").structured)
            return ids.named

        async def ended(process: BackgroundProcess, exit_code: int | None) -> None:
            if callbacks is not None:
                await callbacks.ended(process, exit_code, spec.push)

        ran: Ran[Answer] | None = None
        try:
            job = self._job(plugin, spec, call, context, callback_base=address.base if address is not None else None)
            ran = await self.background.run(job, started, call_id=call.id, tasks=tasks, ended=ended)
        finally:
            if callbacks is not None and address is not None and (ran is None or ran.answer is None):
                callbacks.withdraw(address)
        if callbacks is not None and address is not None and ran.answer is not None:
            await callbacks.answered(address, name, ids, context.mute)
        return _result(name, ran, self._processes, "initial response")

    def _job(
        self,
        plugin: Plugin,
        spec: ToolSpec,
        call: ToolCall,
        context: CallContext,
        *,
        callback_base: str | None = None,
    ) -> Job:
        manifest = plugin.manifest
        code = self._auth_code() if manifest.requires_admin else None
        if manifest.requires_admin and not code:
            raise _RefusedError(
                both(
                    f'插件 "{spec.name}" 需要管理员验证码，但验证码无法读取，插件没有启动。',
                    f'Plugin "{spec.name}" is for administrators and the auth code cannot be read; it was not started.',
                )
            )
        environ = self._environ()
        child = child_environment(
            manifest,
            plugin.own,
            environ,
            self._facts(environ),
            client_ip=context.client_ip,
            auth_code=code,
            callback_base=callback_base,
            depth=context.depth,
        )
        argv, environment = plan_start(plugin, child, self._project_base, self._server_python)
        return Job(
            name=spec.name,
            argv=argv,
            folder=plugin.folder,
            environment=environment,
            stdin=stdin_bytes(spec, call, as_given=context.door is Door.SCHEDULE),
            timeout=spec.timeout,
            max_running=spec.max_running,
            deadline=context.deadline,
        )

    def _facts(self, environ: Mapping[str, str]) -> ServerFacts:
        port = self._port() if callable(self._port) else self._port
        return ServerFacts(
            project_base=self._project_base,
            port=str(port) if port is not None else environ.get("PORT"),
            image_key=self._image_key or environ.get("Image_Key"),
        )


class _RefusedError(VcpError):
    """The plugin must not be started (B11)."""


def tool_spec(plugin: Plugin) -> ToolSpec:
    """What every door sees of a plugin."""
    manifest = plugin.manifest
    return ToolSpec(
        name=manifest.name,
        origin=LOCAL,
        display=manifest.display,
        commands=manifest.commands,
        timeout=manifest.timeout,
        idempotent=manifest.idempotent,
        eager=manifest.eager,
        callable=manifest.callable_over_stdio,
        max_running=manifest.max_running,
        push=manifest.push,
        labels=frozenset({manifest.plugin_type} if plugin.runs_here else {manifest.plugin_type, "not run here"}),
        groups=manifest.groups,
        about=manifest.description,
    )


def stdin_bytes(spec: ToolSpec, call: ToolCall, *, as_given: bool = False) -> bytes:
    """What the plugin reads: the arguments as compact JSON, or nothing at all without arguments (O12, D39).

    Raises ValueError for numbers that JSON has no words for.
    """
    arguments = plain_arguments(spec, call, as_given=as_given)
    if not arguments:
        return b""
    try:
        return compact_json(arguments, strict=True).encode()
    except UnicodeEncodeError:
        # Half surrogates have no UTF-8; JSON can still write them as escapes.
        return json.dumps(arguments, separators=(",", ":"), allow_nan=False).encode()


def _not_callable(plugin: Plugin) -> str:
    manifest = plugin.manifest
    text = (
        f'Plugin "{manifest.name}" (type: {manifest.plugin_type}, protocol: {manifest.protocol}) '
        "is not a supported stdio plugin for a direct call."
    )
    return (
        text
        if plugin.runs_here
        else f"{text} {both('这是 Node 模块，不在此运行。', 'It is a Node module and is not run here.')}"
    )


def _result(name: str, ran: Ran[Answer], processes: Processes, awaited: str = "execution") -> ToolResult:
    tail = stderr_text(ran.stderr)
    if ran.answer is not None:
        return result_of_answer(name, ran.answer, ran.exit_code, tail)
    if ran.ending is Ending.SILENT:
        return bad_output(name, ran.stdout, ran.exit_code, tail)
    kind, text = {
        Ending.TIMED_OUT: (ErrorKind.TIMEOUT, f'Plugin "{name}" {awaited} timed out.'),
        Ending.STOPPED: (
            ErrorKind.CANCELLED,
            both(f'插件 "{name}" 已结束：服务器正在关闭。', f'Plugin "{name}" was ended: the server is stopping.'),
        ),
    }.get(
        ran.ending,
        (
            ErrorKind.EXECUTION,
            both(
                f'插件 "{name}" 的输出超过上限 {processes.limits.output_bytes} 字节，已被结束。',
                f'Plugin "{name}" printed more than the limit of {processes.limits.output_bytes} bytes and was ended.',
            ),
        ),
    )
    return failure(kind, text, exit_code=ran.exit_code, stderr_tail=tail)
