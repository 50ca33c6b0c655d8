"""One set of vectors of one signature: its tables and its matrix, held together (memory.md 9.3, 11.3)."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from app.errors import VcpError, both
from app.memory.embedders.embedder import Calibration, Matrix, Vector
from app.memory.index.database import Database, IndexUnavailableError
from app.memory.vectors import tables
from app.memory.vectors.approximate import ApproximateIndex, Marks, mark_of
from app.memory.vectors.matrix import MatrixFile

log = logging.getLogger(__name__)

CHECKED_ROWS = 256
"""Rows of the file that are compared with the tables when it is opened."""

REBUILD_ROWS = 8192
"""Rows that are written at a time when the matrix is made anew from the tables."""


class VectorSet:
    """The vectors of one signature. Coroutines; the matrix is written under a lock, and read without."""

    def __init__(self, row: tables.SetRow, database: Database, folder: Path) -> None:
        self.id = row.id
        self.signature = row.signature
        self.dimension = row.dimension
        self.state = row.state
        self.calibration: Calibration | None = row.calibration
        self.path = folder / f"{row.id}.f32"
        self._database = database
        self._matrix = MatrixFile(self.path, row.dimension)
        self._lock = threading.Lock()
        self._closed = False
        self._next = 0
        self._free: list[int] = []
        self._writing = asyncio.Lock()
        self._healing: asyncio.Task[None] | None = None
        self._cut = False
        self._adding: set[asyncio.Task[dict[bytes, int]]] = set()
        self._marks: Marks = np.zeros(0, np.uint64)
        self.count = 0
        self.approximate: ApproximateIndex | None = None
        """For sets that are too large to look at every row."""

    @property
    def rows(self) -> Matrix:
        """The matrix as it is now; what grows later is not in it."""
        return self._matrix.rows

    def is_whole(self) -> bool:
        """Whether the matrix may be read: not once somebody has cut its file, and not while ``doubt`` heals it.

        What is cut between this look and the reading still ends the program; a look takes a microsecond.
        """
        self._cut = self._cut or not self._matrix.is_whole()
        return not (self._cut or self.healing)

    @property
    def marks(self) -> Marks:
        """Which text each row is of, as the approximate index remembers it; 0 for a row that is free."""
        return self._marks[: self._next]

    @property
    def size(self) -> int:
        """Bytes of the matrix."""
        return self._matrix.capacity * 4 * self.dimension

    async def open(self) -> dict[bytes, int]:
        """Map the matrix, made anew from the tables where it is not what they say; the row of every text.

        Raises OSError when there is no room for it.
        """
        rows = await self._database.read(lambda connection: tables.all_rows(connection, self.id))
        await asyncio.to_thread(self._open_file)
        self.count = len(rows)
        used = np.fromiter(rows.values(), np.int64, len(rows))
        self._next = int(used.max()) + 1 if len(used) else 0
        self._mark(rows)
        self._free = np.setdiff1d(np.arange(self._next), used).tolist()
        if not await self._is_sound(used):
            log.warning("memory: the matrix of vector set %d is made anew from its tables", self.id)
            await self._rebuild()
        return rows

    async def close(self) -> None:
        """Give the file back."""
        self._closed = True  # at once: making a large matrix anew ends then
        async with self._writing:
            await asyncio.to_thread(self._close_file)

    async def add(self, vectors: Mapping[bytes, Vector]) -> dict[bytes, int]:
        """Keep vectors by the SHA-256 of their texts; the row of each. Those that are there keep their row.

        Raises OSError and the errors of ``Database``; then nothing is kept, and nothing is lost either.
        """
        # Half of it must not be done: whoever asked may be gone before the tables are written, and the row is used.
        task = asyncio.ensure_future(self._add(vectors))
        self._adding.add(task)
        task.add_done_callback(self._added)
        return await asyncio.shield(task)

    def _added(self, task: asyncio.Task[dict[bytes, int]]) -> None:
        self._adding.discard(task)
        if not task.cancelled():
            task.exception()  # if nobody is left to hear it

    async def _add(self, vectors: Mapping[bytes, Vector]) -> dict[bytes, int]:
        async with self._writing:
            if self._closed:
                raise IndexUnavailableError(both("已关闭", "it is closed"))
            known = await self._database.read(lambda connection: tables.known_rows(connection, self.id, vectors))
            free, following = list(self._free), self._next
            new: dict[bytes, tuple[int, Vector]] = {}
            for sha, vector in vectors.items():
                if sha in known or vector.shape != (self.dimension,) or not np.isfinite(vector).all():
                    continue
                row = free.pop() if free else following
                following = max(following, row + 1)
                new[sha] = row, vector
            # The file first: a row that the tables name must be in it, whenever the power goes.
            await asyncio.to_thread(self._write_rows, {row: vector for row, vector in new.values()})
            await self._database.write(lambda connection: tables.add_vectors(connection, self.id, new))
            self._free, self._next = free, following
            self.count += len(new)
            placed = {sha: row for sha, (row, _) in new.items()}
            self._mark(placed)
            return known | placed

    async def remove(self, rows: Mapping[bytes, int]) -> None:
        """Forget vectors; their rows are used again."""
        async with self._writing:
            await self._database.write(lambda connection: tables.remove_vectors(connection, self.id, rows))
            self._free.extend(rows.values())
            self._marks[list(rows.values())] = 0
            self.count -= len(rows)

    async def rows_of(self, shas: Iterable[bytes]) -> dict[bytes, int]:
        """The rows of those texts that have a vector."""
        wanted = list(shas)
        return await self._database.read(lambda connection: tables.known_rows(connection, self.id, wanted))

    def _mark(self, rows: Mapping[bytes, int]) -> None:
        if self._next > len(self._marks):
            grown = np.zeros(max(self._next, len(self._marks) * 5 // 4), np.uint64)
            grown[: len(self._marks)] = self._marks
            self._marks = grown
        for sha, row in rows.items():
            self._marks[row] = mark_of(sha)

    def _close_file(self) -> None:
        with self._lock:
            self._matrix.close()

    def _open_file(self) -> None:
        with self._lock:
            self._matrix.open()

    def _lengthen(self) -> None:
        with self._lock:
            if not self._matrix.is_whole():
                self._matrix.lengthen()

    def _write_rows(self, vectors: Mapping[int, Vector]) -> None:
        with self._lock:
            if not self._matrix.is_whole():
                self._matrix.lengthen()
                self._cut = True
            self._matrix.write(vectors)

    async def _is_sound(self, used: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bool:
        if self._next > self._matrix.capacity:
            return False
        ordered = np.sort(used)
        step = max(1, len(ordered) // CHECKED_ROWS)
        looked_at = [*ordered[::step].tolist(), *ordered[-1:].tolist()]
        kept = await self._database.read(lambda connection: self._in_rows(connection, looked_at))
        return all(np.array_equal(vector, self._matrix.rows[row]) for row, vector in kept.items())

    def _in_rows(self, connection: sqlite3.Connection, rows: Iterable[int]) -> dict[int, Vector]:
        found: dict[int, Vector] = {}
        for row in rows:
            found.update(tables.vectors_in_rows(connection, self.id, row, row + 1))
        return found

    @property
    def healing(self) -> bool:
        """Whether the matrix is being made anew."""
        return self._healing is not None and not self._healing.done()

    def doubt(self, healed: Callable[[], None]) -> None:
        """Rows were read that are no vectors: write all of them anew from the tables, in the background."""
        if not self.healing:
            self._healing = asyncio.create_task(self._heal(), name="memory vectors heal")
            self._healing.add_done_callback(lambda _: healed())

    async def _heal(self) -> None:
        log.warning("memory: the matrix of vector set %d is damaged and made anew from its tables", self.id)
        try:
            async with self._writing:
                if not self._closed:
                    await asyncio.to_thread(self._lengthen)
                    self._cut = False  # what is cut from now on is seen by the writing, or by the next look
                    await self._rebuild()
        except (VcpError, OSError) as error:
            log.warning("memory: the matrix cannot be made anew: %s", getattr(error, "message", "") or error)

    async def _rebuild(self) -> None:
        for first in range(0, self._next, REBUILD_ROWS):
            if self._closed:
                return
            await asyncio.to_thread(self._write_rows, await self._kept(first))

    async def _kept(self, first: int) -> dict[int, Vector]:
        last = first + REBUILD_ROWS
        return await self._database.read(lambda connection: tables.vectors_in_rows(connection, self.id, first, last))
