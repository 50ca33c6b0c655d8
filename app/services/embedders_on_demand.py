"""Embedders for whoever needs them: made at the first use, so that a server without diaries does without numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.services.memory import MemorySurroundings
    from app.services.memory_embedders import MemoryEmbedders


class EmbeddersOnDemand:
    """Gives the one ``MemoryEmbedders`` of the installation, and ends it."""

    def __init__(self, around: MemorySurroundings) -> None:
        self._around = around
        self._made: MemoryEmbedders | None = None

    def __call__(self) -> MemoryEmbedders:
        """The embedders; the first call takes a moment."""
        if self._made is None:
            from app.services.memory_embedders import MemoryEmbedders

            self._made = MemoryEmbedders(self._around)
        return self._made

    async def start(self) -> None:
        """Nothing."""

    def health(self) -> str:
        """Nothing: without vectors words are searched."""
        return ""

    async def stop(self) -> None:
        """End what was made."""
        if self._made is not None:
            await self._made.stop()
