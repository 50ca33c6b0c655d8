"""``{{Workspace::alias[/folder][::depth]}}`` in system prompts: a directory tree, put in as data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.extend import Found, PluginContext, PromptContext, Trust

from .tree import DEPTH_LIMIT, Tree

ENTRIES_LIMIT = 100_000


class WorkspaceSource:
    """The placeholder source. Folders are named by alias only (B17)."""

    name = "workspace"
    pattern = re.compile(r"\{\{Workspace::([^{}\r\n]+?)(?:::(\d{1,9}))?\}\}")
    roles = frozenset({"system"})
    trust = Trust.DATA
    after_detectors = False

    def __init__(self, context: PluginContext) -> None:
        self._home = context.home
        self._warn = context.log.warning
        self._aliases = read_aliases(context)
        self._depth = _number(context.config.get("WORKSPACE_DEPTH"), 3, DEPTH_LIMIT)
        self._entries = _number(context.config.get("WORKSPACE_MAX_ENTRIES"), 1000, ENTRIES_LIMIT)

    def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        """The text for each placeholder; a plain method, since it reads folders."""
        return {item.text: self._text(*item.groups) for item in found}

    def _text(self, target: str, depth: str) -> str:
        folder = self._folder(target)
        if folder is None:
            return f"[Error: Workspace alias or path '{target}' is invalid or not found.]"
        levels = min(int(depth), DEPTH_LIMIT) if depth else self._depth
        lines = Tree(folder, levels, self._entries, self._warn).lines()
        return "\n".join(("", f"[Workspace: {target} ({folder})]", *lines))

    def _folder(self, target: str) -> Path | None:
        """The folder that is meant: the alias's, or one below it after all symbolic links."""
        alias, _, below = target.partition("/")
        written = self._aliases.get(alias)
        if written is None or "\0" in target or "\\" in below:
            return None
        try:
            root = (self._home / written).resolve()
            folder = (root / below.strip("/")).resolve()
            inside = folder.is_relative_to(root) and folder.is_dir()
        except (OSError, ValueError, RuntimeError):
            return None
        return folder if inside else None


class WorkspaceInjector:
    """The plugin: one placeholder source."""

    def __init__(self, context: PluginContext) -> None:
        self._source = WorkspaceSource(context)

    def placeholders(self) -> list[WorkspaceSource]:
        """Its source."""
        return [self._source]


def read_aliases(context: PluginContext) -> dict[str, str]:
    """The aliases of the setting; what cannot be used is told in the log and left out."""
    written = context.config.get("WORKSPACE_ALIASES", "").strip()
    if not written:
        return {}
    try:
        aliases = json.loads(written)
    except (ValueError, RecursionError):
        aliases = None
    if not isinstance(aliases, dict):
        context.log.warning("WORKSPACE_ALIASES is no JSON object; no workspace is known")
        return {}
    usable = {name: path for name, path in aliases.items() if isinstance(path, str) and path and "\0" not in path}
    for name in aliases.keys() - usable.keys():
        context.log.warning("WORKSPACE_ALIASES: %r has no folder; left out", name)
    return usable


def _number(written: str | None, default: int, most: int) -> int:
    return min(max(int(written), 1), most) if written else default


def create(context: PluginContext) -> WorkspaceInjector:
    """The plugin."""
    return WorkspaceInjector(context)
