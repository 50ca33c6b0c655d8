"""Checks of ``mcp_servers.json``: entries that are lost, keys without a meaning, what is missing (P84, P95)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from app.config.json_file import whole_file
from app.home.checks.findings import Finding, Installation, Level, Topic
from app.mcp.client.environment import server_environment
from app.mcp.client.server_entry import ServerKind
from app.mcp.client.servers_file import FILE_NAME, MAX_FILE_BYTES, ServersFileError, read_servers


def check_mcp_servers(installation: Installation) -> Iterator[Finding]:
    """Findings about the file, which may be missing. No server is started: ``vcp mcp-check`` does that."""
    try:
        data = whole_file(installation.home / FILE_NAME, MAX_FILE_BYTES, ServersFileError)
        if data is None:
            return
        table, problems = read_servers(data, installation.config.environ, FILE_NAME)
    except ServersFileError as error:
        chinese, _, english = error.message.partition(" / ")
        yield _told(Level.ERROR, chinese, english, error.line)
        return
    for problem in problems:
        chinese, _, english = problem.reason.partition(" / ")
        level = Level.ERROR if problem.key in table.lost else Level.WARNING
        yield _told(level, chinese, english or chinese, problem.line, problem.key)
    for entry in table.entries.values():
        if entry.kind is not ServerKind.STDIO or entry.disabled:
            continue
        environment = server_environment(entry, installation.config.environ, lambda name: False)
        folder = installation.home / entry.cwd
        if not folder.is_dir():
            yield _told(Level.WARNING, "cwd 不是目录", "its cwd is no folder", subject=entry.name)
        elif shutil.which(entry.command, path=environment.get("PATH", os.defpath)) is None and not (
            "/" in entry.command and (folder / entry.command).is_file()
        ):
            told = f"找不到命令 {entry.command}", f"there is no command {entry.command}"
            yield _told(Level.WARNING, *told, subject=entry.name)


def _told(level: Level, chinese: str, english: str, line: int | None = None, subject: str = "") -> Finding:
    return Finding(level, Topic.FILES, chinese, english, FILE_NAME, line, subject=subject)
