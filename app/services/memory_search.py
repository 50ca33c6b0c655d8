"""What in-process plugins and the notes' HTTP API see of memory: searching, notebooks, near notes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from app.config.small_file import read_small
from app.errors import BadRequestError, both
from app.extend import MemorySearch, Remembered
from app.services.in_force import InForce

if TYPE_CHECKING:  # numpy is not paid for before memory is used
    from app.services.memory_recall import Searching

NOTE_BYTES = 8 * 1024 * 1024


class MemoryForPlugins:
    """See ``PluginMemory``. ``searching`` is None while the index is not open."""

    def __init__(self, in_force: InForce, searching: Callable[[], Searching | None]) -> None:
        self._in_force = in_force
        self._searching = searching

    def notebooks(self) -> Sequence[str]:
        """See ``PluginMemory``."""
        return sorted(self._open().index.notebooks())

    async def search(self, search: MemorySearch) -> Sequence[Remembered]:
        """See ``PluginMemory``."""
        from app.memory.recall.note_search import NoteSearch

        parts = self._open()
        await parts.fresh()
        now = datetime.now(self._in_force.zone())
        searched = NoteSearch(parts.index, parts.vectors, parts.ranking.retriever)
        return await searched.search(search, now, self._in_force.settings.memory_request_tokens)

    async def neighbours(
        self,
        paths: Sequence[str],
        *,
        notebooks: Sequence[str] | None = None,
        k: int = 10,
        least: float = 0.0,
        tag_boost: float = 0.15,
    ) -> Sequence[Remembered]:
        """See ``PluginMemory``."""
        from app.memory.recall.note_search import NoteSearch

        parts = self._open()
        await parts.fresh()
        texts = await asyncio.to_thread(self._texts, paths)
        searched = NoteSearch(parts.index, parts.vectors, parts.ranking.retriever)
        return await searched.neighbours(paths, texts, notebooks, k, least, tag_boost)

    def _texts(self, paths: Sequence[str]) -> list[str]:
        """The contents of notes; empty for one that is gone. Callers have confined the paths to the folder of notes."""
        root = self._in_force.notebooks
        texts: list[str] = []
        for path in paths:
            try:
                texts.append(read_small(root / path, NOTE_BYTES).decode("utf-8", "replace"))
            except OSError:
                texts.append("")
        return texts

    def _open(self) -> Searching:
        if not self._in_force.settings.memory:
            raise BadRequestError(both("记忆功能未启用（Memory=false）", "memory is switched off (Memory=false)"))
        parts = self._searching()
        if parts is None:
            raise BadRequestError(
                both("记忆索引尚未打开，请稍后再试", "the index of memory is not open yet, try again in a moment")
            )
        return parts
