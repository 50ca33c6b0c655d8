"""Chunks that have no vector yet: newest first, since fresh diaries come before bulk (memory.md 11.28)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from app.memory.index.records import ChunkPlace
from app.memory.vectors.chunk_table import ChunkTable
from app.memory.vectors.text_rows import NO_ROW, TextRows


class MissingVectors:
    """Chunks by id with the SHA-256 of their texts; several chunks may have the same text."""

    def __init__(self) -> None:
        self._sha: dict[int, bytes] = {}
        self._chunks: dict[bytes, dict[int, None]] = {}
        self._new: dict[bytes, None] = {}

    def __len__(self) -> int:
        """Chunks without a vector."""
        return len(self._sha)

    def add(self, chunk_id: int, sha: bytes) -> None:
        """This chunk has no vector."""
        if chunk_id in self._sha:
            self.remove(chunk_id)
        self._sha[chunk_id] = sha
        self._chunks.setdefault(sha, {})[chunk_id] = None
        self._new[sha] = None

    def remove(self, chunk_id: int) -> None:
        """This chunk is gone, or was never here."""
        sha = self._sha.pop(chunk_id, None)
        if sha is None:
            return
        left = self._chunks[sha]
        del left[chunk_id]
        if not left:
            del self._chunks[sha]
            self._new.pop(sha, None)

    def found(self, shas: Collection[bytes]) -> dict[int, bytes]:
        """These texts have a vector now: the chunks that were waiting for them, no longer missing."""
        chunks = {chunk: sha for sha in shas for chunk in self._chunks.get(sha, ())}
        for chunk in chunks:
            self.remove(chunk)
        return chunks

    def take_new(self, limit: int) -> list[bytes]:
        """Texts that nobody has looked for in the set yet, once each: they may have a vector of other notes."""
        taken = [sha for sha, _ in zip(self._new, range(limit), strict=False)]
        for sha in taken:
            del self._new[sha]
        return taken

    def put_back(self, shas: Collection[bytes]) -> None:
        """These were taken and could not be looked for."""
        self._new.update((sha, None) for sha in shas if sha in self._chunks)

    def newest(self) -> Iterator[tuple[int, bytes]]:
        """One chunk for each text, the one that came last first."""
        seen: set[bytes] = set()
        for chunk in reversed(self._sha):
            sha = self._sha[chunk]
            if sha not in seen:
                seen.add(sha)
                yield chunk, sha


def add_places(table: ChunkTable, missing: MissingVectors, places: Sequence[ChunkPlace], rows: TextRows) -> None:
    """These chunks came; ``rows`` says where the vectors of their texts lie. Blocking where there are many."""
    found = rows.of([place.embed_sha for place in places])
    table.add(places, found)
    for which in np.flatnonzero(found == NO_ROW).tolist():
        missing.add(places[which].id, places[which].embed_sha)
