"""Builds what watches the files of a home and has them read anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from app.config.snapshot import CONFIG_FILE
from app.plugins.discovery import PluginSet
from app.prompt.agents import AgentBook
from app.reload.footprint import PLUGINS
from app.reload.watcher import Pace, Watcher
from app.services.prompts import AGENT_MAP


def home_watcher(
    home: Path,
    pace: Pace | None,
    agents: AgentBook,
    found_plugins: Callable[[], PluginSet],
    reload: Callable[[Iterable[str]], Awaitable[object]],
) -> Watcher:
    """Calls ``reload`` with the files that changed, after those that somebody has to read at once were read."""

    async def changed(files: frozenset[Path]) -> None:
        others = {path.name for path in files if path.parent == home} - {CONFIG_FILE}
        if AGENT_MAP in others:
            await asyncio.to_thread(agents.load)  # tells at once what is wrong with it
        await reload(others)

    def code_folders() -> tuple[Path, ...]:
        # Not those of the program: while it is upgraded its plugins fit neither the old version nor the new one.
        root = (home / PLUGINS).resolve()
        found = found_plugins().plugins
        return tuple(plugin.folder for plugin in found if plugin.runs_in_process and plugin.folder.parent == root)

    return Watcher(home, changed, code_folders, pace=pace)
