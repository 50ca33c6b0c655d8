"""``python -m bench.memory.declarations``: what a declaration costs in a server with 10,000 and 100,000 notes.

The way of a real turn: the placeholder source with its gate, both searches, fusion, diversity and rendering, over a
home of notes, its index and its vectors. The vectors are those of hashing, so that nothing of it is the time of a
model; each question is asked once, so that no cache answers. Then how soon an edited note is found again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from app.config.home_folders import make_home
from app.config.snapshot import load
from app.extend import Found, NotesChanged, PromptContext
from app.memory.index.words import query_words
from app.services import Services
from bench.memory.scale import peak_megabytes

NOTEBOOKS = 12
QUESTIONS = 60
EDITS = 20
COMMON, RARE = 400, 20_000
LONGEST_SECONDS = 3600.0
SYLLABLES = "天地人山水火风云花草书画车船灯茶米豆鱼鸟月星雨雪春夏秋冬东西南北金木石田心手口目日夜红白青黑大小高长"
BY_ALL = "|".join(f"本{number}" for number in range(NOTEBOOKS))
FORMS = {
    "[[one notebook]]": "[[本3日记本]]",
    "[[all notebooks]]": f"[[{BY_ALL}日记本]]",
    "[[all, ::Time::Group::TagMemo]]": f"[[{BY_ALL}日记本::Time::Group::TagMemo]]",
    "《《one notebook》》 (gated)": "《《本3日记本》》",
}


class Writer:
    """Makes notes and questions of made-up words, of which few are frequent and most are rare."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        words = ["".join(self._dice.choices(SYLLABLES, k=self._dice.choice((2, 2, 3)))) for _ in range(RARE)]
        self._frequent, self._rare = words[:COMMON], words[COMMON:]

    def words(self, count: int) -> list[str]:
        """Some words, three in four of them frequent ones."""
        return [self._dice.choice(self._rare if self._dice.random() < 0.25 else self._frequent) for _ in range(count)]

    def note(self) -> str:
        """A note of one chunk."""
        day = f"2025-{self._dice.randrange(1, 13):02d}-{self._dice.randrange(1, 29):02d}"
        lines = ["，".join(self.words(8)) + "。" for _ in range(5)]
        return "\n".join((f"[{day}] - 小克", *lines, f"Tag: {', '.join(self.words(3))}", ""))

    def question(self) -> str:
        """What somebody asks."""
        return f"还记得{'、'.join(self.words(5))}的事吗？上周说过的。"


async def measure(notes: int) -> dict[str, object]:
    """All figures for so many notes; times in milliseconds."""
    told: dict[str, object] = {"notes": notes, "load": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory(prefix="vcp-declarations-") as folder:
        home = Path(folder)
        make_home(home)
        lines = (
            "Key=any",
            "API_URL=http://127.0.0.1:9",
            "MemoryEmbedder=hashing",
            "RunStaticPlugins=false",
            "MemoryBackgroundShare=1",
        )
        (home / "config.env").write_text("\n".join((*lines, "RunStaticPlugins=false\n")), encoding="utf-8")
        root, writer = home / "dailynote", Writer(1)
        for number in range(notes):
            path = root / f"本{number % NOTEBOOKS}" / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(writer.note(), encoding="utf-8")
        services = Services(load(home, {}), "any")
        began, used = time.perf_counter(), time.process_time()
        async with services.running_parts():
            await _full(services, notes)
            told["build_wall_s"] = round(time.perf_counter() - began, 1)
            told["build_cpu_s"] = round(time.process_time() - used, 1)
            told["forms"] = {name: await _asked(services, writer, text) for name, text in FORMS.items()}
            told["edit"] = await _edited(services, root, notes)
            told["peak_megabytes"] = peak_megabytes()
    return told


async def _full(services: Services, notes: int) -> None:
    until = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < until:
        await asyncio.sleep(0.05)
        index, vectors = services.memory.index.index, services.memory.vectors.vectors
        if index is None or vectors is None or vectors.serving is None:
            continue
        books = index.notebooks().values()
        if sum(book.notes for book in books) == notes and len(vectors.with_vectors()) == sum(b.chunks for b in books):
            return
    sys.exit("bench.memory.declarations: the index was not full in time")


async def _asked(services: Services, writer: Writer, declaration: str) -> dict[str, float]:
    source = services.memory.recall.source
    walls, cpus, filled = [], [], 0
    for number in range(QUESTIONS + 5):
        context = PromptContext("m", [{"role": "user", "content": writer.question()}])
        found = re.search(source.pattern, declaration)
        assert found is not None
        wall, cpu = time.perf_counter(), time.process_time()
        answers = await source.resolve([Found(declaration, found.groups())], context)
        if number >= 5:  # the first ones load what later ones share
            walls.append(1000 * (time.perf_counter() - wall))
            cpus.append(1000 * (time.process_time() - cpu))
            text = answers[declaration]
            filled += bool(text if isinstance(text, str) else text.text)
    return {
        "wall_p50": round(statistics.median(walls), 1),
        "wall_p95": round(sorted(walls)[int(0.95 * len(walls))], 1),
        "cpu_p50": round(statistics.median(cpus), 1),
        "filled": filled / QUESTIONS,
    }


async def _edited(services: Services, root: Path, notes: int) -> dict[str, float]:
    """From the moment a changed note is on the disk and told of until its new words and its vector are found."""
    index, vectors = services.memory.index.index, services.memory.vectors.vectors
    assert index is not None and vectors is not None
    by_words, by_meaning, cpus = [], [], []
    for number in range(EDITS):
        path = root / f"本{number % NOTEBOOKS}" / f"{number}.txt"
        mark = f"zxq{number}marker"
        path.write_text(path.read_text("utf-8").replace("\n", f"\n{mark}，", 1), encoding="utf-8")
        began, cpu = time.perf_counter(), time.process_time()
        services.events.publish(NotesChanged((path.relative_to(root).as_posix(),)))
        found: list[tuple[int, float]] = []
        while not found:
            await asyncio.sleep(0.001)
            found = await index.lexical(query_words(mark), None, 1)
        by_words.append(1000 * (time.perf_counter() - began))
        while not (await vectors.of_chunks([found[0][0]]))[0]:  # noqa: ASYNC110  it is asked as a declaration asks
            await asyncio.sleep(0.001)
        by_meaning.append(1000 * (time.perf_counter() - began))
        cpus.append(1000 * (time.process_time() - cpu))
    names = (("words_p50", by_words), ("words_and_vector_p50", by_meaning), ("cpu_p50", cpus))
    return {name: round(statistics.median(values), 1) for name, values in names}


def main() -> None:
    """Measure each number of notes in a process of its own, and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory.declarations", description=__doc__)
    parser.add_argument("--notes", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--one", action="store_true", help="one measurement in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asyncio.run(measure(options.notes[0])), indent=1, ensure_ascii=False), flush=True)
        return
    run = partial(subprocess.run, check=True)
    for notes in options.notes:
        run([sys.executable, "-m", "bench.memory.declarations", "--one", "--notes", str(notes)])


if __name__ == "__main__":
    main()
