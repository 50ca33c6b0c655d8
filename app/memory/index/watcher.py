"""Notices that people and programs changed notes, and tells when they have settled (memory.md 3.2, 9.3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

from watchfiles import awatch

log = logging.getLogger(__name__)

LOOK_OFTEN_SECONDS = 5.0
"""Without notifications of the system folders are looked at so often."""

LONGEST_WINDOWS = 5
"""Who writes without a pause is read at last after so many windows."""

TRY_AGAIN_SECONDS = 60.0

Notifications = Callable[[Path], AsyncGenerator[set[str], None]]
"""Tells of paths below a folder on which something happened; OSError when the system has no more of it."""


async def system_notifications(root: Path) -> AsyncGenerator[set[str], None]:
    """The system's own notifications. Raises OSError."""
    changes = awatch(root, watch_filter=None, debounce=400, step=100, ignore_permission_denied=True)
    try:
        async with aclosing(changes):
            async for group in changes:
                yield {path for _, path in group}
    except RuntimeError as error:  # what watchfiles raises when the system refuses for a reason of its own
        raise OSError(str(error)) from error


class NoteWatcher:
    """Calls ``changed`` with paths below the root when nothing has happened for ``window()`` seconds, or ``batch()``
    paths have come together; ``glance`` where it is not known what has changed.
    """

    def __init__(
        self,
        root: Callable[[], Path],
        changed: Callable[[list[str]], None],
        glance: Callable[[], None],
        *,
        window: Callable[[], float],
        batch: Callable[[], int],
        notifications: Notifications = system_notifications,
    ) -> None:
        self._root = root
        self._changed = changed
        self._glance = glance
        self._window = window
        self._batch = batch
        self._notifications = notifications
        self._paths: set[str] = set()
        self._first = 0.0
        self._last = 0.0
        self._woken = asyncio.Event()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._told = False

    async def start(self) -> None:
        """Begin to listen."""
        self._tasks = (
            asyncio.create_task(self._listen(), name="memory notifications"),
            asyncio.create_task(self._gather(), name="memory notices"),
        )

    async def stop(self) -> None:
        """End listening."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = ()

    async def _listen(self) -> None:
        while True:
            root = self._root()
            try:
                async with aclosing(self._notifications(root)) as notifications:
                    async for paths in notifications:
                        self._heard(root, paths)
                        if self._root() != root:
                            break
                continue
            except OSError as error:
                if not self._told:
                    self._told = True
                    log.warning(
                        "the system gives no notifications of changed notes (%s); looking every %g s instead",
                        error.strerror or error,
                        LOOK_OFTEN_SECONDS,
                    )
            for _ in range(round(TRY_AGAIN_SECONDS / LOOK_OFTEN_SECONDS)):
                await asyncio.sleep(LOOK_OFTEN_SECONDS)
                self._glance()

    def _heard(self, root: Path, paths: set[str]) -> None:
        now = asyncio.get_running_loop().time()
        for path in paths:
            try:
                self._paths.add(Path(path).relative_to(root).as_posix())
            except ValueError:
                continue
        self._last = now
        if not self._woken.is_set():
            self._first = now
            self._woken.set()

    async def _gather(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._woken.wait()
            window = self._window()
            while len(self._paths) < self._batch():
                left = min(self._last + window, self._first + LONGEST_WINDOWS * window) - loop.time()
                if left <= 0:
                    break
                await asyncio.sleep(min(left, 0.25))
            paths, self._paths = self._paths, set()
            self._woken.clear()
            self._changed(sorted(paths))
            self._glance()  # folders that came or went as a whole
