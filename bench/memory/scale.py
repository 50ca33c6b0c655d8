"""``python -m bench.memory.scale``: vectors at 10,000, 100,000 and 1,000,000: build, memory, latency, recall@10.

Synthetic vectors that are harder than well-separated clusters: all share a direction (as those of E5 do), topics
overlap, sizes of topics are skewed, noise has many dimensions, and questions lie between notes. Each measurement runs
in a process of its own. Unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE to measure numpy at its best.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from app.memory.embedders.choice import OFF, Choice
from app.memory.embedders.embedder import Matrix, Vector
from app.memory.embedders.hashing import HashingEmbedder
from app.memory.embedders.query_cache import QueryCache
from app.memory.embedders.roster import Embedders
from app.memory.index.database import Database
from app.memory.index.memory_index import PLACES, MemoryIndex
from app.memory.index.records import ChunkPlace, NotebookState
from app.memory.vectors import approximate, tables
from app.memory.vectors.approximating import Approximating
from app.memory.vectors.matrix import best, scores_of
from app.memory.vectors.sets import VECTORS_FILE, VectorSets

DIMENSION = 384
QUESTIONS = 200
TOPICS, SUBTOPICS = 500, 20
BLOCK = 50_000
NOTEBOOKS = 50
K = 10
ENGINES = ("exact", "faiss", "sets", "usearch")


class Clusters:
    """Makes vectors and questions; the same seed makes the same ones."""

    def __init__(self, seed: int = 7) -> None:
        self._dice = np.random.default_rng(seed)
        self._scale = (1 + np.arange(DIMENSION)) ** -0.35
        self._shared = self._spread(1)
        self._topics = self._spread(TOPICS)
        self._subtopics = self._spread(TOPICS * SUBTOPICS).reshape(TOPICS, SUBTOPICS, DIMENSION)
        share = (1 + np.arange(TOPICS)) ** -0.7
        self._share = share / share.sum()

    def blocks(self, count: int) -> Iterator[Matrix]:
        """``count`` vectors, some at a time."""
        for begin in range(0, count, BLOCK):
            yield self._vectors(min(BLOCK, count - begin))

    def questions(self, vectors: Matrix, count: int) -> Matrix:
        """Questions: half a note, half something else of any topic."""
        chosen: Matrix = vectors[self._dice.choice(len(vectors), count)]
        return _unit(0.75 * chosen + 0.25 * self._vectors(count) + 0.35 * self._spread(count))

    def _vectors(self, count: int) -> Matrix:
        topic = self._dice.choice(TOPICS, count, p=self._share)
        subtopic = self._dice.choice(SUBTOPICS, count)
        noise = self._spread(count) * self._dice.uniform(0.5, 1.1, (count, 1))
        return _unit(0.9 * self._shared + 0.7 * self._topics[topic] + 0.5 * self._subtopics[topic, subtopic] + noise)

    def _spread(self, count: int) -> NDArray[np.float64]:
        return _unit(self._dice.normal(size=(count, DIMENSION)) * self._scale).astype(np.float64)


def _unit(rows: NDArray[np.float64]) -> Matrix:
    unit: Matrix = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def make(folder: Path, count: int) -> None:
    """Put vectors and questions into files of the folder."""
    clusters = Clusters()
    first: Matrix = np.empty((0, DIMENSION), np.float32)
    with (folder / "matrix.f32").open("wb") as file:
        for block in clusters.blocks(count):
            first = first if len(first) else block
            file.write(block.tobytes())
    rows = np.memmap(folder / "matrix.f32", np.float32, "r", shape=(count, DIMENSION))
    picked = np.sort(np.random.default_rng(3).choice(count, min(count, 20_000), replace=False))
    questions = clusters.questions(np.asarray(rows[picked]), QUESTIONS)
    everything = np.arange(count)
    truth = np.stack([best(scores_of(rows, question, everything), K) for question in questions])
    np.savez(folder / "questions.npz", questions=questions, truth=truth)


def measure(folder: Path, count: int, engine: str, build_cpu_seconds: float) -> dict[str, object]:
    """The figures of one engine, measured in this process."""
    with np.load(folder / "questions.npz") as kept:
        questions, truth = kept["questions"], kept["truth"]
    rows = np.memmap(folder / "matrix.f32", np.float32, "r", shape=(count, DIMENSION))
    began, cpu = time.perf_counter(), _cpu()
    found: Callable[[Vector], NDArray[np.int64]]
    done = count
    size = 0
    if engine == "exact":
        everything = np.arange(count)

        def found(question: Vector) -> NDArray[np.int64]:
            return best(scores_of(rows, question, everything), K)

    elif engine == "faiss":
        marks = np.arange(1, count + 1, dtype=np.uint64)
        asyncio.run(approximate.build(folder, 1, folder / "matrix.f32", DIMENSION, marks))
        size = (folder / "1.ivf").stat().st_size
        index = approximate.load(folder, 1)
        if index is None:
            raise SystemExit("the index was not built")
        allowed = np.ones(count, bool)

        def found(question: Vector) -> NDArray[np.int64]:
            near = index.nearest(question, allowed, approximate.RESCORED)
            return near[best(rows[near] @ question, K)]

    else:
        from usearch.index import Index

        graph = Index(
            ndim=DIMENSION, metric="ip", dtype="f16", connectivity=16, expansion_add=128, expansion_search=128
        )
        done = 0
        for begin in range(0, count, 10_000):
            end = min(count, begin + 10_000)
            graph.add(np.arange(begin, end), np.asarray(rows[begin:end]), threads=os.cpu_count() or 1)
            done = end
            if _cpu() - cpu > build_cpu_seconds:
                break
        size = int(graph.memory_usage)

        def found(question: Vector) -> NDArray[np.int64]:
            near = np.asarray(graph.search(question, approximate.RESCORED).keys, np.int64)
            return near[best(rows[near] @ question, K)]

    built, built_cpu = time.perf_counter() - began, _cpu() - cpu
    walls, cpus, hits = [], [], 0
    for question, wanted in zip(questions, truth, strict=True):
        start, start_cpu = time.perf_counter(), time.process_time()
        answer = found(question)
        walls.append(time.perf_counter() - start)
        cpus.append(time.process_time() - start_cpu)
        hits += len(set(answer.tolist()) & set(wanted.tolist()))
    whole = done == count
    return {
        "count": count,
        "engine": engine,
        "built": done,
        "build_wall_s": round(built, 1),
        "build_cpu_s": round(built_cpu, 1),
        "megabytes": round(size / 1e6),
        "rss_megabytes": peak_megabytes(),
        "query_wall_p50_ms": round(1000 * float(np.median(walls)), 2),
        "query_cpu_p50_ms": round(1000 * float(np.median(cpus)), 2),
        "recall@10": round(hits / (QUESTIONS * K), 4) if whole else None,
    }


class _Notes:
    """An index of so many chunks, three to a note, fifty notebooks."""

    def __init__(self, count: int) -> None:
        self._count = count

    def notebooks(self) -> dict[str, NotebookState]:
        return {str(number): NotebookState(number, str(number), 1, 1, 1) for number in range(NOTEBOOKS)}

    def numbers(self, notebooks: Iterable[str] | None) -> list[int] | None:
        return None if notebooks is None else [int(name) for name in notebooks]

    async def places(self) -> AsyncIterator[list[ChunkPlace]]:
        for begin in range(0, self._count, PLACES):
            numbers = range(begin, min(self._count, begin + PLACES))
            yield [ChunkPlace(n + 1, n // 3, n // 3 % NOTEBOOKS, n % 3, 739_000, sha_of(n)) for n in numbers]

    def changed(self, told: object) -> None:
        """Nothing changes."""

    renewed = changed


async def fill(database: Database, signature: str, matrix: Path, count: int) -> None:
    """Make set 1 of empty tables, which serves, with the rows of a matrix; their texts are ``sha_of`` the row."""
    await database.write(lambda connection: tables.make_set(connection, signature, DIMENSION, tables.SERVING, 1))
    rows = np.memmap(matrix, np.float32, "r", shape=(count, DIMENSION))
    for begin in range(0, count, BLOCK):
        part = {sha_of(row): (row, rows[row]) for row in range(begin, min(count, begin + BLOCK))}
        await database.write(partial(_put, part))


def _put(part: Mapping[bytes, tuple[int, Vector]], connection: sqlite3.Connection) -> None:
    tables.add_vectors(connection, 1, part)


def sha_of(row: int) -> bytes:
    """What stands for the SHA-256 of a text; its mark in the approximate index is that of ``measure``."""
    return (row + 1).to_bytes(8, "little") + bytes(24)


async def measure_sets(folder: Path, count: int) -> dict[str, object]:
    """As a server has it: opening, searching all notebooks and some.

    The index is the one that ``faiss`` left in the folder; without one it is built, as a server would.
    """
    with np.load(folder / "questions.npz") as kept:
        questions, truth = kept["questions"], kept["truth"]
    (folder / "vectors").mkdir(exist_ok=True)
    for name, kept_name in (("matrix.f32", "1.f32"), ("1.ivf", "1.ivf"), ("1.marks.npz", "1.marks.npz")):
        if (folder / name).exists() and not (folder / "vectors" / kept_name).exists():
            os.link(folder / name, folder / "vectors" / kept_name)
    database = Database(folder / VECTORS_FILE, tables.VECTOR_TABLES)
    if await database.open():
        await fill(database, "bench|384|", folder / "matrix.f32", count)
    await database.stop()
    forget_peak()
    began, cpu = time.perf_counter(), _cpu()
    embedders = Embedders(lambda: Choice(OFF), lambda _: HashingEmbedder())
    queries = QueryCache(max_size=lambda: 0, ttl=lambda: 0.0, timer=time.monotonic)
    sets = VectorSets(folder, cast(MemoryIndex, _Notes(count)), embedders, queries)
    await sets.open()
    opened, opened_cpu = time.perf_counter() - began, _cpu() - cpu
    await Approximating(sets, lambda: 200_000).step()
    figures: dict[str, object] = {"count": count, "engine": "sets", "open_wall_s": round(opened, 1)}
    figures["open_cpu_s"] = round(opened_cpu, 1)
    for name, notebooks in (("all", None), ("five_of_fifty", [str(number) for number in range(5)])):
        walls, cpus, hits = [], [], 0
        for question, wanted in zip(questions, truth, strict=True):
            start, start_cpu = time.perf_counter(), time.process_time()
            answer = await sets.nearest(question, notebooks, 50)
            walls.append(time.perf_counter() - start)
            cpus.append(time.process_time() - start_cpu)
            hits += len({chunk - 1 for chunk, _ in answer[:K]} & set(wanted.tolist()))
        figures[f"{name}_wall_p50_ms"] = round(1000 * float(np.median(walls)), 2)
        figures[f"{name}_cpu_p50_ms"] = round(1000 * float(np.median(cpus)), 2)
        if notebooks is None:
            figures["recall@10"] = round(hits / (QUESTIONS * K), 4)
    figures["rss_megabytes"] = peak_megabytes()
    await sets.stop()
    return figures


def _cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def forget_peak() -> None:
    """``peak_megabytes`` tells of what comes from now on."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_megabytes() -> int:
    """Megabytes of this process at most, mapped files that are in memory with it."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
    return round(int(found.group(1)) / 1024) if found else 0


def main() -> None:
    """Measure what is asked for, or everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--build-cpu-seconds", type=float, default=1200, help="give up a graph after so long")
    parser.add_argument("--folder", type=Path, help="where the vectors of --one lie")
    parser.add_argument("--one", action="store_true", help="one measurement in this process")
    options = parser.parse_args()
    if options.one:
        count, engine = options.counts[0], options.engines[0]
        if engine == "sets":
            figures = asyncio.run(measure_sets(options.folder, count))
        else:
            figures = measure(options.folder, count, engine, options.build_cpu_seconds)
        print(json.dumps(figures), flush=True)
        return
    for count in options.counts:
        with tempfile.TemporaryDirectory(prefix="vcp-scale-") as folder:
            make(Path(folder), count)
            for engine in options.engines:
                arguments = ["--one", "--folder", folder, "--counts", str(count), "--engines", engine]
                arguments += ["--build-cpu-seconds", str(options.build_cpu_seconds)]
                subprocess.run([sys.executable, "-m", "bench.memory.scale", *arguments], check=True)


if __name__ == "__main__":
    main()
