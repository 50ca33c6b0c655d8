"""What the tests of processes share: signals by files, and questions about processes and descriptors."""

from __future__ import annotations

import os
from pathlib import Path

from tests.waiting import until

OK = '{"status":"success","result":"ok"}'

READY = "open('ready.tmp', 'w').close(); os.rename('ready.tmp', 'ready')\n"
"""A line of a script that tells that it has come this far."""


async def appears(path: Path) -> None:
    """Wait until a child has made the file."""
    await until(path.exists)


def lives(pid: int) -> bool:
    """Whether the process exists and is no zombie that somebody else has yet to reap."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def vanishes(pid: int) -> None:
    """Wait until a process that was sent SIGKILL is gone."""
    await until(lambda: not lives(pid))


def children() -> set[int]:
    """Processes, zombies too, whose parent this one is."""
    text = Path(f"/proc/self/task/{os.getpid()}/children")
    return {int(pid) for pid in text.read_text().split()} if text.exists() else set()


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}
