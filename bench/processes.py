"""What the system knows of a process and of everything it started (Linux: ``/proc``)."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A process at one moment: resident memory in MiB, open files, and the processes that come from it."""

    memory: float
    files: int
    offspring: int

    def __str__(self) -> str:
        return f"{self.memory:.0f} MiB, {self.files} open files, {self.offspring} processes"


def snapshot(pid: int, mark: str) -> Snapshot:
    """How a process is now; ``mark`` as in ``offspring``."""
    pages = int((PROC / str(pid) / "statm").read_text().split()[1])
    files = sum(1 for _ in (PROC / str(pid) / "fd").iterdir())
    return Snapshot(pages * _PAGE / 2**20, files, len(offspring(pid, mark)))


def offspring(pid: int, mark: str) -> list[int]:
    """Processes that the process started, and theirs.

    Children are known by their parent, zombies too. Those that lost their parent are known by ``mark``, which stands in
    the environment that all of them inherit.
    """
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == pid:
            continue
        with contextlib.suppress(OSError):  # it ended while we looked, or belongs to somebody else
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid or mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found
