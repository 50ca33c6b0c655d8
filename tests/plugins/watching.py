"""What the tests of processes share: signals by files, and questions about processes and descriptors."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

OK = '{"status":"success","result":"ok"}'

READY = "open('ready.tmp', 'w').close(); os.rename('ready.tmp', 'ready')\n"
"""A line of a script that tells that it has come this far."""


async def appears(path: Path) -> None:
    """Wait until a child has made the file."""
    async with asyncio.timeout(30):
        # Nobody is told when a file comes; looking again is bounded and decides nothing.
        while not path.exists():  # noqa: ASYNC240 - see above
            await asyncio.sleep(0.005)


def lives(pid: int) -> bool:
    """Whether the process exists and is no zombie that somebody else has yet to reap."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def vanishes(pid: int) -> None:
    """Wait until a process that was sent SIGKILL is gone."""
    async with asyncio.timeout(30):
        while lives(pid):
            await asyncio.sleep(0.005)


def children() -> set[int]:
    """Processes, zombies too, whose parent this one is."""
    text = Path(f"/proc/self/task/{os.getpid()}/children")
    return {int(pid) for pid in text.read_text().split()} if text.exists() else set()


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}
