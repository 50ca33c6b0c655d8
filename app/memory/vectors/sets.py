"""The vectors of an installation: the set that serves, the one that is being built, and searching (memory.md 3.6)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from app.errors import VcpError
from app.extend import Clock
from app.memory.embedders.embedder import Calibration, Embedder, Matrix, Signature, Vector
from app.memory.embedders.query_cache import QueryCache
from app.memory.embedders.roster import Embedders, comparable
from app.memory.index.chunks import embedded_sha
from app.memory.index.database import Database, IndexBrokenError
from app.memory.index.memory_index import MemoryIndex
from app.memory.index.records import IndexChange
from app.memory.vectors import tables
from app.memory.vectors.approximate import MOST_CANDIDATES
from app.memory.vectors.chunk_table import ChunkTable
from app.memory.vectors.matrix import are_cosines, best, scores_of
from app.memory.vectors.missing import MissingVectors, add_places, columns_of
from app.memory.vectors.set_files import remove_set, remove_strays
from app.memory.vectors.tag_rows import TagRows
from app.memory.vectors.vector_set import VectorSet

log = logging.getLogger(__name__)

VECTORS_FILE = "vectors.sqlite"
MATRICES = "vectors"

NEUTRAL = Calibration(0.3, 0.1)
EXACT_VECTORS = 200_000
OVER_FETCH = 4
"""Rows that are scored exactly for each that is wanted, where the search is approximate."""

RECOGNISED = 5000
"""Texts that are looked for at a time."""

MOST_ASKED = 50_000
MOST_TEXTS = 10_000
"""Names and tags that one question may ask vectors of."""


class VectorSets:
    """A ``VectorSearch`` over one folder. One loop owns it; computing is done in threads.

    ``index`` says which chunks there are, ``embedders`` which model serves now and which made an older set.
    """

    def __init__(
        self,
        folder: Path,
        index: MemoryIndex,
        embedders: Embedders,
        queries: QueryCache,
        clock: Clock = time.time,
        exact_vectors: Callable[[], int] = lambda: EXACT_VECTORS,
    ) -> None:
        self._folder = folder
        self._index = index
        self._embedders = embedders
        self._queries = queries
        self._clock = clock
        self._exact_vectors = exact_vectors
        self.database = Database(folder / VECTORS_FILE, tables.VECTOR_TABLES)
        self.serving: VectorSet | None = None
        self.building: VectorSet | None = None
        self.version = 0
        """Grows whenever answers may have become others: a part of cache keys (3.7)."""
        self.fault = ""
        self._table = ChunkTable()
        self._missing = MissingVectors()
        self._tags = TagRows(index)
        self._told: tuple[Callable[[list[int]], None], ...] = ()
        self.asked_texts: set[bytes] = set()
        """Short texts that were asked for since the start, by SHA-256: their vectors are needed."""
        self._changes: list[IndexChange] | None = None
        self._renewals = 0

    async def open(self) -> None:
        """Open tables and matrices, and look at the chunks of now. The index is open already."""
        await self.database.open()
        rows: dict[bytes, int] = {}
        serving: VectorSet | None = None
        sets = await self.database.read(tables.all_sets)
        for one in sets:
            if one.state == tables.OLD or (one.state == tables.BUILDING and self.building is not None):
                await self._drop(one.id)
                continue
            opened = VectorSet(one, self.database, self._folder / MATRICES)
            found = await opened.open()
            if one.state == tables.SERVING:
                serving, rows = opened, found
            else:
                self.building = opened
        kept = {one.id for one in (serving, self.building) if one is not None}
        await asyncio.to_thread(remove_strays, self._folder / MATRICES, kept)
        self._index.changed(self._index_changed)
        self._index.renewed(self._forget_all)
        await self._look_at_all(serving, rows)

    async def stop(self) -> None:
        """Close all files."""
        for one in (self.serving, self.building):
            if one is not None:
                await one.close()
        await self.database.stop()

    def chunks_came(self, told: Callable[[list[int]], None]) -> None:
        """Call ``told`` with chunks that came and may want a vector."""
        self._told = (*self._told, told)

    # ------------------------------------------------------------------ VectorSearch

    def ready(self) -> bool:
        """See ``VectorSearch``."""
        return self.serving is not None and self.serving.count > 0 and self.embedder_of(self.serving) is not None

    def calibration(self) -> Calibration:
        """See ``VectorSearch``."""
        if self.serving is None:
            return NEUTRAL
        embedder = self.embedder_of(self.serving)
        return self.serving.calibration or (NEUTRAL if embedder is None else embedder.calibration)

    async def embed_query(self, text: str) -> Vector | None:
        """See ``VectorSearch``."""
        serving = self.serving
        embedder = None if serving is None or not serving.count else self.embedder_of(serving)
        if serving is None or embedder is None or not text.strip():
            return None
        try:
            vector = await self._queries.vector(embedder, text)
        except VcpError as error:
            self._say(error.message)
            return None
        if vector.shape != (serving.dimension,):
            self._say(f"the embedding model gives {vector.shape[0]} numbers, the notes have {serving.dimension}")
            return None
        self._say("")
        return vector

    async def nearest(
        self, query: Vector, notebooks: Iterable[str] | None, limit: int, *, among: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """See ``VectorSearch``."""
        serving, numbers = self.serving, self._index.numbers(notebooks)
        if serving is None or query.shape != (serving.dimension,) or not self._readable(serving):
            return []
        ids, rows = self._table.searched(numbers)
        if among is not None:
            ids, kept, _ = np.intersect1d(ids, np.asarray(among, np.int64), return_indices=True)
            rows = rows[kept]
        matrix, approximate, marks = serving.rows, serving.approximate, serving.marks
        count = OVER_FETCH * limit
        if len(rows) <= self._exact_vectors() or count > MOST_CANDIDATES:
            approximate = None

        def search() -> list[tuple[int, float]] | None:
            chosen = slice(None) if approximate is None else approximate.candidates(query, rows, marks, count)
            near, scores = ids[chosen], scores_of(matrix, query, rows[chosen])
            sound = are_cosines(scores)
            return [(int(near[one]), float(scores[one])) for one in best(scores, limit)] if sound else None

        found = await asyncio.to_thread(search)
        if found is None:
            serving.doubt(self._changed)
        return found or []

    async def cosines(self, query: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        """See ``VectorSearch``."""
        found, matrix = await self.of_chunks(chunk_ids)
        if not found or query.shape != (matrix.shape[1],):
            return {}
        return dict(zip(found, scores_of(matrix, query, np.arange(len(found))).tolist(), strict=True))

    async def of_chunks(self, chunk_ids: Sequence[int]) -> tuple[list[int], Matrix]:
        """See ``VectorSearch``."""
        serving = self.serving
        if serving is None or not self._readable(serving):
            return [], np.empty((0, 0), np.float32)
        ids = np.asarray(list(dict.fromkeys(chunk_ids)), np.int64)
        slots = self._table.slots_of(ids.tolist())
        rows = np.where(slots >= 0, self._table.row[slots], -1) if len(self._table.row) else np.full(len(ids), -1)
        there = rows >= 0
        return ids[there].tolist(), serving.rows[rows[there]]

    async def of_notebook(self, notebook: str, limit: int) -> Matrix:
        """See ``VectorSearch``."""
        serving, numbers = self.serving, self._index.numbers([notebook])
        if serving is None or limit <= 0 or not self._readable(serving):
            return np.empty((0, 0), np.float32)
        rows = self._table.row[self._table.with_vectors(numbers)]
        if len(rows) > limit:
            rows = rows[np.linspace(0, len(rows) - 1, limit).astype(np.int64)]
        return serving.rows[rows]

    async def of_texts(self, texts: Sequence[str]) -> list[Vector | None]:
        """See ``VectorSearch``. What cannot be embedded now is None, and asked for again the next time."""
        serving = self.serving
        embedder = None if serving is None else self.embedder_of(serving)
        if serving is None or embedder is None or not texts:
            return [None] * len(texts)
        shas = {text: embedded_sha(text) for text in texts[:MOST_TEXTS]}
        if len(self.asked_texts) > MOST_ASKED:
            self.asked_texts.clear()
        self.asked_texts.update(shas.values())
        rows = await serving.rows_of(shas.values())
        missing = {sha.hex(): text for text, sha in shas.items() if sha not in rows and text.strip()}
        if missing:
            embedded = await embedder.embed_passages(missing)
            rows.update(await serving.add({bytes.fromhex(sha): vector for sha, vector in embedded.vectors.items()}))
            await self.kept(serving, rows)
        if not self._readable(serving):
            return [None] * len(texts)
        places = (rows.get(shas[text]) if text in shas else None for text in texts)
        return [None if row is None else np.array(serving.rows[row]) for row in places]

    async def nearest_tags(self, query: Vector, limit: int) -> list[tuple[str, float]]:
        """See ``VectorSearch``."""
        serving = self.serving
        if serving is None or query.shape != (serving.dimension,):
            return []
        names, rows = await self._tags.of(serving, self.version)
        if not self._readable(serving):
            return []
        scores = await asyncio.to_thread(scores_of, serving.rows, query, rows)
        return [(names[one], float(scores[one])) for one in best(scores, limit)]

    # ------------------------------------------------------------------ what filling does

    @property
    def missing(self) -> MissingVectors:
        """Chunks without a vector in the serving set."""
        return self._missing

    def with_vectors(self) -> list[int]:
        """All chunks that have a vector."""
        return [int(one) for one in self._table.id[self._table.with_vectors(None)]]

    def places(self) -> int:
        """Chunks that there are."""
        return len(self._table)

    async def recognise(self) -> None:
        """Give chunks that came the vectors that their texts have already: of moved notes, of an index made anew."""
        serving = self.serving
        while serving is not None and (shas := self._missing.take_new(RECOGNISED)):
            try:
                rows = await serving.rows_of(shas)
            except BaseException:
                self._missing.put_back(shas)
                raise
            await self.kept(serving, rows)

    async def kept(self, vectors_of: VectorSet, rows: Mapping[bytes, int]) -> None:
        """These texts have a vector now in this set."""
        if vectors_of is not self.serving:
            return
        self._table.put_rows(rows, self._missing.found(rows))
        self._changed()

    async def new_set(self, signature: Signature) -> VectorSet:
        """The set of a signature that is to be built; it serves at once while no other does."""
        state = tables.BUILDING if self.serving is not None else tables.SERVING
        now = int(self._clock())
        row = await self.database.write(
            lambda connection: tables.make_set(connection, signature.key(), signature.dimension, state, now)
        )
        made = VectorSet(row, self.database, self._folder / MATRICES)
        rows = await made.open()
        if state == tables.SERVING:
            await self._serve(made, rows)
        else:
            if self.building is not None:
                await self._abandon(self.building)
            self.building = made
        return made

    async def switch(self) -> None:
        """The set that was built serves from now on (11.4)."""
        built, before = self.building, self.serving
        if built is None:
            return
        rows = await self.database.read(lambda connection: tables.all_rows(connection, built.id))
        await self._serve(built, rows)
        self.building = None
        if before is not None:
            await self._abandon(before)

    async def give_up_building(self) -> None:
        """Forget the set that is being built: the settings want another one, or the old one again."""
        if self.building is not None:
            await self._abandon(self.building)
            self.building = None

    async def heal(self, why: str) -> None:
        """Begin with empty tables if ours are the damaged ones; the old file is kept beside them."""
        try:
            if await self.database.read(tables.is_whole):
                return
        except IndexBrokenError:
            pass
        serving, building, self.building = self.serving, self.building, None
        await self._look_at_all(None, {})
        for one in (serving, building):
            if one is not None:
                await one.close()
        await self.database.renew(why)
        await asyncio.to_thread(remove_strays, self._folder / MATRICES, ())

    async def calibrate(self, found: Calibration) -> None:
        """Use what was measured on the serving set."""
        serving = self.serving
        if serving is not None:
            await self.database.write(lambda connection: tables.set_calibration(connection, serving.id, found))
            serving.calibration = found
            self._changed()

    async def _serve(self, chosen: VectorSet, rows: Mapping[bytes, int]) -> None:
        await self.database.write(lambda connection: tables.serve(connection, chosen.id))
        chosen.state = tables.SERVING
        await self._look_at_all(chosen, rows)

    async def _look_at_all(self, serving: VectorSet | None, rows: Mapping[bytes, int]) -> None:
        """Make the columns of chunks from the index, and let this set serve.

        What changes while the index is read is done again afterwards. Until then everything is answered as before.
        """
        while True:
            renewals, self._changes = self._renewals, []
            try:
                places = await self._index.places()
                table, missing = await asyncio.to_thread(columns_of, places, rows)
                changes = self._changes
            finally:
                self._changes = None
            if renewals == self._renewals:
                break
        self.serving = serving
        self._table, self._missing = table, missing
        self._changed()
        for change in changes:
            self._apply(change)

    async def _abandon(self, given_up: VectorSet) -> None:
        await given_up.close()
        await self._drop(given_up.id)

    async def _drop(self, set_id: int) -> None:
        await self.database.write(lambda connection: tables.drop_set(connection, set_id))
        await asyncio.to_thread(remove_set, self._folder / MATRICES, set_id)

    def embedder_of(self, one: VectorSet) -> Embedder | None:
        """The model that makes vectors like those of a set, None where it is there no more."""
        current = self._embedders.current()
        fits = current is not None and comparable(current.signature, one.signature)
        return current if fits else self._embedders.of(one.signature)

    def _readable(self, one: VectorSet) -> bool:
        """False for a matrix that somebody has cut: it is made anew, and until then words alone answer."""
        if not one.is_whole():
            one.doubt(self._changed)
        return one.is_whole()

    def _index_changed(self, change: IndexChange) -> None:
        if self._changes is not None:
            self._changes.append(change)
        self._apply(change)
        for told in self._told:
            told([place.id for place in change.added])

    def _apply(self, change: IndexChange) -> None:
        self._table.remove(change.removed)
        for chunk in change.removed:
            self._missing.remove(chunk)
        add_places(self._table, self._missing, change.added, {})
        self._changed()

    def _forget_all(self) -> None:
        self._renewals += 1
        self._table, self._missing = ChunkTable(), MissingVectors()
        self._changed()

    def _changed(self) -> None:
        self.version += 1

    def _say(self, fault: str) -> None:
        if fault and fault != self.fault:
            log.warning("memory: questions are answered by words alone: %s", fault)
        self.fault = fault
