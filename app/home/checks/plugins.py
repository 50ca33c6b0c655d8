"""Checks of plugins: which run, for which one of the program stands in, which do not run here, and why (5, D37)."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from cronsim import CronSim, CronSimError

from app.config import settings
from app.errors import ManifestError
from app.home.checks.findings import Finding, Installation, JsonFault, Level, Topic, entries, read_json_file
from app.plugins.command import CommandError, plan_launch
from app.plugins.discovery import Plugin, PluginSet
from app.plugins.environment import resolve_settings
from app.plugins.manifest import BLOCKED_NAME, MANIFEST_NAME, PLUGIN_TYPES, Manifest, read_manifest
from app.protocol.secret_texts import is_secret_name

_WINDOWS_PROGRAMS = (".exe", ".bat", ".cmd", ".com", ".ps1")
_NODE = re.compile(r"(node|nodejs)(\.exe)?", re.IGNORECASE)

_PART_OF_SERVER = ("VCPLog",)
"""Node modules whose work the server does itself; their ``config.env`` counts on (spec 6.7)."""


class Status(StrEnum):
    """What becomes of a plugin under this server."""

    RUNS = "runs"
    PORT = "port"
    PROGRAM = "program"
    NOT_HERE = "not_run_here"
    BLOCKED = "blocked"
    BROKEN = "broken"
    SHADOWED = "shadowed"


@dataclass(frozen=True, slots=True)
class PluginState:
    """One plugin folder: name and kind in its manifest (None if it cannot be read), and what becomes of it."""

    name: str
    folder: str
    kind: str
    status: Status
    manifest: Manifest | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class PluginCheck:
    """All plugins of the home, then those of the program that nothing in the home stands before."""

    states: tuple[PluginState, ...]
    findings: tuple[Finding, ...]

    def named(self, name: str) -> PluginState | None:
        """The plugin of this name that counts: one that is served, else whichever there is."""
        found = [state for state in self.states if state.name == name]
        served = [state for state in found if state.status in (Status.RUNS, Status.PORT, Status.PROGRAM)]
        return next(iter([*served, *found]), None)

    def with_tool(self, name: str) -> PluginState | None:
        """The plugin that a call by this name means: by its own, that of a command, or ``Plugin.command``."""
        for state in self.states:
            commands = state.manifest.commands if state.manifest is not None else ()
            if name in [command.tool_name for command in commands]:
                return self.named(state.name)
        return self.named(name) or self.named(name.rpartition(".")[0])


def check_plugins(
    installation: Installation,
    plugins: PluginSet,
    *,
    server_python: str = sys.executable,
    windows: bool = os.name == "nt",
) -> PluginCheck:
    """Look at every plugin; nothing is started. ``plugins`` is what the server would find."""
    check = _Check(installation, plugins, server_python, windows)
    return PluginCheck(tuple(check.states()), tuple(check.findings))


class _Check:
    def __init__(self, installation: Installation, plugins: PluginSet, server_python: str, windows: bool) -> None:
        self._installation = installation
        self._served = {plugin.name: plugin for plugin in plugins.plugins}
        self._ported = {plugin.folder: plugin for plugin in plugins.ported}
        self._root = (installation.home / "Plugin").resolve()
        self._python = server_python
        self._windows = windows
        self.findings: list[Finding] = [self._told(problem, plugins) for problem in plugins.problems]

    def states(self) -> Iterator[PluginState]:
        seen: set[Path] = set()
        for entry in entries(self._root):
            folder = Path(entry.path)
            if _is_file(folder / MANIFEST_NAME):
                seen.add(folder)
                yield self._state(folder)
            elif _is_file(folder / BLOCKED_NAME):
                yield self._blocked(folder)
        for plugin in self._served.values():
            if plugin.folder not in seen and not self._in_home(plugin):
                yield self._of_program(plugin)

    def _in_home(self, plugin: Plugin) -> bool:
        return self._root in plugin.folder.parents

    def _told(self, problem: str, plugins: PluginSet) -> Finding:
        """A complaint of the discovery, which begins with a path."""
        path, _, reason = problem.partition(": ")
        complaints = {text for plugin in plugins.plugins for text in plugin.manifest.complaints}
        line = re.match(r"line (\d+)(?:, column (\d+))?: ", reason)
        return Finding(
            Level.WARNING if problem in complaints else Level.ERROR,
            Topic.PLUGINS,
            "插件文件有问题，见下一行",
            reason,
            self._installation.shown(Path(path)),
            int(line[1]) if line else None,
            int(line[2]) if line and line[2] else None,
        )

    def _find(
        self, level: Level, chinese: str, english: str, folder: Path, name: str, *, file: str = MANIFEST_NAME
    ) -> None:
        shown = self._installation.shown(folder / file)
        self.findings.append(Finding(level, Topic.PLUGINS, chinese, english, shown, subject=name))

    def _blocked(self, folder: Path) -> PluginState:
        try:
            manifest = read_manifest(folder / BLOCKED_NAME)
        except ManifestError:
            return PluginState(folder.name, folder.name, "", Status.BLOCKED)
        return PluginState(manifest.name, folder.name, manifest.plugin_type, Status.BLOCKED, manifest)

    def _state(self, folder: Path) -> PluginState:
        try:
            manifest = read_manifest(folder / MANIFEST_NAME)
        except ManifestError:
            return PluginState(folder.name, folder.name, "", Status.BROKEN)  # the discovery has told why
        served = self._served.get(manifest.name)
        if served is None:
            status = Status.SHADOWED
        elif served.folder == folder:
            status = self._own(served)
        elif folder in self._ported:
            status = self._port(self._ported[folder])
        else:
            status = Status.SHADOWED
        return PluginState(manifest.name, folder.name, manifest.plugin_type, status, manifest)

    def _port(self, plugin: Plugin) -> Status:
        if plugin.lacks:
            self._find(
                Level.NOTE,
                f"此机器上没有 {plugin.lacks}，由内置的同名插件代替",
                f"{plugin.lacks} is not on this machine; the plugin of this program with its name serves instead",
                plugin.folder,
                plugin.name,
            )
        return Status.PORT

    def _of_program(self, plugin: Plugin) -> PluginState:
        manifest = plugin.manifest  # its settings are explained in its documentation, none is needed
        return PluginState(plugin.name, plugin.folder.name, manifest.plugin_type, Status.PROGRAM, manifest)

    def _own(self, plugin: Plugin) -> Status:
        """A plugin of the home that the server would use."""
        manifest, folder, name = plugin.manifest, plugin.folder, plugin.name
        if manifest.runs_in_node and name in _PART_OF_SERVER:
            self._find(
                Level.NOTE,
                "Node 模块，此处不需要：由服务器自身承担；其 config.env 中的 VCP_Key 仍然有效",
                "a Node module, not needed here: the server does its work, and VCP_Key in its config.env counts",
                folder,
                name,
            )
            return Status.NOT_HERE
        if manifest.runs_in_node:
            self._find(
                Level.NOTE,
                "Node 模块，此服务器不运行，也没有同名的内置移植版",
                "a Node module: not run here, and no plugin of this program has its name",
                folder,
                name,
            )
            return Status.NOT_HERE
        if manifest.plugin_type not in PLUGIN_TYPES:
            return Status.BROKEN  # among the complaints about its manifest
        status = self._module(plugin) if manifest.protocol == "direct" else self._process(plugin)
        if status is Status.RUNS:
            self._settings(plugin)
            if manifest.plugin_type == "static" and manifest.cron is not None:
                self._cron(plugin, manifest.cron)
        return status

    def _module(self, plugin: Plugin) -> Status:
        script = plugin.manifest.script
        if script and _is_file(plugin.folder / script):
            return Status.RUNS
        self._find(
            Level.ERROR,
            f"模块文件不存在：{script or 'entryPoint.script'}",
            f"its module does not exist: {script or 'entryPoint.script'}",
            plugin.folder,
            plugin.name,
        )
        return Status.BROKEN

    def _process(self, plugin: Plugin) -> Status:
        environ = self._installation.config.environ
        try:
            launch = plan_launch(plugin.manifest, plugin.folder, self._installation.home, environ, self._python)
        except CommandError as error:
            chinese, _, english = error.message.partition(" / ")
            if not self._windows and _foreign(plugin.manifest.command_line.partition(" ")[0]):
                return self._foreign(plugin)
            self._find(Level.ERROR, f"无法启动：{chinese}", f"cannot be started: {english}", plugin.folder, plugin.name)
            return Status.BROKEN
        program = launch.argv[0]
        if not self._windows and _foreign(program):
            return self._foreign(plugin)
        if not os.access(program, os.X_OK):
            self._find(
                Level.ERROR,
                f"{program} 没有执行权限",
                f"{program} may not be executed; chmod +x gives the right",
                plugin.folder,
                plugin.name,
            )
            return Status.BROKEN
        if _NODE.fullmatch(Path(program).name):
            self._node_packages(plugin)
        return Status.RUNS

    def _foreign(self, plugin: Plugin) -> Status:
        self._find(
            Level.WARNING,
            "Windows 程序，在此系统上不能运行",
            "a program for Windows, which does not run on this system",
            plugin.folder,
            plugin.name,
        )
        return Status.BROKEN

    def _settings(self, plugin: Plugin) -> None:
        """Settings without a value: those that look like keys are a warning, the others good to know."""
        values = resolve_settings(plugin.manifest, plugin.own, self._installation.config.environ)
        own = settings.names()  # those of the server have defaults
        empty = [name for name in plugin.manifest.settings if name not in own and not values.get(name, "").strip()]
        numbers = ("integer", "number", "boolean")
        keys = [
            name
            for name in empty
            if is_secret_name(name) and plugin.manifest.settings[name].type.lower() not in numbers
        ]
        others = [name for name in empty if name not in keys]
        if keys:
            listed = ", ".join(keys)
            self._find(
                Level.WARNING,
                f"需要的密钥未设置：{listed}（写入 config.env 或插件自己的 config.env）",
                f"needs keys that are not set: {listed} (in config.env or the plugin's own config.env)",
                plugin.folder,
                plugin.name,
            )
        if others:
            listed = ", ".join(others)
            self._find(
                Level.NOTE,
                f"未设置的选项：{listed}",
                f"settings without a value: {listed}",
                plugin.folder,
                plugin.name,
            )

    def _cron(self, plugin: Plugin, cron: str) -> None:
        try:
            CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC))
        except CronSimError:
            self._find(
                Level.ERROR,
                f"refreshIntervalCron 不是有效的 cron 表达式：{cron!r}",
                f"refreshIntervalCron is no cron expression: {cron!r}",
                plugin.folder,
                plugin.name,
            )

    def _node_packages(self, plugin: Plugin) -> None:
        value = read_json_file(plugin.folder / "package.json")
        if isinstance(value, JsonFault):
            self.findings.append(
                value.finding(Level.WARNING, Topic.PLUGINS, self._installation.shown(plugin.folder / "package.json"))
            )
        wanted = value.get("dependencies") if isinstance(value, Mapping) else None
        if not isinstance(wanted, Mapping):
            return
        home = self._installation.home
        places = [plugin.folder, *(folder for folder in plugin.folder.parents if home in folder.parents), home]
        missing = [
            name
            for name in wanted
            if "\0" in name or not any((place / "node_modules" / name).is_dir() for place in places)
        ]
        if missing:
            listed = ", ".join(json.dumps(name, ensure_ascii=False)[1:-1] for name in missing[:10])
            self._find(
                Level.WARNING,
                f"缺少 Node 依赖：{listed}（在插件目录运行 npm install）",
                f"Node packages are missing: {listed} (run npm install in the plugin's folder)",
                plugin.folder,
                plugin.name,
                file="package.json",
            )


def _foreign(program: str) -> bool:
    return program.lower().endswith(_WINDOWS_PROGRAMS)


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False
