"""Keeps the index equal to the files: looks, reads, writes, in slices (memory.md 3.2, 11.2, 11.6; D80, D88)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from app.memory.index.changes import changed_folders, differences, no_root, read_notes, settled_time
from app.memory.index.database import IndexBrokenError, IndexUnavailableError
from app.memory.index.known_files import known_below, known_files, use_reading_rules
from app.memory.index.memory_index import MemoryIndex
from app.memory.index.note_files import Found, NoteRules, look_at

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.2
"""A file that changed while it was read is read again after so long."""

RETRY_SECONDS = 15.0

WIPE_PAUSES = 3.0
"""After a part of wiping out what was deleted there is nothing of it for so many times as long."""

MAX_URGENT = 20_000
"""Of more changed paths at a time all files are looked at instead."""

MAX_FAULTS = 100
"""Of more folders that cannot be read the first are told."""


@dataclass(frozen=True, slots=True)
class SyncPace:
    """What the settings say of the speed; asked at each use.

    ``share`` of the time may be spent with notes in bulk.
    """

    reconcile_seconds: float = 600.0
    batch: int = 50
    share: float = 0.5
    full_scan: bool = True


@dataclass(slots=True)
class SyncState:
    """How far the syncing is (11.31). ``scanned_at`` and ``stale_since`` are seconds since the epoch.

    ``scanned_at`` is 0 before the first scan is done; ``stale_since`` says since when something waits, 0 while nothing
    does.
    """

    pending: int = 0
    stale_since: float = 0.0
    scanned_at: float = 0.0
    scan_seconds: float = 0.0
    indexed: int = 0
    commits: int = 0
    trouble: str = ""
    faults: dict[str, str] = field(default_factory=dict)


class Sync:
    """Syncs one folder of notebooks with an index. One task does all of it; ``look``, ``glance`` only wake it."""

    def __init__(
        self,
        root: Callable[[], Path],
        index: MemoryIndex,
        rules: Callable[[], NoteRules],
        pace: Callable[[], SyncPace],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root = root
        self._index = index
        self._rules = rules
        self._pace = pace
        self._clock = clock
        self.state = SyncState()
        self._urgent: dict[str, None] = {}
        self._bulk: deque[str] = deque()
        self._again: dict[str, float] = {}
        self._folders: dict[str, int] = {}
        self._glance = False
        self._hurried = False
        self._scan = True
        self._woken = asyncio.Event()
        self._idle: list[asyncio.Future[None]] = []
        self._waiting_for_fresh: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._working = asyncio.Lock()
        self._last_scan = 0.0
        self._wipe_at = 0.0
        self._pause = 0.0
        self._used_rules: NoteRules | None = None
        index.database.damage(self._woken.set)

    async def start(self) -> None:
        """Begin to sync in a task of its own."""
        if not self._pace().full_scan:  # KNOWLEDGEBASE_FULL_SCAN_ON_STARTUP
            self._scan = False
            self._last_scan = asyncio.get_running_loop().time()
        self._task = asyncio.create_task(self._run(), name="memory sync")

    def health(self) -> str:
        """What keeps the index from being written, in one line."""
        task = self._task
        if task is not None and task.done() and not task.cancelled():
            return f"the syncing of memory has ended: {task.exception()}"
        return self.state.trouble

    async def stop(self) -> None:
        """End the task; what is not done yet is found at the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
        self._no_hurry()
        self._release(None)

    # What others tell.

    def look(self, paths: Iterable[str]) -> None:
        """These files, below the root, may have changed: look at them now."""
        for path in paths:
            self._urgent[path] = None
            self._hurried = True
        if self._urgent:
            self.state.stale_since = self.state.stale_since or self._clock()  # also while nothing can be written
        if len(self._urgent) > MAX_URGENT:
            self._urgent.clear()
            self._scan = True
        self._woken.set()

    def glance(self) -> None:
        """Something may have been written by a tool: look at folders that have changed, now."""
        self._glance = True
        self._hurried = True
        self._woken.set()

    def rescan(self) -> None:
        """Look at all files soon."""
        self._scan = True
        self._woken.set()

    async def fresh(self, seconds: float) -> None:
        """Wait, for so long at most, until what others told of is in the index. Raises nothing."""
        if not self._hurried or self._task is None or self._task.done():
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_for_fresh.append(waiting)
        await asyncio.wait([waiting], timeout=seconds)

    async def settled(self) -> None:
        """Wait until all that is known to have changed is in the index; raises IndexUnavailableError when it cannot."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(waiting)
        self._woken.set()
        await waiting

    async def caught_up(self) -> None:
        """Look at all files now and wait until the index has them; also without the task, for commands.

        Raises IndexBrokenError or IndexUnavailableError.
        """
        self._scan = True
        if self._task is not None:
            await self.settled()
            return
        while True:
            if await self._step():
                continue
            if not self._again:
                return
            await self._wait(SETTLE_SECONDS)

    async def begin_anew(self, why: str) -> None:
        """Begin with an empty index; ``caught_up`` fills it."""
        async with self._working:
            self._forget()
            await self._index.renew(why)
        self._woken.set()

    def beside(self, index: MemoryIndex) -> Sync:
        """What brings another index of the same notes up to date."""
        return Sync(self._root, index, self._rules, self._pace, clock=self._clock)

    async def go_on_with(self, whole: Path) -> None:
        """Take an index over that was made beside this one, and look at what has changed since."""
        async with self._working:
            await self._index.take_over(whole)
            self._forget()
        self._woken.set()

    @property
    def is_running(self) -> bool:
        """Whether there is a task that syncs."""
        return self._task is not None

    # The task.

    async def _run(self) -> None:
        while True:
            try:
                self._pause = 0.0
                going_on = await self._step()
                if not (self._glance or self._urgent):
                    self._no_hurry()
                if going_on:
                    if self._pause > 0:
                        await self._wait(self._pause)
                    continue
            except IndexBrokenError as error:
                await self._heal(error.message)
                continue
            except (IndexUnavailableError, OSError) as error:
                self._troubled(error)
                await self._wait(RETRY_SECONDS)
                continue
            if not self._again:
                self._release(None)
            await self._wait(self._until_next())

    def _forget(self) -> None:
        self._bulk.clear()
        self._folders.clear()
        self._used_rules = None
        self._scan = True

    async def _heal(self, why: str) -> None:
        try:
            await self.begin_anew(why)
        except (IndexUnavailableError, IndexBrokenError, OSError) as error:
            self._troubled(error)
            await self._wait(RETRY_SECONDS)

    def _troubled(self, error: Exception) -> None:
        trouble = getattr(error, "message", "") or str(error)
        if trouble != self.state.trouble:
            log.warning("the memory index cannot be brought up to date (%s); trying again", trouble)
        self.state.trouble = trouble
        self._no_hurry()
        self._release(error)

    def _no_hurry(self) -> None:
        self._hurried = False
        waiting, self._waiting_for_fresh = self._waiting_for_fresh, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _release(self, error: Exception | None) -> None:
        waiting, self._idle = self._idle, []
        for future in waiting:
            if not future.done():
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()

    def _until_next(self) -> float:
        loop_time = asyncio.get_running_loop().time()
        due = self._last_scan + self._pace().reconcile_seconds
        wipe = [self._wipe_at] if self._index.has_old_text else []
        return min([due, *wipe, *self._again.values()]) - loop_time

    async def _step(self) -> bool:
        """Do the most urgent piece of work; false when there is none."""
        async with self._working:
            if not self._index.database.is_open:
                await self._index.open()
            if self._index.database.broken:
                raise IndexBrokenError(self._index.database.broken)
            now = asyncio.get_running_loop().time()
            rules, pace = self._rules(), self._pace()
            await self._use(rules)
            for path in [path for path, due in self._again.items() if due <= now]:
                del self._again[path]
                self._urgent[path] = None
            if self._glance:
                self._glance = False
                await self._look_at_changed_folders(rules)
            elif self._urgent:
                paths = list(self._urgent)[: pace.batch]
                for path in paths:
                    del self._urgent[path]
                self.look(await self._bring(paths, rules, self._urgent_back))
            elif self._scan or now - self._last_scan >= pace.reconcile_seconds:
                await self._look_at_all(rules)
            elif self._index.has_old_text and now >= self._wipe_at:
                begun = time.perf_counter()
                await self._index.wipe()
                self._wipe_at = now + (time.perf_counter() - begun) * WIPE_PAUSES
            elif self._bulk:
                begun = time.perf_counter()
                paths = [self._bulk.popleft() for _ in range(min(pace.batch, len(self._bulk)))]
                self._bulk.extendleft(reversed(await self._bring(paths, rules, self._bulk.extend)))
                self._pause = (time.perf_counter() - begun) * (1 / pace.share - 1)
            else:
                self._waits(len(self._again))
                return False
            self._waits(len(self._urgent) + len(self._bulk) + len(self._again))
            self.state.trouble = ""
            return True

    def _waits(self, notes: int) -> None:
        self.state.pending = notes
        self.state.stale_since = (self.state.stale_since or self._clock()) if notes else 0.0

    def _urgent_back(self, paths: Iterable[str]) -> None:
        self._urgent.update(dict.fromkeys(paths))

    async def _use(self, rules: NoteRules) -> None:
        """Notice other rules, of this run or of the one before."""
        if rules == self._used_rules:
            return
        text = rules.reading()
        if await self._index.database.write(lambda connection: use_reading_rules(connection, text)):
            log.info("notes are read by other rules now: all of them are read anew")
            self._scan = True
        self._scan = self._scan or self._used_rules is not None
        self._used_rules = rules

    async def _look_at_all(self, rules: NoteRules) -> None:
        begun = time.perf_counter()
        root = self._root()
        known = await self._index.database.read(lambda connection: known_below(connection, ""))
        found = await asyncio.to_thread(look_at, root, rules)
        self._told_faults(found)
        if "" in found.faults and not found.files:
            raise no_root(root)
        self._folders = {folder: settled_time(changed, self._now_ns()) for folder, changed in found.folders.items()}
        self._bulk = deque(await asyncio.to_thread(differences, found, known))
        self._scan = False
        self._last_scan = asyncio.get_running_loop().time()
        self.state.scanned_at = self._clock()
        self.state.scan_seconds = time.perf_counter() - begun

    async def _look_at_changed_folders(self, rules: NoteRules) -> None:
        """Tools write files by renaming them, so the folders of what they wrote have changed."""
        root = self._root()
        changed, gone = await asyncio.to_thread(changed_folders, root, dict(self._folders))
        waiting = deque(changed)
        while waiting:
            folder = waiting.popleft()
            found = await asyncio.to_thread(look_at, root, rules, folder, deep=False)
            known = await self._index.database.read(partial(known_below, folder=folder, deep=False))
            self.look(differences(found, known))
            for name, moment in found.folders.items():
                self._folders[name] = settled_time(moment, self._now_ns())
            waiting.extend(below for below in found.below if below not in self._folders)
        for folder in gone:
            self._folders.pop(folder, None)
            known = await self._index.database.read(partial(known_below, folder=folder))
            self.look(known)

    async def _bring(self, paths: list[str], rules: NoteRules, back: Callable[[Iterable[str]], None]) -> list[str]:
        """Read these files and write what has changed; the paths that were not read, because there is enough already.

        When it cannot be written now, all of them go ``back``: nothing is lost (11.2).
        """
        try:
            root = self._root()
            known = await self._index.database.read(lambda connection: known_files(connection, paths))
            read = await asyncio.to_thread(read_notes, root, paths, known, rules, self._now_ns())
            if read.notes or read.gone or read.touched:
                await self._index.write(read.notes, removed=read.gone, touched=read.touched)
                self.state.commits += 1
                self.state.indexed += len(read.notes)
        except (IndexUnavailableError, OSError):
            back(paths)
            raise
        due = asyncio.get_running_loop().time() + SETTLE_SECONDS
        self._again.update(dict.fromkeys(read.again, due))
        return read.left

    def _now_ns(self) -> int:
        return int(self._clock() * 1e9)

    def _told_faults(self, found: Found) -> None:
        faults = dict(list(found.faults.items())[:MAX_FAULTS])
        for place, why in faults.items():
            if self.state.faults.get(place) != why:
                log.warning("diaries: %s cannot be read: %s", place or self._root(), why)
        self.state.faults = faults
