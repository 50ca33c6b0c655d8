"""What the index is asked for and what it tells (memory.md 3.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol


@dataclass(frozen=True, slots=True)
class NotebookState:
    """One notebook as the index has it now."""

    id: int
    name: str
    generation: int
    notes: int
    chunks: int


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """A chunk and what is known of its note. ``path`` is below the diary root; ``start``, ``end`` are characters."""

    id: int
    note_id: int
    notebook: str
    path: str
    ordinal: int
    start: int
    end: int
    tokens: int
    text: str
    embed_sha: bytes
    day: date | None
    author: str
    title: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """What has to be known of every chunk to search quickly, without its text."""

    id: int
    note_id: int
    notebook_id: int
    ordinal: int
    day: int | None
    embed_sha: bytes


@dataclass(frozen=True, slots=True)
class IndexChange:
    """One commit: the chunks that came and those that went, and the notebooks it touched."""

    added: tuple[ChunkPlace, ...]
    removed: tuple[int, ...]
    notebooks: frozenset[str]


class SearchableIndex(Protocol):
    """What ranking and recall see of the index. Coroutines read in threads of the index; nothing blocks the loop.

    All answers are of the last commit. ``notebooks`` None means all of them.
    """

    def notebooks(self) -> Mapping[str, NotebookState]:
        """All notebooks by name; from memory."""
        ...

    def changed(self, told: Callable[[IndexChange], None]) -> None:
        """Call ``told`` after every commit, in the event loop."""
        ...

    async def lexical(
        self, words: Sequence[str], notebooks: Iterable[str] | None, limit: int, *, tags_only: bool = False
    ) -> list[tuple[int, float]]:
        """The best chunks by BM25 for any of the ``words`` (as ``index.words.query_words`` gives them), best first.

        (chunk id, score > 0). ``tags_only``: over tag lines only.
        """
        ...

    async def lexical_scores(self, words: Sequence[str], chunk_ids: Sequence[int]) -> dict[int, float]:
        """The same score for given chunks; those without any of the words are missing."""
        ...

    async def chunks(self, chunk_ids: Sequence[int]) -> dict[int, ChunkRecord]:
        """Chunks by id; what is gone meanwhile is missing."""
        ...

    async def in_days(self, first: date, last: date, notebooks: Iterable[str] | None, limit: int) -> list[int]:
        """Chunk ids of notes whose day is in the range, newest first."""
        ...

    async def chunks_of_notes(self, note_ids: Sequence[int]) -> dict[int, list[int]]:
        """Chunk ids in their order, by note."""
        ...

    async def tag_notes(self) -> Mapping[str, frozenset[int]]:
        """Note ids by tag (display form); kept in memory and made anew when the index has changed."""
        ...
