"""Builds the index of notes and what keeps it equal to the files (D88: only where the home is owned)."""

from __future__ import annotations

import asyncio
import importlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.config.settings import Settings
from app.errors import NotFoundError, both
from app.extend import CallFinished, DiaryWritten, Json, NotesChanged, NotesIndexed
from app.observe.bus import EventBus
from app.services.in_force import InForce

if TYPE_CHECKING:
    from app.memory.index.memory_index import MemoryIndex
    from app.memory.index.note_files import NoteRules
    from app.memory.index.sync import Sync, SyncPace
    from app.memory.index.watcher import NoteWatcher

DIARY_TOOLS = frozenset(
    {"DailyNote", "DailyNoteWrite", "DailyNoteEditor", "DailyNoteManager", "ThoughtClusterManager", "VCPForum"}
)
"""Tools that write notes: what they wrote is looked at when their call is over (D80)."""

STOP_SECONDS = 5.0

FRESH_SECONDS = 1.0
"""How long a question waits at most for what was written a moment ago; it is a few milliseconds mostly."""

MAX_FAULTY = 100
"""Most unreadable notes that are listed."""


@dataclass(frozen=True, slots=True)
class NotesPlace:
    """Where notes lie in a home, and in which folder of it what is derived from them."""

    root: Callable[[InForce], Path]
    derived: Path


DIARIES = NotesPlace(lambda in_force: in_force.notebooks, Path(".vcp") / "memory")


class IndexService:
    """A ``Lifecycle``: the index of a home, open and kept equal to the files while it runs.

    ``index`` is None before the start, after the stop, and while ``Memory=false``.
    """

    def __init__(self, in_force: InForce, events: EventBus, place: NotesPlace = DIARIES) -> None:
        self._in_force = in_force
        self.place = place
        self._parts: tuple[MemoryIndex, Sync, NoteWatcher] | None = None
        self._events = events
        events.listen(self._heard, CallFinished, DiaryWritten, NotesChanged)

    @property
    def index(self) -> MemoryIndex | None:
        """The index, while it is open."""
        return None if self._parts is None else self._parts[0]

    @property
    def sync(self) -> Sync | None:
        """What keeps it up to date."""
        return None if self._parts is None else self._parts[1]

    async def start(self) -> None:
        """Open the index and begin to sync; nothing waits for that.

        The dictionary of words holds up everything while it is loaded (0.2 s). Where there are notebooks that is done
        now, before anybody is served, and else with the first note.
        """
        if not (self._in_force.owns_home and self._in_force.settings.memory):
            return
        if await asyncio.to_thread(_has_notebooks, self.place.root(self._in_force)):
            await asyncio.to_thread(importlib.import_module, "app.memory.index.words")
        index, sync = home_index(self._in_force, self.place)
        if self.place is DIARIES:
            index.noticed = lambda paths, listed: self._events.publish(NotesIndexed(paths, listed))
        from app.memory.index.watcher import NoteWatcher

        watcher = NoteWatcher(
            lambda: self.place.root(self._in_force),
            sync.look,
            sync.glance,
            window=lambda: self._in_force.settings.knowledgebase_batch_window_ms / 1000,
            batch=lambda: self._in_force.settings.knowledgebase_max_batch_size,
        )
        self._parts = (index, sync, watcher)
        await sync.start()
        await watcher.start()

    def health(self) -> str:
        """What keeps the index from being brought up to date."""
        return "" if self._parts is None else self._parts[1].health()

    async def fresh(self) -> None:
        """Wait until what our own tools wrote is in the index, for ``FRESH_SECONDS`` at most."""
        if self._parts is not None:
            await self._parts[1].fresh(FRESH_SECONDS)

    async def stop(self) -> None:
        """End the syncing and close the file."""
        if self._parts is None:
            return
        (index, sync, watcher), self._parts = self._parts, None
        await watcher.stop()
        await sync.stop()
        async with asyncio.timeout(STOP_SECONDS):
            await index.stop()

    async def status(self) -> dict[str, Json]:
        """How the index is (11.31)."""
        index, sync = self._open_parts()
        return await index_status(index, sync)

    async def check(self, *, repair: bool) -> dict[str, Json]:
        """See ``check_index``."""
        index, sync = self._open_parts()
        return await check_index(index, sync, repair=repair)

    async def rebuild(self) -> dict[str, Json]:
        """Make the index anew from the files, and tell how it is then."""
        index, sync = self._open_parts()
        await rebuild_index(index, sync, "a person asked for it")
        return await index_status(index, sync)

    def _open_parts(self) -> tuple[MemoryIndex, Sync]:
        if self._parts is None:
            raise NotFoundError(both("记忆功能未启用（Memory=false）", "memory is switched off (Memory=false)"))
        return self._parts[:2]

    def _heard(self, event: object) -> None:
        if self._parts is None:
            return
        sync = self._parts[1]
        if isinstance(event, NotesChanged):
            sync.look(event.paths)
        elif isinstance(event, DiaryWritten) or (isinstance(event, CallFinished) and event.call.tool in DIARY_TOOLS):
            sync.glance()


def home_index(in_force: InForce, place: NotesPlace = DIARIES) -> tuple[MemoryIndex, Sync]:
    """The index of a home, not open yet, and what brings it up to date."""
    from app.memory.index.memory_index import INDEX_FILE, MemoryIndex
    from app.memory.index.sync import Sync

    index = MemoryIndex(in_force.home / place.derived / INDEX_FILE.name)
    sync = Sync(
        lambda: place.root(in_force),
        index,
        in_force.following(note_rules),
        in_force.following(sync_pace),
        clock=time.time,
    )
    return index, sync


def _has_notebooks(root: Path) -> bool:
    try:
        with os.scandir(root) as entries:
            return any(entry.is_dir(follow_symlinks=False) for entry in entries)
    except OSError:
        return False


def note_rules(settings: Settings) -> NoteRules:
    """Which notes are indexed."""
    from app.memory.index.note_files import NoteRules

    return NoteRules(
        folders=settings.ignore_folders,
        prefixes=settings.ignore_prefixes,
        suffixes=settings.ignore_suffixes,
        tag_blacklist=settings.tag_blacklist,
        tag_blacklist_super=settings.tag_blacklist_super,
    )


def sync_pace(settings: Settings) -> SyncPace:
    """How quickly and how often."""
    from app.memory.index.sync import SyncPace

    return SyncPace(
        reconcile_seconds=settings.memory_reconcile_minutes * 60,
        batch=settings.knowledgebase_max_batch_size,
        share=settings.memory_background_share,
        full_scan=settings.knowledgebase_full_scan_on_startup,
    )


async def index_status(index: MemoryIndex, sync: Sync) -> dict[str, Json]:
    """How the index is, as JSON."""
    from app.memory.index.reading import faulty_notes

    notebooks = index.notebooks()
    state = sync.state
    faulty = await index.database.read(lambda connection: faulty_notes(connection, MAX_FAULTY))
    return {
        "enabled": True,
        "notes": sum(book.notes for book in notebooks.values()),
        "chunks": sum(book.chunks for book in notebooks.values()),
        "notebooks": {name: {"notes": book.notes, "chunks": book.chunks} for name, book in sorted(notebooks.items())},
        "pending": state.pending,
        "scannedAt": state.scanned_at or None,
        "scanSeconds": round(state.scan_seconds, 3),
        "indexed": state.indexed,
        "bytes": await asyncio.to_thread(index.database.size),
        "trouble": state.trouble,
        "unreadable": {**dict(state.faults), **{note.path: note.fault for note in faulty}},
    }


async def check_index(index: MemoryIndex, sync: Sync, *, repair: bool) -> dict[str, Json]:
    """Whether the tables agree with each other and with the files (``doctor``, 11.3); what is wrong is made anew.

    Files that were not in the index yet are no fault: they are indexed first. Without ``repair`` a damaged index stays
    as it is.
    """
    from app.memory.index.database import IndexBrokenError
    from app.memory.index.doctor import faults_of, words_are_whole

    before = sync.state.indexed
    try:
        await sync.caught_up()
        faults = await index.database.read(faults_of, heals=False)
        if not faults:
            await index.database.write(words_are_whole)
    except IndexBrokenError as error:
        faults = [error.message]
    if faults and repair:
        await rebuild_index(index, sync, "; ".join(faults))
    told: dict[str, Json] = {"faults": list(faults), "repaired": bool(faults and repair)}
    return told | {"late": sync.state.indexed - before} | await index_status(index, sync)


async def rebuild_index(index: MemoryIndex, sync: Sync, why: str) -> None:
    """Make the index anew from the files; the one that is there answers until the new one is whole."""
    from app.memory.index.rebuilding import rebuild

    await rebuild(index, sync, why)
