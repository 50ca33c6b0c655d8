"""Work that outlives the turn that began it: archery calls and diary blocks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)

BACKGROUND_LIMIT = 1000
"""Most tasks at a time; what comes beyond is refused and logged."""

CLEAN_UP_SECONDS = 15.0
"""How long the stop of the server waits for tasks that were cancelled."""


class BackgroundTasks:
    """Owns tasks until they end; nothing is lost to the garbage collector and nothing outlives the server."""

    def __init__(self, limit: int = BACKGROUND_LIMIT) -> None:
        self._limit = limit
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def full(self) -> bool:
        """True when no further task is taken."""
        return len(self._tasks) >= self._limit

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> bool:
        """Run ``work`` on its own; False, with a log line, when the limit is reached."""
        if self.full():
            work.close()
            log.error("%s not started: %d background tasks are running already", name, self._limit)
            return False
        self.adopt(asyncio.create_task(work, name=name))
        return True

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Take over a task that runs already."""
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("background task %s failed", task.get_name(), exc_info=task.exception())

    @property
    def tasks(self) -> tuple[asyncio.Task[Any], ...]:
        """Those that run now."""
        return tuple(self._tasks)

    async def stop(self, grace: float) -> None:
        """Give the tasks ``grace`` seconds to end, then cancel them and wait for their clean-up, within bounds too."""
        tasks = tuple(self._tasks)
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=grace)
        for task in late:
            task.cancel()
        if late:
            _, left = await asyncio.wait(late, timeout=CLEAN_UP_SECONDS)
            for task in left:
                log.error("background task %s does not end although it was cancelled", task.get_name())
