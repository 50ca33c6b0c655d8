"""``vcp check``: what is wrong with an installation, what will run, what is where."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from itertools import groupby
from types import MappingProxyType

from app import __version__
from app.cli.options import EXIT_FAILED, EXIT_OK, Commands, home_folder, home_option
from app.cli.terminal import printable
from app.errors import both
from app.extend import Json
from app.home.check import CheckReport, check_home
from app.home.checks.findings import Finding, Level, Topic
from app.home.checks.plugins import Status
from app.protocol.json_text import pretty_json

_TOPICS: Mapping[Topic, str] = MappingProxyType(
    {
        Topic.SETTINGS: both("设置", "settings"),
        Topic.KEYS: both("密钥", "keys"),
        Topic.PROMPTS: both("提示词", "prompts"),
        Topic.PLUGINS: both("插件", "plugins"),
        Topic.FILES: both("其他文件", "other files"),
        Topic.FOLDERS: both("目录", "folders"),
    }
)
_LEVELS: Mapping[Level, str] = MappingProxyType(
    {Level.ERROR: both("错误", "error"), Level.WARNING: both("警告", "warning"), Level.NOTE: both("提示", "note")}
)
_STATUSES: Mapping[Status, str] = MappingProxyType(
    {
        Status.RUNS: both("运行", "run"),
        Status.PORT: both("由内置的同名插件代替", "served by this program's plugin of the same name"),
        Status.PROGRAM: both("程序自带", "come with the program"),
        Status.NOT_HERE: both("Node 模块，此处不运行", "Node modules, not run here"),
        Status.BLOCKED: both("已禁用", "blocked"),
        Status.BROKEN: both("不能运行", "cannot run"),
        Status.SHADOWED: both("被同名插件遮住", "hidden by another plugin of the same name"),
    }
)


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("检查安装目录，不做任何改动", "check an installation without changing anything")
    more = both(
        "也可用于旧的安装目录。退出码：0 没有错误，1 有错误，2 无法检查",
        "also on an old one. Exit code: 0 no errors, 1 errors, 2 it could not be checked",
    )
    parser = commands.add_parser("check", parents=[home_option()], help=text, description=f"{text}. {more}.")
    parser.add_argument("--json", action="store_true", help=both("输出 JSON", "print JSON"))
    parser.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    report = check_home(home_folder(options), os.environ)
    print(pretty_json(_as_json(report)) if options.json else "\n".join(_lines(report)))
    return EXIT_FAILED if report.count(Level.ERROR) else EXIT_OK


def _lines(report: CheckReport) -> Iterable[str]:
    yield f"vcp {__version__}: {both('检查', 'check of')} {report.home}"
    if report.owner is not None:
        yield f"{both('正在使用它的进程', 'in use by')}: {report.owner}"
    for topic, findings in groupby(report.findings, key=lambda finding: finding.topic):
        yield ""
        yield f"== {_TOPICS[topic]}"
        for finding in findings:
            yield from _finding(finding)
    yield ""
    yield f"== {both('插件状态', 'state of the plugins')}"
    for status, label in _STATUSES.items():
        names = [plugin.name for plugin in report.plugins if plugin.status is status]
        if names:
            yield f"  {label} ({len(names)}): {', '.join(map(printable, names))}"
    if report.memory:
        yield ""
        yield f"== {both('记忆', 'memory')}"
        yield from (f"  {printable(line)}" for line in report.memory)
    yield ""
    yield f"== {both('目录内容', 'what is where')}"
    for folder in report.folders:
        count = both(
            f"{folder.folders} 个目录，{folder.files} 个文件", f"{folder.folders} folders, {folder.files} files"
        )
        yield f"  {folder.name}/  {count}"
        yield f"      {folder.meaning}"
    yield ""
    yield "  ".join(f"{_LEVELS[level]}: {report.count(level)}" for level in Level)


def _finding(finding: Finding) -> Iterable[str]:
    head = "  ".join(part for part in (f"[{_LEVELS[finding.level]}]", finding.place, finding.subject) if part)
    yield f"  {printable(head)}"
    yield f"      {printable(finding.chinese)}"
    yield f"      {printable(finding.english)}"


def _as_json(report: CheckReport) -> dict[str, Json]:
    return {
        "version": __version__,
        "home": str(report.home),
        "owner": None
        if report.owner is None
        else {"pid": report.owner.pid, "address": report.owner.address, "command": report.owner.command},
        "summary": {level.value: report.count(level) for level in Level},
        "findings": [
            {
                "level": finding.level.value,
                "topic": finding.topic.value,
                "file": finding.file,
                "line": finding.line,
                "column": finding.column,
                "subject": finding.subject,
                "chinese": finding.chinese,
                "english": finding.english,
            }
            for finding in report.findings
        ],
        "plugins": [
            {"name": plugin.name, "folder": plugin.folder, "type": plugin.kind, "status": plugin.status.value}
            for plugin in report.plugins
        ],
        "folders": [
            {"name": folder.name, "folders": folder.folders, "files": folder.files, "meaning": folder.meaning}
            for folder in report.folders
        ],
        "memory": list(report.memory),
    }
