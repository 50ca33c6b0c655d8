"""An index with vectors over real files, without a server: hashing makes the vectors."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.memory.embedders.choice import HASHING, Choice
from app.memory.embedders.embedder import Embedder
from app.memory.embedders.hashing import HashingEmbedder
from app.memory.embedders.query_cache import QueryCache
from app.memory.embedders.roster import Embedders
from app.memory.index.memory_index import MemoryIndex
from app.memory.index.note_files import NoteRules
from app.memory.index.sync import Sync, SyncPace
from app.memory.vectors.filling import Filling
from app.memory.vectors.sets import VectorSets


@dataclass(slots=True)
class Installed:
    """All parts of one test. ``embedder`` may be replaced by another one."""

    root: Path
    index: MemoryIndex
    sync: Sync
    sets: VectorSets
    filling: Filling
    embedder: list[Embedder]
    embedders: Embedders

    async def write(self, notes: Mapping[str, str | None]) -> None:
        """Put notes into the folder (None deletes), and index them."""
        for name, text in notes.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text, encoding="utf-8")
                os.utime(path, (1_700_000_000 + len(text), 1_700_000_000))  # a file that has just been written waits
        await self.sync.caught_up()

    async def fill(self) -> None:
        """Embed until nothing is left to do."""
        for _ in range(1000):
            if await self.filling.step() > 0:
                return
        raise AssertionError("filling does not come to an end")


@asynccontextmanager
async def installed(
    folder: Path,
    *,
    confirm_texts: int = 0,
    now: list[float] | None = None,
    exact_vectors: Callable[[], int] = lambda: 10**6,
) -> AsyncIterator[Installed]:
    """Open everything in ``folder``; what lies there already is used again."""
    embedder: list[Embedder] = [HashingEmbedder()]
    clock = now or [1_000_000.0]
    index = MemoryIndex(folder / "index.sqlite")
    await index.open()
    embedders = Embedders(lambda: Choice(HASHING, embedder[0].signature.key()), lambda _: embedder[0])
    queries = QueryCache(max_size=lambda: 10, ttl=lambda: 60.0, timer=lambda: clock[0])
    sets = VectorSets(folder, index, embedders, queries, clock=lambda: clock[0], exact_vectors=exact_vectors)
    await sets.open()
    root = folder / "dailynote"
    sync = Sync(lambda: root, index, NoteRules, SyncPace)
    filling = Filling(sets, index, embedders, confirm_texts=lambda: confirm_texts, clock=lambda: clock[0])
    try:
        yield Installed(root, index, sync, sets, filling, embedder, embedders)
    finally:
        await queries.stop()
        await sets.stop()
        await index.stop()
