"""The vectors of one set as a matrix that lies mapped in a file (memory.md 9.3, 11.25).

The file is a copy for quick reading: SQLite has the vectors too, with the row of each. Rows are written and synced
before SQLite commits them, so a row that SQLite names is in the file; what is not can be written again at any time.
"""

from __future__ import annotations

import logging
import mmap
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.memory.embedders.embedder import Matrix, Vector

log = logging.getLogger(__name__)

GROWTH_ROWS = 4096
"""The file grows by so many rows at least, and by an eighth."""

HIGHEST = 1.01
"""No cosine of two vectors of length 1 is higher, whatever was rounded."""

BLOCK_BYTES = 64 * 1024 * 1024
"""Of the matrix that one multiplication reads; between blocks other threads come to their turn."""


class MatrixFile:
    """Rows of float32 in a file. Not safe for threads: the owner holds a lock while it writes.

    Readers take ``rows`` once and work on it; growing maps the file anew and leaves the old mapping to them.
    """

    def __init__(self, path: Path, dimension: int) -> None:
        self.path = path
        self.dimension = dimension
        self.rows: Matrix = np.empty((0, dimension), np.float32)
        self._descriptor = -1

    @property
    def capacity(self) -> int:
        """Rows that the file has room for."""
        return int(self.rows.shape[0])

    def open(self) -> None:
        """Map the file, or make an empty one. Raises OSError."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(self.path, flags, 0o600)
        self._map(os.fstat(self._descriptor).st_size // (4 * self.dimension))

    def is_whole(self) -> bool:
        """Whether the file is as long as what is mapped of it: the system ends a program that reads beyond its end."""
        return self._descriptor < 0 or os.fstat(self._descriptor).st_size >= self.capacity * 4 * self.dimension

    def lengthen(self) -> None:
        """Give a file that somebody cut its length again, with zeros. Raises OSError without room."""
        _allocate(self._descriptor, self.capacity * 4 * self.dimension)

    def close(self) -> None:
        """Give the file back; readers that still hold ``rows`` keep what they have."""
        self.rows = np.empty((0, self.dimension), np.float32)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def write(self, vectors: Mapping[int, Vector]) -> None:
        """Put vectors into rows and wait until the disk has them. Raises OSError; ENOSPC leaves the rest as it was."""
        if not vectors:
            return
        needed = max(vectors) + 1
        if needed > self.capacity:
            self._grow(needed)
        for row, vector in vectors.items():
            self.rows[row] = vector
        os.fsync(self._descriptor) if self._shared is None else self._shared.flush()

    def _grow(self, needed: int) -> None:
        rows = max(needed, self.capacity + max(GROWTH_ROWS, self.capacity // 8))
        _allocate(self._descriptor, rows * 4 * self.dimension)
        self._map(rows)

    def _map(self, rows: int) -> None:
        self._shared: mmap.mmap | None = None
        if rows == 0:
            self.rows = np.empty((0, self.dimension), np.float32)
            return
        self._shared = mmap.mmap(self._descriptor, rows * 4 * self.dimension)
        self.rows = np.frombuffer(self._shared, np.float32).reshape(rows, self.dimension)


def _allocate(descriptor: int, size: int) -> None:
    allocate = getattr(os, "posix_fallocate", None)
    if allocate is None:
        os.ftruncate(descriptor, size)
    else:  # a hole in a mapped file on a full disk would end the process with SIGBUS
        allocate(descriptor, 0, size)


def scores_of(rows: Matrix, query: Vector, wanted: NDArray[np.int64]) -> NDArray[np.float32]:
    """The cosine of the query with each wanted row, in the order of ``wanted``; all vectors have length 1.

    Few rows are gathered, many are read as they lie; in blocks either way. One core computes: a product of matrix and
    vector would be shared out among all cores, and on a busy machine waits for the last of them fifty times as long.
    """
    query = np.ascontiguousarray(query, np.float32)
    block = max(1, BLOCK_BYTES // (4 * max(1, rows.shape[1])))
    scores = np.empty(len(wanted), np.float32)
    if not len(wanted):
        return scores
    last = int(wanted.max()) + 1
    with np.errstate(all="ignore"):  # of a damaged file; see ``are_cosines``
        if len(wanted) * 4 < last:
            for start in range(0, len(wanted), block):
                np.vecdot(rows[wanted[start : start + block]], query, out=scores[start : start + block])
            return scores
        all_rows = np.empty(last, np.float32)
        for start in range(0, last, block):
            end = min(last, start + block)
            np.vecdot(rows[start:end], query, out=all_rows[start:end])
    return all_rows[wanted]


def are_cosines(scores: NDArray[np.float32]) -> bool:
    """False where a row cannot be a vector of length 1: somebody wrote into the file."""
    with np.errstate(invalid="ignore"):
        return bool(np.all(np.abs(scores) <= HIGHEST))


def best(scores: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
    """Places of the ``limit`` highest scores, highest first; equal ones in the order of their places."""
    count = min(limit, len(scores))
    if count <= 0:
        return np.empty(0, np.int64)
    if count < len(scores):
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
        above = np.flatnonzero(scores > least)
        equal = np.flatnonzero(scores == least)[: count - len(above)]
        places = np.concatenate((above, equal))
    else:
        places = np.arange(len(scores))
    return places[np.lexsort((places, -scores[places]))]


def unit(vector: Iterable[float] | NDArray[np.float32]) -> Vector | None:
    """The vector with length 1 as float32, or None for one that has no direction or holds what is no number."""
    array = np.asarray(vector, np.float32)
    length = float(np.linalg.norm(array.astype(np.float64)))
    if array.ndim != 1 or not np.isfinite(length) or length == 0.0:
        return None
    return (array / np.float32(length)).astype(np.float32)
