"""A home with notes, its index, and what keeps both equal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from app.memory.index.doctor import dump
from app.memory.index.memory_index import INDEX_FILE, MemoryIndex
from app.memory.index.note_files import NoteRules
from app.memory.index.sync import Sync, SyncPace
from app.memory.index.words import query_words


@dataclass
class Home:
    """A folder of notebooks; ``rules`` and ``pace`` may be changed while a sync runs."""

    root: Path
    file: Path
    rules: NoteRules = field(default_factory=NoteRules)
    pace: SyncPace = field(default_factory=lambda: SyncPace(share=1.0))

    def write(self, path: str, text: str | bytes) -> Path:
        """A note, written as a tool writes it: whole, by a rename."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.tmp")
        temporary.write_bytes(text.encode() if isinstance(text, str) else text)
        temporary.replace(target)
        return target

    def parts(self, index: MemoryIndex) -> Sync:
        """What keeps ``index`` equal to the files."""
        return Sync(lambda: self.root, index, lambda: self.rules, lambda: self.pace)

    @asynccontextmanager
    async def synced(self) -> AsyncIterator[tuple[MemoryIndex, Sync]]:
        """An index that has all files, kept up to date by a task."""
        index = MemoryIndex(self.file)
        sync = self.parts(index)
        await sync.start()
        try:
            await sync.settled()
            yield index, sync
        finally:
            await sync.stop()
            await index.stop()

    async def once(self) -> list[str]:
        """Bring the index up to date without a task; what is in it then."""
        index = MemoryIndex(self.file)
        try:
            await self.parts(index).caught_up()
            return await lines(index)
        finally:
            await index.stop()

    async def clean(self) -> list[str]:
        """What a new index of the same files has."""
        return await replace(self, file=self.file.with_name("clean.sqlite")).once()


async def lines(index: MemoryIndex) -> list[str]:
    """All that is in an index."""
    return await index.database.read(lambda connection: list(dump(connection)))


async def found(index: MemoryIndex, question: str, *notebooks: str) -> list[str]:
    """The notes that search by words finds, best first."""
    hits = await index.lexical(query_words(question), notebooks or None, 20)
    records = await index.chunks([chunk for chunk, _ in hits])
    return list(dict.fromkeys(records[chunk].path for chunk, _ in hits))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    root = tmp_path / "dailynote"
    root.mkdir()
    return Home(root, tmp_path / INDEX_FILE)
