"""Approximate search in large sets: most rows are never looked at, and what is found is scored exactly (9.3).

The index is a picture of the matrix at one moment, which nobody changes: for each row it keeps a mark of the text whose
vector lay there. A row whose mark is another one now (new, used again) is searched exactly, one without a text is not
searched at all; so additions and deletions count at once, and the picture is taken anew when too much has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from app.memory.embedders.embedder import Vector
from app.memory.vectors.matrix import GATHERED
from app.memory.vectors.set_files import BUILDING_PREFIX, index_paths

log = logging.getLogger(__name__)

PROGRAM: Final = Path(__file__).with_name("approximate_program.py")
PROBES = 32
"""Lists that are looked at of about 2 for each square root of the vectors; measured in ``bench/memory/scale.py``."""

MOST_PROBES = 256
RESCORED = 100
"""Rows at least that are scored exactly."""

FRESH_SHARE = 8
"""The index is built anew when one row in so many is not in it."""

FRESH_ROWS = 20_000
BUILD_SECONDS = 4 * 3600
MOST_CANDIDATES = 4096
"""Who wants more gets an exact search."""

FILTERED_SHARE = 16
"""Of a filter that leaves less than one row in so many, too few lie in the lists that are read."""

_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PATH")

Marks = NDArray[np.uint64]
"""The first eight bytes of a text's SHA-256 by row, 0 where there is no vector."""


def mark_of(sha: bytes) -> int:
    """The mark of a text; never 0."""
    return int.from_bytes(sha[:8], "little") or 1


@dataclass(frozen=True, slots=True)
class ApproximateIndex:
    """One picture: the index of faiss and the marks of its rows. Searching it from several threads is safe."""

    index: Any
    marks: Marks

    def covers(self, marks: Marks) -> NDArray[np.bool_]:
        """Which rows are now what they were when the picture was taken."""
        known = np.zeros(len(marks), bool)
        count = min(len(marks), len(self.marks))
        known[:count] = (self.marks[:count] == marks[:count]) & (marks[:count] != 0)
        return known

    def candidates(self, query: Vector, rows: NDArray[np.int64], marks: Marks, count: int) -> NDArray[np.int64]:
        """Places in ``rows`` that are worth an exact score: about ``count`` near ones, and all that are new."""
        allowed = np.zeros(len(marks), bool)
        allowed[rows] = True
        known = self.covers(marks)
        chosen = allowed & ~known
        chosen[self.nearest(query, allowed & known, max(RESCORED, count))] = True
        return np.flatnonzero(chosen[rows])

    def nearest(self, query: Vector, allowed: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
        """About the ``count`` nearest of the allowed rows, in no order; fewer a filter leaves, more lists are read."""
        import faiss

        left = int(np.count_nonzero(allowed))
        if not left:
            return np.empty(0, np.int64)
        bits = np.packbits(allowed, bitorder="little")
        selector = faiss.IDSelectorBitmap(len(bits), faiss.swig_ptr(bits))
        probes = min(MOST_PROBES, max(PROBES, PROBES * int(self.index.ntotal) // left))
        parameters = faiss.SearchParametersIVF(sel=selector, nprobe=probes)  # type: ignore[call-arg]
        _, found = self.index.search(query.reshape(1, -1), min(count, left), params=parameters)
        rows: NDArray[np.int64] = found[0]
        return rows[rows >= 0]


def pays(wanted: int, rows: int, exact_vectors: int) -> bool:
    """Whether scoring ``wanted`` of ``rows`` rows exactly takes longer than ``exact_vectors`` rows that lie together.

    Where the filter leaves too few for the lists, only whether there are more than ``exact_vectors`` of them.
    """
    few = wanted * FILTERED_SHARE < rows
    return (wanted if few else min(GATHERED * wanted, rows)) > exact_vectors


def load(folder: Path, set_id: int) -> ApproximateIndex | None:
    """The index as it was saved, None where there is none that is whole. Blocking.

    A damaged file is never given to faiss, which trusts what it reads.
    """
    index_path, marks_path = index_paths(folder, set_id)
    try:
        with marks_path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            marks, digest = kept["marks"], kept["digest"].tobytes()
        with index_path.open("rb") as file:
            if file_digest(file, "sha256").digest() != digest or marks.dtype != np.uint64 or marks.ndim != 1:
                raise ValueError("it is not the file that was saved")
        import faiss

        return ApproximateIndex(faiss.read_index(str(index_path)), marks)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, ImportError, BadZipFile) as error:
        log.warning("memory: the approximate index of vector set %d is built anew: %s", set_id, type(error).__name__)
        return None


async def build(folder: Path, set_id: int, matrix: Path, dimension: int, marks: Marks) -> bool:
    """Build the index of these rows of the matrix in a process of its own, and save it; whether it is there.

    Ends the process when it is cancelled. Raises OSError without room for the files.
    """
    work = Path(tempfile.mkdtemp(prefix=BUILDING_PREFIX, dir=folder))
    try:
        rows, out = work / "rows.npy", work / "index"
        await asyncio.to_thread(np.save, rows, np.flatnonzero(marks).astype(np.int64))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-B", str(PROGRAM), str(matrix), str(dimension), str(rows), str(out)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            cwd=os.sep,
            env={name: os.environ[name] for name in _KEPT if name in os.environ} | {"OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        said = await _ended(process)
        if process.returncode != 0:
            log.warning("memory: the approximate index cannot be built, search stays exact: %s", said[-300:])
            return False
        await asyncio.to_thread(_publish, folder, set_id, out, marks)
        return True
    finally:
        await asyncio.to_thread(shutil.rmtree, work, True)


async def _ended(process: asyncio.subprocess.Process) -> str:
    """Wait for it without its standard input being closed, which would end it. What it said at last."""
    said = b""
    try:
        async with asyncio.timeout(BUILD_SECONDS):
            while process.stderr is not None and (part := await process.stderr.read(4096)):
                said = (said + part)[-4096:]
            await process.wait()
    except TimeoutError:
        said = b"it took too long"
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.stdin is not None:
            process.stdin.close()
    return said.decode("utf-8", "replace").strip()


def _publish(folder: Path, set_id: int, out: Path, marks: Marks) -> None:
    index_path, marks_path = index_paths(folder, set_id)
    with out.open("rb") as file:
        digest = file_digest(file, "sha256").digest()
        os.fsync(file.fileno())
    kept = out.with_name("marks.npz")
    np.savez(kept, marks=marks, digest=np.frombuffer(digest, np.uint8))
    # Either file alone is not whole: the digest in the second one says which first one it belongs to.
    out.replace(index_path)
    kept.replace(marks_path)
