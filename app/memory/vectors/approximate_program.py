"""Builds an approximate index in a process of its own: ``python approximate_program.py MATRIX DIMENSION ROWS OUT``.

It needs minutes of computing that cannot be interrupted, so the server starts it with low priority, ends it when it
stops itself, and never waits for it. It reads the matrix through a mapping, and ends when its standard input does.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

LISTS_PER_ROOT = 2
"""Lists for each square root of the number of vectors (2000 for a million)."""

TRAINED_PER_LIST = 50
ROUNDS = 10
BLOCK_ROWS = 32_768
SEED = 1


def build(matrix_path: str, dimension: int, rows_path: str, out: str) -> None:
    """IVF with 8 bits for each number over these rows of the matrix; ids are row numbers."""
    import faiss
    import numpy as np

    faiss.omp_set_num_threads(1)
    capacity = Path(matrix_path).stat().st_size // (4 * dimension)
    matrix = np.memmap(matrix_path, np.float32, "r", shape=(capacity, dimension))
    rows = np.load(rows_path, allow_pickle=False)
    lists = max(1, min(round(LISTS_PER_ROOT * len(rows) ** 0.5), len(rows) // 40))
    chosen = np.sort(np.random.default_rng(SEED).permutation(len(rows))[: lists * TRAINED_PER_LIST])
    quantizer = faiss.IndexFlatIP(dimension)
    index = faiss.IndexIVFScalarQuantizer(
        quantizer, dimension, lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    index.cp.niter = ROUNDS
    index.cp.seed = SEED
    index.cp.spherical = True
    index.train(np.ascontiguousarray(matrix[rows[chosen]]))
    for begin in range(0, len(rows), BLOCK_ROWS):
        part = rows[begin : begin + BLOCK_ROWS]
        index.add_with_ids(np.ascontiguousarray(matrix[part]), part)
    faiss.write_index(index, out)


def _end_with_parent() -> None:
    while os.read(0, 1):  # not through sys.stdin, whose lock would hang the end of the interpreter
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(10)
    build(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
