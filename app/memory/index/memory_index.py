"""The index as the rest of memory sees it, and as the syncing writes it."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from app.memory.index import reading
from app.memory.index.database import Database, IndexBrokenError
from app.memory.index.lexical import Lexical
from app.memory.index.note_files import FileState
from app.memory.index.records import ChunkPlace, ChunkRecord, IndexChange, NotebookState
from app.memory.index.rows import Writing, all_places, count_on_from, notebook_states
from app.memory.index.schema import INDEX_TABLES
from app.memory.index.wiping import ask_for_wiping, merge_words, wiping_is_done, wiping_is_due

if TYPE_CHECKING:
    from app.memory.index.prepared import PreparedNote

log = logging.getLogger(__name__)

INDEX_FILE = Path(".vcp") / "memory" / "index.sqlite"
"""Where the index lies in a home; it may be deleted while nobody runs."""

MAX_LIMIT = 100_000
TOLD_CHUNKS = 5000
"""Chunks that are told of at a time; in between the event loop goes on."""


class MemoryIndex:
    """A ``SearchableIndex`` over one file. Coroutines raise IndexBrokenError or IndexUnavailableError.

    Damage that a question meets is remembered (``database.broken``) for the syncing, which heals it.
    """

    def __init__(self, path: Path) -> None:
        self.database = Database(path, INDEX_TABLES)
        self._lexical = Lexical()
        self._notebooks: Mapping[str, NotebookState] = {}
        self._told: tuple[Callable[[IndexChange], None], ...] = ()
        self._renewed: tuple[Callable[[], None], ...] = ()
        self.noticed: Callable[[tuple[str, ...], bool], None] = lambda paths, listed: None
        """Called after every commit with the paths of its notes, and whether there are other notes than before."""
        self._tags: Mapping[str, frozenset[int]] | None = None
        self.has_old_text = False
        """Notes were deleted or changed, and ``wipe`` has not removed what they said from file and WAL yet."""
        self._old_words = False
        self._wiping = False
        self._changes = 0

    async def open(self) -> None:
        """Open the file; one that is damaged or of another version is replaced by an empty one."""
        await self.database.open()
        await self._look_again()

    async def stop(self) -> None:
        """Close the file."""
        await self.database.stop()

    async def renew(self, why: str) -> None:
        """Begin with an empty file; the next sync fills it."""
        number = self._last_commit()
        await self.database.renew(why)
        await self.database.write(lambda connection: count_on_from(connection, number))
        await self._look_again()
        for told in self._renewed:
            told()

    async def take_over(self, whole: Path) -> None:
        """Go on with an index that is whole and closed; all its chunks are told as new ones.

        Raises IndexUnavailableError when it cannot be moved.
        """
        number = self._last_commit()
        await self.database.take_over(whole)
        await self.database.write(lambda connection: count_on_from(connection, number))
        await self._look_again()
        for told in self._renewed:
            told()
        places = await self.places()
        for first in range(0, len(places), TOLD_CHUNKS):
            change = IndexChange(tuple(places[first : first + TOLD_CHUNKS]), (), frozenset(self._notebooks))
            for hear in self._told:
                hear(change)
            await asyncio.sleep(0)

    # What ranking and recall ask.

    def notebooks(self) -> Mapping[str, NotebookState]:
        """See ``SearchableIndex``."""
        return self._notebooks

    def changed(self, told: Callable[[IndexChange], None]) -> None:
        """See ``SearchableIndex``. A chunk that moved inside its note is among the removed and the added ones."""
        self._told = (*self._told, told)

    def renewed(self, told: Callable[[], None]) -> None:
        """Call ``told`` when the file was replaced by an empty one: all that was known of it counts no longer."""
        self._renewed = (*self._renewed, told)

    async def lexical(
        self, words: Sequence[str], notebooks: Iterable[str] | None, limit: int, *, tags_only: bool = False
    ) -> list[tuple[int, float]]:
        """See ``SearchableIndex``."""
        numbers = self.numbers(notebooks)
        limit = min(limit, MAX_LIMIT)
        return await self.database.read(
            lambda connection: self._lexical.search(connection, words, numbers, limit, tags_only=tags_only)
        )

    async def lexical_scores(self, words: Sequence[str], chunk_ids: Sequence[int]) -> dict[int, float]:
        """See ``SearchableIndex``."""
        return await self.database.read(lambda connection: self._lexical.scores(connection, words, chunk_ids))

    async def chunks(self, chunk_ids: Sequence[int]) -> dict[int, ChunkRecord]:
        """See ``SearchableIndex``."""
        return await self.database.read(lambda connection: reading.chunk_records(connection, chunk_ids))

    async def in_days(self, first: date, last: date, notebooks: Iterable[str] | None, limit: int) -> list[int]:
        """See ``SearchableIndex``."""
        numbers = self.numbers(notebooks)
        days = first.toordinal(), last.toordinal()
        return await self.database.read(
            lambda connection: reading.chunks_in_days(connection, *days, numbers, min(limit, MAX_LIMIT))
        )

    async def chunks_of_notes(self, note_ids: Sequence[int]) -> dict[int, list[int]]:
        """See ``SearchableIndex``."""
        return await self.database.read(lambda connection: reading.chunks_by_note(connection, note_ids))

    async def tag_notes(self) -> Mapping[str, frozenset[int]]:
        """See ``SearchableIndex``."""
        tags = self._tags
        if tags is None:
            before = self._notebooks
            tags = await self.database.read(reading.notes_by_tag)
            if before is self._notebooks:
                self._tags = tags
        return tags

    # What vectors ask.

    def numbers(self, notebooks: Iterable[str] | None) -> list[int] | None:
        """The ids of notebooks that are indexed, each once; None, which means all of them, stays None."""
        if notebooks is None:
            return None
        known = self._notebooks
        return [known[name].id for name in dict.fromkeys(notebooks) if name in known]

    async def places(self) -> list[ChunkPlace]:
        """Every chunk, by id."""
        return await self.database.read(all_places)

    async def embedded_texts(self, chunk_ids: Sequence[int]) -> dict[int, str]:
        """What is to be embedded of each chunk (D80); its SHA-256 is the chunk's ``embed_sha``."""
        return await self.database.read(lambda connection: reading.embedded_texts(connection, chunk_ids))

    # What syncing does.

    async def write(
        self,
        stored: Sequence[PreparedNote] = (),
        *,
        removed: Iterable[str] = (),
        touched: Mapping[str, FileState] | None = None,
    ) -> IndexChange:
        """One commit; those who wanted to know are told of it when it is done."""

        def work(connection: sqlite3.Connection) -> tuple[IndexChange, dict[str, NotebookState]]:
            writing = Writing(connection)
            if writing.remove(gone):
                ask_for_wiping(connection)
            for note in stored:
                if not note.fault or note.sha256 or not writing.unreadable(note.path, note.fault):
                    writing.store(note)
            for path, state in (touched or {}).items():
                writing.seen(path, state)
            return writing.done(), notebook_states(connection)

        gone = list(removed)
        change, notebooks = await self.database.write(work)
        self._lexical.changed()
        if gone or change.removed:
            self.has_old_text = True
            self._changes += 1
        if gone:
            self._old_words, self._wiping = True, False
        if change.notebooks:
            before, self._notebooks = self._notebooks, notebooks
            self._tags = None
            for told in self._told:
                told(change)
            self.noticed((*(note.path for note in stored), *gone), bool(gone) or _notes(before) != _notes(notebooks))
        return change

    async def wipe(self) -> None:
        """Remove old text from the file and its WAL, a part at a time; ``has_old_text`` says if there is more.

        Of notes that were changed the WAL is cut; of those that were deleted the words are merged out before.
        """
        if self._old_words:
            begun = self._wiping
            self._wiping = True
            if await self.database.write(lambda connection: merge_words(connection, first=not begun)):
                return
            if not self._wiping:
                return  # more was deleted meanwhile
        words, changes = self._old_words, self._changes
        if not await self.database.checkpoint():
            return
        if words:
            await self.database.forget_copies()
            await self.database.write(wiping_is_done)
            self._old_words, self._wiping = not self._wiping, False
        self.has_old_text = self._old_words or changes != self._changes

    def _last_commit(self) -> int:
        return max((book.generation for book in self._notebooks.values()), default=0)

    async def _look_again(self) -> None:
        self._lexical.changed()
        self._tags = None
        try:
            self._notebooks = await self.database.read(notebook_states)
            self._old_words, self._wiping = await self.database.read(wiping_is_due), False
            self.has_old_text = True  # the WAL may be of one that was killed
        except IndexBrokenError as error:
            await self.database.renew(error.message)
            self._notebooks = {}


def _notes(notebooks: Mapping[str, NotebookState]) -> int:
    return sum(book.notes for book in notebooks.values())
