"""Makes an index anew beside the one that is there, which answers until the new one is whole (memory.md 11.3)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from app.errors import both
from app.memory.index.database import NEW, IndexUnavailableError
from app.memory.index.memory_index import MemoryIndex
from app.memory.index.sync import Sync

log = logging.getLogger(__name__)


async def rebuild(index: MemoryIndex, sync: Sync, why: str) -> None:
    """Make the index anew from the files; it goes at the pace of ``sync`` where that has a task.

    Raises IndexUnavailableError and OSError, where there is no room for a second one say: then all is as it was.
    """
    log.warning("the memory index %s is made anew: %s", index.database.path, why)
    place = Path(f"{index.database.path}{NEW}")
    await asyncio.to_thread(index.database.remove, NEW)
    fresh = MemoryIndex(place)
    filling = sync.beside(fresh)
    try:
        await fresh.open()
        if sync.is_running:
            await filling.start()
        await filling.caught_up()
        await filling.stop()
        if not await fresh.database.checkpoint():
            raise IndexUnavailableError(both("正在使用", "it is in use"))
        await fresh.database.close()
        await sync.go_on_with(place)
    finally:
        await filling.stop()
        await fresh.stop()
        await asyncio.to_thread(index.database.remove, NEW)
    await sync.caught_up()
