"""Checks of ``toolApprovalConfig.json``: what is wrong with it, and rules that are about nothing (spec 7.6)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.config.approval_rules import (
    FAR,
    FILE_NAME,
    MAX_FILE_BYTES,
    SILENT_REJECT,
    ApprovalFileError,
    read_rules,
    rule_key,
)
from app.config.json_file import whole_file
from app.home.checks.findings import Finding, Installation, Level, Topic
from app.home.checks.plugins import PluginCheck
from app.plugins.manifest import Manifest


def check_approvals(installation: Installation, plugins: PluginCheck) -> Iterator[Finding]:
    """Findings about the file, which may be missing."""
    try:
        data = whole_file(installation.home / FILE_NAME, MAX_FILE_BYTES, ApprovalFileError)
        if data is None:
            return
        rules, problems = read_rules(data)
    except ApprovalFileError as error:
        chinese, _, english = error.message.partition(" / ")
        yield _useless(chinese, english, error.line)
        return
    for problem in problems:
        chinese, _, english = problem.reason.partition(" / ")
        yield Finding(Level.WARNING, Topic.FILES, chinese, english, FILE_NAME, problem.line, subject=problem.key)
    if not rules.enabled and (rules.rules or rules.everything):
        yield Finding(
            Level.NOTE,
            Topic.FILES,
            "未启用（enabled 不是 true）：其中的规则不起作用",
            "is not switched on (enabled is not true): its rules do nothing",
            FILE_NAME,
        )
        return
    if rules.enabled and not rules.rules and not rules.everything:
        yield Finding(
            Level.WARNING,
            Topic.FILES,
            "已启用，但没有规则：任何调用都无需批准",
            "is switched on but has no rules: no call needs approval",
            FILE_NAME,
        )
    manifests = {rule_key(state.name): state.manifest for state in reversed(plugins.states)}
    own = {command.tool_name for manifest in manifests.values() if manifest for command in manifest.commands}
    known = {*manifests, *(rule_key(name) for name in own if name)}
    written = _written(data.decode("utf-8"))
    for key in rules.rules:
        tool, _, word = key.partition(":")
        if FAR in tool:
            continue
        if tool not in known and tool.partition(".")[0] not in known:
            yield Finding(
                Level.NOTE,
                Topic.FILES,
                "此处没有这个工具；若由节点、客户端或 MCP 服务器提供则可忽略",
                "this tool is not there; fine if a node, a client or an MCP server brings it",
                FILE_NAME,
                line=written.get(key, (None, key))[0],
                subject=written.get(key, (None, key))[1],
            )
        elif word and _misses(manifests.get(tool), word):
            yield Finding(
                Level.NOTE,
                Topic.FILES,
                "此插件未声明这个命令；若插件接受任意命令则可忽略",
                "this plugin declares no such command; fine if it takes any",
                FILE_NAME,
                line=written.get(key, (None, key))[0],
                subject=written.get(key, (None, key))[1],
            )


def _misses(manifest: Manifest | None, word: str) -> bool:
    """Whether a plugin has several commands, and none by this word."""
    if manifest is None or len(manifest.commands) < 2:
        return False
    return word not in {
        rule_key(name)
        for command in manifest.commands
        for name in (command.id, command.command, command.tool_name)
        if name
    }


def _written(text: str) -> dict[str, tuple[int | None, str]]:
    """Line and text of each rule as people wrote it, by its key; one written with escapes is missing."""
    found: dict[str, tuple[int | None, str]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        for quoted in re.findall(r'"([^"\\]+)"', line):
            rule = re.sub(f"{SILENT_REJECT}$", "", quoted.strip(), flags=re.IGNORECASE)
            found.setdefault(rule_key(rule), (number, rule))
    return found


def _useless(chinese: str, english: str, line: int | None = None) -> Finding:
    return Finding(
        Level.ERROR,
        Topic.FILES,
        f"{chinese}；以此启动的服务器会要求批准所有工具调用",
        f"{english}; a server that starts with it wants approval for every tool call",
        FILE_NAME,
        line,
    )
