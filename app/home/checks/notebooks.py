"""Findings about ``notebook_permissions.json`` (memory.md 11.23)."""

from __future__ import annotations

from collections.abc import Iterator

from app.home.checks.findings import Finding, Installation, Level, Topic
from app.memory.diaries.permissions import DEFAULT, PERMISSIONS_FILE, load_permissions


def check_notebooks(installation: Installation) -> Iterator[Finding]:
    """An error for a file that cannot be used and so opens every notebook; a note for notebooks that are not there."""
    root = installation.config.notebooks
    try:
        rules = load_permissions(installation.home).rules
    except (OSError, ValueError, RecursionError) as error:
        yield Finding(
            Level.ERROR,
            Topic.FILES,
            f"无法使用，所有日记本对所有 Agent 开放：{error}",
            f"cannot be used, so every notebook is open to all agents: {error}",
            PERMISSIONS_FILE,
        )
        return
    for name in rules:
        if name != DEFAULT and ("\0" in name or not (root / name).is_dir()):
            yield Finding(
                Level.NOTE, Topic.FILES, "没有这个日记本", "there is no such notebook", PERMISSIONS_FILE, subject=name
            )
