"""Takes over the vectors of an existing ``VectorStore``, but never one that another model made (memory.md 3.5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from app.errors import both
from app.memory.embedders.embedder import Embedder, Vector
from app.memory.embedders.roster import Embedders, comparable
from app.memory.index.chunks import clean, embedded_sha
from app.memory.index.memory_index import MemoryIndex
from app.memory.vectors.old_store import ImportRefusedError, OldStore, OldText, current_files
from app.memory.vectors.sets import MATRICES, VectorSets
from app.memory.vectors.vector_set import VectorSet

__all__ = ["ImportRefusedError", "Imported", "Importing"]

CHUNKS_READ = 500
PROBES = 3
SAME_MODEL = 0.98
"""Least cosine of a stored vector with the model's own of the same text; below it another model made the store."""


@dataclass(slots=True)
class Imported:
    """What is in a store, and what of it can be used. ``reason`` says why nothing can, empty otherwise."""

    files: int = 0
    stale_files: int = 0
    missing_files: int = 0
    chunks: int = 0
    matched: int = 0
    """Texts of the store that are ours: the same words of a note, the same tag, the same name."""

    bad_vectors: int = 0
    tags: int = 0
    """Tags and names of notebooks among ``matched``."""

    reused: int = 0
    """Vectors that were missing here and were taken over, or would be."""

    to_embed: int = 0
    """Texts of ours that are still to be embedded after that."""

    reason: str = ""


class Importing:
    """One import at a time. ``root`` is the folder of notebooks."""

    def __init__(self, sets: VectorSets, index: MemoryIndex, embedders: Embedders, root: Callable[[], Path]) -> None:
        self._sets = sets
        self._index = index
        self._embedders = embedders
        self._root = root

    async def run(self, path: Path, *, write: bool) -> Imported:
        """Look through the store, and take over what can be used if ``write``. Raises ImportRefusedError, OSError."""
        store = await asyncio.to_thread(OldStore, path, self._sets.database.path.parent / MATRICES)
        try:
            return await self._imported(store, write=write)
        finally:
            await asyncio.to_thread(store.close)

    async def _imported(self, store: OldStore, *, write: bool) -> Imported:
        found = Imported()
        ended = False
        try:
            found.files, found.stale_files, found.missing_files = await asyncio.to_thread(
                current_files, store, self._root(), lambda: ended
            )
        finally:
            ended = True
        dimension = await asyncio.to_thread(store.dimension)
        embedder = self._embedders.current()
        wanted, by_words = await self._wanted()
        found.reason = _unusable(embedder, dimension)
        target: VectorSet | None = None
        if embedder is not None and not found.reason:
            if write:
                found.reason = await self._differs(store, dimension, embedder)
            target = None if found.reason else await self._target(embedder, dimension, write=write)
            if target is None and not found.reason and self._sets.serving is not None:
                found.reason = both(
                    "另一个模型的向量正在使用：请先确认重新嵌入",
                    "vectors of another model serve: confirm re-embedding first",
                )
        known = set() if target is None else set(await target.rows_of(wanted))
        found.to_embed = len(wanted - known)
        seen: set[bytes] = set()
        async for kind, texts in _pages(store, dimension):
            vectors: dict[bytes, Vector] = {}
            for one in texts:
                sha = embedded_sha(one.text)
                if kind == "chunks":
                    words = embedded_sha(clean(one.text))
                    sha = by_words.get(words, words)
                found.chunks += kind == "chunks"
                found.bad_vectors += one.vector is None
                if sha not in wanted or sha in seen or one.vector is None:
                    continue
                seen.add(sha)
                found.matched += 1
                found.tags += kind != "chunks"
                if sha not in known and not found.reason:
                    vectors[sha] = one.vector
            if vectors and write and target is not None:
                await self._sets.kept(target, await target.add(vectors))
            found.reused += len(vectors)
        found.to_embed -= found.reused
        return found

    async def _wanted(self) -> tuple[set[bytes], dict[bytes, bytes]]:
        """The texts of ours, and those of chunks once more by the plain words of the chunk.

        The other store embedded a short note as it is, with its first line and its tag line; ours has the same words
        with date, author, title and tags above them (D80). What such a vector means is the same, so it is taken over.
        """
        texts = [*await self._index.tag_notes(), *self._index.notebooks()]
        shas = {place.id: place.embed_sha async for part in self._index.places() for place in part}
        by_words: dict[bytes, bytes] = {}
        ids = list(shas)
        for begin in range(0, len(ids), CHUNKS_READ):
            records = await self._index.chunks(ids[begin : begin + CHUNKS_READ])
            by_words.update((embedded_sha(clean(one.text)), shas[chunk]) for chunk, one in records.items())
        return {*shas.values(), *map(embedded_sha, texts)}, by_words

    async def _target(self, embedder: Embedder, dimension: int, *, write: bool) -> VectorSet | None:
        """The set of the model; where there are no vectors at all yet, and something may be written, a new one."""
        for one in (self._sets.serving, self._sets.building):
            if one is not None and comparable(embedder.signature, one.signature) and one.dimension == dimension:
                return one
        if write and self._sets.serving is None and embedder.signature.dimension == dimension:
            return await self._sets.new_set(embedder.signature)
        return None

    async def _differs(self, store: OldStore, dimension: int, embedder: Embedder) -> str:
        """Why the store is not of this model: it is asked for a few vectors that the store has, since it names none."""
        texts, _ = await asyncio.to_thread(store.chunks, dimension, 0)
        probes = {str(place): one for place, one in enumerate(texts) if one.vector is not None and clean(one.text)}
        probes = dict(list(probes.items())[:PROBES])
        embedded = await embedder.embed_passages({place: clean(one.text) for place, one in probes.items()})
        if not embedded.vectors:
            return both("模型没有回答，无法核对", "the model did not answer, so that nothing could be compared")
        for place, vector in embedded.vectors.items():
            stored = probes[place].vector
            if stored is None or stored.shape != vector.shape or float(stored @ vector) < SAME_MODEL:
                return both("向量由另一个模型生成", "another model made the vectors")
        return ""


async def _pages(store: OldStore, dimension: int) -> AsyncIterator[tuple[str, list[OldText]]]:
    for kind, page in (("chunks", store.chunks), ("tags", store.tags), ("names", store.names)):
        after, last = -(2**63), None
        while after != last:
            last = after
            texts, after = await asyncio.to_thread(page, dimension, after)
            yield kind, texts


def _unusable(embedder: Embedder | None, dimension: int) -> str:
    if not dimension:
        return both("其中没有向量", "there are no vectors in it")
    if embedder is None:
        return both("未使用任何嵌入模型", "no embedding model is in use")
    own = embedder.signature.dimension
    if own and own != dimension:
        return both(f"维度不同：{dimension} 与 {own}", f"the dimension differs: {dimension} and {own}")
    return ""
