"""Kill -9 of a process that syncs, at random moments; then the index has to equal a clean rebuild.

``python -m bench.memory.kill_sync [--rounds 100] [--seed 1]``; exits with 1 when one index differs.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.memory.index.doctor import dump, faults_of
from app.memory.index.memory_index import INDEX_FILE, MemoryIndex
from app.memory.index.note_files import NoteRules
from app.memory.index.sync import Sync, SyncPace

NOTES = 150
LONGEST_SECONDS = 1.0
TOPICS = (
    "火锅",
    "显卡",
    "量子计算",
    "旅行",
    "咖啡",
    "音乐会",
    "天气",
    "电影",
    "RX-7900",
    "deployment",
    "meeting notes",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many rounds there were, how many of them met the child at work, how many indexes were not as they should."""

    rounds: int
    killed: int
    different: int


def killed_syncs(
    folder: Path, *, rounds: int, seed: int, notes: int = NOTES, said: Callable[[str], None] = lambda _line: None
) -> Outcome:
    """Each round: some notes change, a child syncs and is killed, we sync to the end and compare."""
    rng = random.Random(seed)
    root = folder / "dailynote"
    root.mkdir()
    for number in range(notes):
        _write(root, rng, number)
    killed = different = 0
    for number in range(rounds):
        child = subprocess.Popen([sys.executable, "-m", "bench.memory.kill_sync", "--child", str(folder)])
        try:
            ready = folder / "ready"
            until = time.monotonic() + 60
            while not ready.exists() and child.poll() is None and time.monotonic() < until:
                time.sleep(0.005)
            ready.unlink(missing_ok=True)
            for _ in range(rng.randrange(1, 30)):
                _change(root, rng, notes)
            time.sleep(rng.random() ** 2 * LONGEST_SECONDS)
            killed += child.poll() is None
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        ours, faults = asyncio.run(_synced(root, folder / INDEX_FILE))
        clean, _ = asyncio.run(_synced(root, folder / "clean" / str(number)))
        if ours != clean or faults:
            different += 1
            said(f"round {number}: {faults or 'the index is not the one of a clean rebuild'}")
    return Outcome(rounds, killed, different)


def _write(root: Path, rng: random.Random, number: int) -> None:
    path = root / f"本{number % 5}" / f"{number}.txt"
    path.parent.mkdir(exist_ok=True)
    lines = [f"第{n}行：{rng.choice(TOPICS)}，编号{rng.randrange(10**6)}。" for n in range(rng.choice((3, 8, 60)))]
    tags = ", ".join(rng.sample(TOPICS, 3))
    temporary = path.with_name(f".{number}.tmp")
    temporary.write_text(f"[2025-11-{number % 28 + 1:02d}] - 小克\n" + "\n".join(lines) + f"\nTag: {tags}", "utf-8")
    temporary.replace(path)


def _change(root: Path, rng: random.Random, notes: int) -> None:
    kind, number = rng.randrange(5), rng.randrange(notes)
    path = root / f"本{number % 5}" / f"{number}.txt"
    if kind == 0:
        path.unlink(missing_ok=True)
    elif kind == 1 and path.exists():
        target = root / f"归档{rng.randrange(3)}" / path.name
        target.parent.mkdir(exist_ok=True)
        path.replace(target)
    elif kind == 2 and path.exists():
        path.write_text(path.read_text("utf-8").replace("编号", "号码", 1), "utf-8")
    else:
        _write(root, rng, number)


async def _synced(root: Path, file: Path) -> tuple[list[str], list[str]]:
    index = MemoryIndex(file)
    sync = Sync(lambda: root, index, NoteRules, lambda: SyncPace(share=1.0))
    try:
        await sync.caught_up()
        lines = await index.database.read(lambda connection: list(dump(connection)))
        return lines, await index.database.read(faults_of)
    finally:
        await index.stop()


async def _child(folder: Path) -> None:
    index = MemoryIndex(folder / INDEX_FILE)
    sync = Sync(lambda: folder / "dailynote", index, NoteRules, lambda: SyncPace(share=1.0, batch=7))
    await sync.start()
    (folder / "ready").touch()
    while True:
        await asyncio.sleep(0.01)
        sync.glance()


def main() -> None:
    """Entry point of ``python -m bench.memory.kill_sync``."""
    parser = argparse.ArgumentParser(description="kill -9 of a sync, then compare with a clean rebuild")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", type=Path)
    options = parser.parse_args()
    if options.child is not None:
        asyncio.run(_child(options.child))
    with tempfile.TemporaryDirectory() as folder:
        outcome = killed_syncs(Path(folder), rounds=options.rounds, seed=options.seed, said=print)
    print(f"{outcome.rounds} rounds, {outcome.killed} times killed at work, {outcome.different} indexes differ")
    sys.exit(1 if outcome.different else 0)


if __name__ == "__main__":
    main()
