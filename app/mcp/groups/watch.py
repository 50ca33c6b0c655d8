"""Looks whether groups are others than before, for those who want to be told."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""The file of groups and the states of servers change by themselves; somebody has to look."""


class GroupWatch:
    """Calls ``look`` every ``seconds`` while it runs; ``look`` is quick and tells others itself."""

    def __init__(self, look: Callable[[], None], seconds: float = LOOK_SECONDS) -> None:
        self._look = look
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._looking())

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def health(self) -> str:
        """Empty while it looks."""
        return "" if self._task is None or not self._task.done() else "tool groups are not looked at any more"

    async def _looking(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(self._seconds)
