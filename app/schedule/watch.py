"""Notices changes in the folder of tasks, as far as the system tells of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

from watchfiles import awatch

log = logging.getLogger(__name__)

DEBOUNCE_MS = 200
"""Changes that follow each other are told together, at least this often."""


class FolderWatch:
    """Calls ``told`` after changes in ``folder`` itself, not below it.

    Where the system does not tell of changes ``works`` becomes false, and the caller has to look by himself.
    """

    def __init__(self, folder: Path, told: Callable[[], None]) -> None:
        self._folder = folder
        self._told = told
        self._task: asyncio.Task[None] | None = None
        self.works = True

    async def start(self) -> None:
        """Watch the folder that is there now, in place of one that was watched before."""
        await self.stop()
        self.works = True
        self._task = asyncio.create_task(self._run(), name=f"watch {self._folder.name}")

    async def stop(self) -> None:
        """Watch no longer."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _run(self) -> None:
        try:
            async with contextlib.aclosing(
                awatch(self._folder, recursive=False, watch_filter=None, debounce=DEBOUNCE_MS)
            ) as changes:
                async for _ in changes:
                    self._told()
        except (OSError, RuntimeError) as error:  # no notifications left, or a file system that has none
            log.warning("changes in %s are looked for, since the system does not tell of them: %s", self._folder, error)
        self.works = False
        self._told()
