"""Memory as other parts see it: searching notes, without a word of how that is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Remembered:
    """A remembered fragment. ``path`` is below the folder of notebooks; ``score`` orders the fragments of one answer.

    ``similarity`` is 0 to 1 and means the same under all models (memory.md 2.6); None without vectors. ``kind`` is
    ``hybrid``, ``vector``, ``words`` or ``rerank``.
    """

    notebook: str
    path: str
    text: str
    score: float
    similarity: float | None
    kind: str
    day: date | None
    author: str
    tags: tuple[str, ...] = ()
    matched_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemorySearch:
    """What to look for (memory.md 6.1, 6.2). Empty filters let everything pass.

    ``notebooks`` None means all but ``excluded``. ``rerank`` None: not; 0 to 1: the weight of the reranker.
    """

    query: str
    notebooks: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()
    k: int = 5
    authors: tuple[str, ...] = ()
    tags_all: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = ()
    ranges: tuple[tuple[date, date], ...] = field(default=())
    words: bool = True
    tag_boost: float | None = None
    rerank: float | None = None


class PluginMemory(Protocol):
    """The memory of the installation, for in-process plugins. Raises ``VcpError`` where there is none."""

    def notebooks(self) -> Sequence[str]:
        """The names of all notebooks that are indexed."""
        ...

    async def search(self, search: MemorySearch) -> Sequence[Remembered]:
        """The fragments that answer best, best first; by words alone while no vectors can be had."""
        ...

    async def neighbours(
        self,
        paths: Sequence[str],
        *,
        notebooks: Sequence[str] | None = None,
        k: int = 10,
        least: float = 0.0,
        tag_boost: float = 0.15,
    ) -> Sequence[Remembered]:
        """Notes that are near to the notes at ``paths``, at most ``k``, none of those themselves, best first."""
        ...
