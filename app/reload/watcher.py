"""Notices that files of the home changed, waits until they have settled, and has them reloaded.

What counts is the comparison of two footprints. Notifications of the system only make it quicker: where there are none
(network mounts, some containers) or no more to be had (the limit of inotify), looking now and then is enough.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from watchfiles import awatch

from app.reload.footprint import MAX_PLUGIN_FOLDERS, Footprint, look, matters

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """Times in seconds.

    ``look_every`` and ``look_alone`` lie between two looks with and without notifications, and at least ``rest`` times
    as long as a look takes. A change is settled when nothing more has changed for ``settle``, or ``settle_shrunk`` when
    a file got smaller or vanished, and in any case after ``longest``.
    """

    look_every: float = 5.0
    look_alone: float = 1.0
    rest: float = 20.0
    settle: float = 0.3
    settle_shrunk: float = 2.0
    longest: float = 10.0


Notifications = Callable[[Iterable[Path]], AsyncGenerator[Iterable[Path], None]]
"""Tells of paths in these folders on which something happened; OSError when the system has no more of it."""


async def system_notifications(folders: Iterable[Path]) -> AsyncGenerator[Iterable[Path], None]:
    """The system's own notifications; folders that may not be read are left out.

    Raises FileNotFoundError or PermissionError for a folder that has changed meanwhile, another OSError when the system
    has no more watches to give.
    """
    changes = awatch(
        *(folder for folder in sorted(folders) if os.access(folder, os.R_OK)),
        watch_filter=None,
        debounce=400,
        step=100,
        recursive=False,  # a plugin's node_modules would use up what the system allows
        ignore_permission_denied=False,  # true would also hide that the system has no more watches
    )
    try:
        async with aclosing(changes):
            async for group in changes:
                yield [Path(path) for _, path in group]
    except RuntimeError as error:  # what watchfiles raises when the system refuses for a reason of its own
        raise OSError(str(error)) from error


class Watcher:
    """A ``Lifecycle``: watches ``home`` and calls ``changed`` with the files that did, one call at a time.

    ``code_folders`` gives the folders of the in-process plugins of now.
    """

    def __init__(
        self,
        home: Path,
        changed: Callable[[frozenset[Path]], Awaitable[object]],
        code_folders: Callable[[], tuple[Path, ...]],
        *,
        pace: Pace | None = None,
        notifications: Notifications = system_notifications,
    ) -> None:
        self._home = home
        self._changed = changed
        self._code_folders = code_folders
        self._pace = pace or Pace()
        self._notifications = notifications
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._notified = True
        self._told_cut = False

    async def start(self) -> None:
        """Begin to watch; returns when the first look was taken."""
        first = await self._look()
        self._task = asyncio.create_task(self._watch(first), name="watcher")

    def health(self) -> str:
        """What ended the watching, if something did."""
        task = self._task
        if task is None or not task.done() or task.cancelled():
            return ""
        return f"live reload has ended: {task.exception()}"

    async def stop(self) -> None:
        """End the watching; a reload that runs is not this part's to end."""
        await _ended(self._task)

    async def _look(self) -> Footprint:
        now = await asyncio.to_thread(look, self._home, self._code_folders())
        if now.cut and not self._told_cut:
            self._told_cut = True
            log.warning("Plugin/ has more than %d folders; changes in the others are not noticed", MAX_PLUGIN_FOLDERS)
        return now

    async def _watch(self, seen: Footprint) -> None:
        loop = asyncio.get_running_loop()
        listening: asyncio.Task[None] | None = None
        folders: Mapping[Path, int] = {}
        told = False  # what happened between the reading at the start and the first look is found by reading once more
        try:
            while True:
                if self._notified and (seen.folders != folders or listening is None or listening.done()):
                    await _ended(listening)
                    folders = seen.folders
                    listening = asyncio.create_task(self._listen(folders), name="watcher notifications")
                    await asyncio.sleep(0)  # it listens before the next look, so that nothing falls between the two
                begun = loop.time()
                try:
                    now = await self._look()
                    changed = now.changed_since(seen)
                    if changed:
                        now = await self._settled(now, seen)
                        changed |= now.changed_since(seen)
                    if changed or not told:
                        await self._changed(changed)
                        told = True
                except (OSError, RuntimeError):  # no thread or no descriptor to be had: this passes
                    log.exception("changed files could not be read; trying again in %g s", self._pace.look_every)
                    await asyncio.sleep(self._pace.look_every)
                    continue
                seen = now
                if not changed:
                    await self._rest(loop.time() - begun)
        finally:
            await _ended(listening)

    async def _rest(self, taken: float) -> None:
        """Wait for a notification, or for the time of the next look."""
        pace = self._pace
        seconds = max(pace.look_every if self._notified else pace.look_alone, pace.rest * taken)
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
        else:
            await asyncio.sleep(taken)  # where looking takes long, not all the time is spent with it
        self._wake.clear()

    async def _settled(self, now: Footprint, before: Footprint) -> Footprint:
        """How things lie when nothing has changed for a while, or when that takes too long."""
        pace, loop = self._pace, asyncio.get_running_loop()
        begun = since = loop.time()
        while True:
            await asyncio.sleep(pace.settle)
            again = await self._look()
            moment = loop.time()
            if again.changed_since(now):
                now, since = again, moment
            patience = pace.settle_shrunk if now.shrunk_since(before) else pace.settle
            if moment - since >= patience or moment - begun >= pace.longest:
                return now

    async def _listen(self, folders: Iterable[Path]) -> None:
        try:
            async with aclosing(self._notifications(folders)) as notifications:
                async for paths in notifications:
                    if any(matters(path, self._home) for path in paths):
                        self._wake.set()
        except (FileNotFoundError, PermissionError):
            return  # a folder has changed since the last look; the next one finds out
        except OSError as error:
            self._notified = False
            self._wake.set()
            log.warning(
                "the system gives no notifications of changed files (%s); looking every %g s instead",
                error.strerror or error,
                self._pace.look_alone,
            )


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and task.exception() is not None:
            log.error("watching for changed files has failed", exc_info=task.exception())
