"""Checks of ``tool_groups.json``: what is wrong with it, and names in it that nothing here has (D73)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from app.config.json_file import whole_file
from app.home.checks.findings import Finding, Installation, Level, Topic
from app.home.checks.plugins import PluginCheck
from app.mcp.groups.file import FILE_NAME, MAX_FILE_BYTES, GroupFileError, GroupTable, read_groups, shown

_WILD = frozenset("*?[:#.")
"""What stands in patterns, and in names that servers, nodes and clients bring."""


def check_tool_groups(installation: Installation, plugins: PluginCheck) -> Iterator[Finding]:
    """Findings about the file, which may be missing."""
    try:
        data = whole_file(installation.home / FILE_NAME, MAX_FILE_BYTES, GroupFileError)
        if data is None:
            return
        table, problems = read_groups(data)
    except GroupFileError as error:
        chinese, _, english = error.message.partition(" / ")
        yield _useless(chinese, english, error.line)
        return
    for problem in problems:
        chinese, _, english = problem.reason.partition(" / ")
        yield Finding(Level.WARNING, Topic.FILES, chinese, english, FILE_NAME, problem.line, subject=problem.key)
    yield from _strangers(table, plugins, data.decode("utf-8"))


def _strangers(table: GroupTable, plugins: PluginCheck, text: str) -> Iterator[Finding]:
    manifests = [state.manifest for state in plugins.states if state.manifest is not None]
    known = {state.name for state in plugins.states}
    known |= {command.tool_name for manifest in manifests for command in manifest.commands if command.tool_name}
    lines = text.split("\n")
    for group in table:
        for pattern in group.tools:
            if pattern in known or not _WILD.isdisjoint(pattern):
                continue
            written = json.dumps(pattern, ensure_ascii=False)
            yield Finding(
                Level.NOTE,
                Topic.FILES,
                f"组 {group.name} 列出的这个工具不在此处；若由节点或客户端提供则可忽略",
                f"this tool of group {group.name} is not there; fine if a node or a client brings it",
                FILE_NAME,
                next((number for number, line in enumerate(lines, 1) if written in line), None),
                subject=shown(pattern),
            )


def _useless(chinese: str, english: str, line: int | None = None) -> Finding:
    return Finding(
        Level.ERROR,
        Topic.FILES,
        f"{chinese}；其中的工具组都不存在",
        f"{english}; there are none of its groups",
        FILE_NAME,
        line,
    )
