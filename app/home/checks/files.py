"""Checks of other files: model names, order of preprocessors, blocked addresses, scheduled tasks (spec 0.2)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from app.extend import Json
from app.home.checks.findings import Finding, Installation, JsonFault, Level, Topic, entries, read_json_file
from app.home.checks.plugins import PluginCheck, Status
from app.protocol.loopback import is_loopback

MODEL_REDIRECT = "ModelRedirect.json"
PREPROCESSOR_ORDER = "preprocessor_order.json"
IP_BLACKLIST = "ip_blacklist.json"
TASKS = "VCPTimedContacts"
MAX_TASKS = 10_000


def check_files(installation: Installation, plugins: PluginCheck) -> Iterator[Finding]:
    """Findings about these files; each may be missing."""
    home = installation.home
    yield from _model_redirect(read_json_file(home / MODEL_REDIRECT))
    yield from _preprocessor_order(read_json_file(home / PREPROCESSOR_ORDER), plugins)
    yield from _ip_blacklist(read_json_file(home / IP_BLACKLIST))
    yield from _tasks(home, plugins)


def _find(level: Level, chinese: str, english: str, file: str, subject: str = "") -> Finding:
    return Finding(level, Topic.FILES, chinese, english, file, subject=subject)


def _model_redirect(value: Json | JsonFault | None) -> Iterator[Finding]:
    if value is None:
        return
    if isinstance(value, JsonFault):
        yield value.finding(Level.ERROR, Topic.FILES, MODEL_REDIRECT)
    elif not isinstance(value, Mapping):
        yield _find(Level.ERROR, "应是一个 JSON 对象", "must be a JSON object", MODEL_REDIRECT)
    else:
        for name, target in value.items():
            if not name.startswith("//") and not (isinstance(target, str) and target):
                yield _find(
                    Level.ERROR, "目标不是模型名称", "its target is no name of a model", MODEL_REDIRECT, subject=name
                )


def _preprocessor_order(value: Json | JsonFault | None, plugins: PluginCheck) -> Iterator[Finding]:
    if value is None:
        return
    if isinstance(value, JsonFault):
        yield value.finding(Level.ERROR, Topic.FILES, PREPROCESSOR_ORDER)
    elif not isinstance(value, list):
        yield _find(Level.ERROR, "应是插件名称的列表", "must be a list of plugin names", PREPROCESSOR_ORDER)
    else:
        for name in value:
            if not isinstance(name, str):
                yield _find(
                    Level.ERROR, "列表中有不是名称的项", "the list holds something that is no name", PREPROCESSOR_ORDER
                )
                continue
            state = plugins.named(name)
            if state is None:
                yield _find(
                    Level.WARNING,
                    "没有这个插件，会跳过",
                    "no plugin has this name; it is skipped",
                    PREPROCESSOR_ORDER,
                    name,
                )
            elif state.status not in (Status.RUNS, Status.PORT, Status.PROGRAM):
                yield _find(
                    Level.NOTE,
                    "该插件不运行，会跳过",
                    "this plugin does not run; it is skipped",
                    PREPROCESSOR_ORDER,
                    name,
                )


def _ip_blacklist(value: Json | JsonFault | None) -> Iterator[Finding]:
    if value is None:
        return
    if isinstance(value, JsonFault):
        yield value.finding(Level.ERROR, Topic.FILES, IP_BLACKLIST)
    elif not isinstance(value, list):
        yield _find(Level.ERROR, "应是 IP 地址的列表", "must be a list of IP addresses", IP_BLACKLIST)
    else:
        for address in value:
            try:
                ipaddress.ip_address(address if isinstance(address, str) else "")
            except ValueError:
                yield _find(Level.WARNING, "不是 IP 地址", "is no IP address", IP_BLACKLIST, subject=str(address)[:60])
                continue
            if is_loopback(address):
                yield _find(
                    Level.NOTE,
                    "本机地址永远不会被封禁",
                    "an address of this machine is never blocked",
                    IP_BLACKLIST,
                    address,
                )
        if value:
            yield _find(Level.NOTE, f"封禁了 {len(value)} 个地址", f"{len(value)} addresses are blocked", IP_BLACKLIST)


def _tasks(home: Path, plugins: PluginCheck) -> Iterator[Finding]:
    count = 0
    for entry in entries(home / TASKS):
        if entry.name.endswith(".json") and not entry.name.startswith("."):
            count += 1
            if count > MAX_TASKS:
                yield _find(
                    Level.WARNING, f"只检查了 {MAX_TASKS} 个任务", f"only {MAX_TASKS} tasks were looked at", f"{TASKS}/"
                )
                return
            yield from _task(f"{TASKS}/{entry.name}", read_json_file(Path(entry.path)), plugins)


def _task(file: str, value: Json | JsonFault | None, plugins: PluginCheck) -> Iterator[Finding]:
    """A file of spec 7.1."""
    if isinstance(value, JsonFault):
        yield value.finding(Level.ERROR, Topic.FILES, file)
        return
    if not isinstance(value, Mapping):
        yield _find(Level.ERROR, "应是一个 JSON 对象", "must be a JSON object", file)
        return
    if not isinstance(value.get("taskId"), str) or not value["taskId"]:
        yield _find(Level.ERROR, "没有 taskId，不会执行", "has no taskId and will not run", file, "taskId")
    when = value.get("scheduledLocalTime")
    try:
        datetime.fromisoformat(when if isinstance(when, str) else "")
    except ValueError:
        yield _find(
            Level.WARNING,
            "scheduledLocalTime 缺失，或不是 2026-01-05T08:00:00+08:00 这样的时间",
            "scheduledLocalTime is missing, or no time such as 2026-01-05T08:00:00+08:00",
            file,
            "scheduledLocalTime",
        )
    call = value.get("tool_call")
    tool = call.get("tool_name") if isinstance(call, Mapping) else None
    if not isinstance(tool, str) or not tool:
        yield _find(Level.ERROR, "没有 tool_call.tool_name", "has no tool_call.tool_name", file, "tool_call")
        return
    state = plugins.with_tool(tool)
    if state is None or state.status not in (Status.RUNS, Status.PORT, Status.PROGRAM):
        yield _find(
            Level.WARNING,
            "此处没有这个工具；若由远程节点提供则可忽略",
            "this tool is not there; fine if a node brings it",
            file,
            tool,
        )
