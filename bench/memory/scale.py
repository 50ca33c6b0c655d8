"""``python -m bench.memory.scale``: search in 10,000, 100,000 and 1,000,000 vectors: time, memory, what is found.

The vectors are synthetic: points around centres of unequal size, of unit length, 384 numbers each. Every measurement
runs in a process of its own, whose memory nobody else has used. Recall is against the exact answer, which is found
block by block while the vectors are handed over, so that it costs the measured process no memory of note.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, quantiles
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.memory.embedding import Vectors

DIMENSIONS = 384
SIZES = (10_000, 100_000, 1_000_000)
QUESTIONS = 200
NEIGHBOURS = 10
BLOCK = 10_000
CLUSTER = 80
"""So many vectors share a centre, on average."""
SPREAD = 0.9
"""Length of the random part of a vector, beside that of its centre."""
NOTE = 3
"""Vectors of one edited note: what is removed and added again."""
MEBI = 2**20

Ids = NDArray[np.int64]


class Engine(Protocol):
    """Nearest neighbours by inner product."""

    name: str

    def add(self, ids: Ids, vectors: Vectors) -> None:
        """Take in vectors of unit length."""
        ...

    def finish(self) -> None:
        """Make what was added searchable, if that is not so yet."""
        ...

    def search(self, question: Vectors, k: int) -> Ids:
        """The ids of the ``k`` nearest, the nearest first."""
        ...

    def remove(self, ids: Ids) -> None:
        """Forget these."""
        ...


class Exact:
    """Every vector is looked at: one float32 matrix."""

    name = "numpy, exact"

    def __init__(self, size: int) -> None:
        self._matrix = np.zeros((size + BLOCK, DIMENSIONS), dtype=np.float32)
        self._ids = np.full(size + BLOCK, -1, dtype=np.int64)
        self._used = 0

    def add(self, ids: Ids, vectors: Vectors) -> None:
        """Copy them to the end."""
        end = self._used + len(ids)
        self._matrix[self._used : end] = vectors
        self._ids[self._used : end] = ids
        self._used = end

    def finish(self) -> None:
        """Nothing is left to do."""

    def search(self, question: Vectors, k: int) -> Ids:
        """The highest products."""
        scores = self._matrix[: self._used] @ question
        some = np.argpartition(-scores, k)[:k]
        found: Ids = self._ids[some[np.argsort(-scores[some])]]
        return found

    def remove(self, ids: Ids) -> None:
        """The last ones move into the gaps."""
        for place in np.flatnonzero(np.isin(self._ids[: self._used], ids))[::-1]:
            self._used -= 1
            self._matrix[place] = self._matrix[self._used]
            self._ids[place] = self._ids[self._used]


ENGINES: Mapping[str, Callable[[int], Engine]] = {"exact": Exact}


@dataclass(frozen=True, slots=True)
class Figures:
    """One engine at one size; times of a search and an edit in milliseconds, memory in MiB above the bare process."""

    engine: str
    size: int
    build_seconds: float
    build_cpu_seconds: float
    memory: float
    peak_memory: float
    search_p50: float
    search_p95: float
    edit: float
    recall: float


def vectors(size: int, seed: int = 0) -> Iterator[tuple[Ids, Vectors]]:
    """Blocks of ids and vectors; the same for a size and a seed."""
    chance = np.random.default_rng(seed)
    centres = _unit(chance.standard_normal((max(1, size // CLUSTER), DIMENSIONS), dtype=np.float32))
    for begin in range(0, size, BLOCK):
        count = min(BLOCK, size - begin)
        chosen = (len(centres) * chance.random(count) ** 2).astype(np.int64)
        noise = _unit(chance.standard_normal((count, DIMENSIONS), dtype=np.float32))
        yield np.arange(begin, begin + count), _unit(centres[chosen] + SPREAD * noise)


def _unit(rows: Vectors) -> Vectors:
    made: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return made.astype(np.float32, copy=False)


def questions(size: int, count: int = QUESTIONS, seed: int = 0) -> Vectors:
    """Vectors near to some of the first ones, as questions are."""
    chance = np.random.default_rng(seed + 1)
    _, first = next(vectors(size, seed))
    near = first[chance.integers(0, len(first), count)]
    return _unit(near + 0.5 * _unit(chance.standard_normal(near.shape, dtype=np.float32)))


class Truth:
    """The exact nearest ones, found while blocks go by."""

    def __init__(self, asked: Vectors, k: int) -> None:
        self._asked = asked
        self._scores = np.full((len(asked), k), -np.inf, dtype=np.float32)
        self._ids = np.full((len(asked), k), -1, dtype=np.int64)

    def see(self, ids: Ids, rows: Vectors) -> None:
        """Another block."""
        scores = np.hstack([self._scores, self._asked @ rows.T])
        names = np.hstack([self._ids, np.broadcast_to(ids, (len(self._asked), len(ids)))])
        order = np.argsort(-scores, axis=1, kind="stable")[:, : self._scores.shape[1]]
        self._scores = np.take_along_axis(scores, order, axis=1)
        self._ids = np.take_along_axis(names, order, axis=1)

    def recall(self, found: Sequence[Ids]) -> float:
        """Which share of the exact neighbours was found, as a mean."""
        pairs = zip(self._ids, found, strict=True)
        return fmean(len(np.intersect1d(wanted, got)) / len(wanted) for wanted, got in pairs)


def measure(name: str, size: int, count: int = QUESTIONS) -> Figures:
    """Build, search, edit; meant for a fresh process."""
    asked = questions(size, count)
    truth = Truth(asked, NEIGHBOURS)
    for ids, rows in vectors(size):
        truth.see(ids, rows)
    before = _resident()
    engine = ENGINES[name](size)
    wall = cpu = 0.0
    for ids, rows in vectors(size):
        begun, worked = time.perf_counter(), time.process_time()
        engine.add(ids, rows)
        wall += time.perf_counter() - begun
        cpu += time.process_time() - worked
    begun, worked = time.perf_counter(), time.process_time()
    engine.finish()
    wall += time.perf_counter() - begun
    cpu += time.process_time() - worked
    after = _resident()
    spent, found = [], []
    for question in asked:
        begun = time.perf_counter()
        found.append(engine.search(question, NEIGHBOURS))
        spent.append(1000 * (time.perf_counter() - begun))
    recall = truth.recall(found)
    begun = time.perf_counter()
    engine.remove(np.arange(NOTE))
    engine.add(np.arange(size, size + NOTE), asked[:NOTE])
    engine.search(asked[0], NEIGHBOURS)
    edit = 1000 * (time.perf_counter() - begun)
    parts = quantiles(spent, n=20)
    return Figures(engine.name, size, wall, cpu, after - before, _peak() - before, parts[9], parts[18], edit, recall)


def _resident() -> float:
    """Resident memory in MiB; 0 where the system does not tell."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MEBI if file.exists() else 0.0


def _peak() -> float:
    """The most memory so far, in MiB."""
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / MEBI if sys.platform == "darwin" else most / 1024


def apart(name: str, size: int, count: int) -> Figures:
    """One measurement in a process of its own."""
    command = [sys.executable, "-m", "bench.memory.scale", "--one", name, str(size), "--questions", str(count)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"bench: {name} with {size} vectors ended with status {done.returncode}: {done.stderr[-500:]}")
    return Figures(**json.loads(done.stdout))


def table(rows: Sequence[Figures]) -> str:
    """The figures as text."""
    head = ("vectors", "engine", "build s", "CPU s", "MiB", "peak MiB", "p50 ms", "p95 ms", "edit ms", "recall@10")
    lines = [head]
    for row in rows:
        times = (f"{row.search_p50:.2f}", f"{row.search_p95:.2f}", f"{row.edit:.2f}", f"{row.recall:.3f}")
        build = (f"{row.build_seconds:.1f}", f"{row.build_cpu_seconds:.1f}", f"{row.memory:,.0f}")
        lines.append((f"{row.size:,}", row.engine, *build, f"{row.peak_memory:,.0f}", *times))
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory.scale", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--engines", nargs="+", choices=sorted(ENGINES), default=sorted(ENGINES))
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        name, size = options.one
        print(json.dumps(asdict(measure(name, int(size), options.questions))))
        return
    rows = []
    for size in options.sizes:
        for name in options.engines:
            print(f"measuring {name} with {size:,} vectors ...", file=sys.stderr, flush=True)
            rows.append(apart(name, size, options.questions))
    print(table(rows))
    print(f"\n{DIMENSIONS} dimensions, {options.questions} questions; {os.cpu_count()} cores, ", end="")
    print(f"Python {platform.python_version()}.")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
