"""This machine and our own processes: processor, memory, children. All functions read the system and block shortly.

Loading psutil takes a tenth of a second, so whoever uses this module imports it when it is needed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

FRESH_SECONDS = 2.0

MAX_PROCESSES = 200
"""Most children that are told."""


@dataclass(frozen=True, slots=True)
class MachineNow:
    """Processor and memory. ``processor`` is percent of all processors together, ``own_processor`` of one of them.

    Memory is in bytes; ``resident`` and ``private`` are of our process. ``began`` is its start (epoch seconds).
    """

    processor: float
    own_processor: float
    total: int
    used: int
    free: int
    resident: int
    private: int
    began: float


@dataclass(frozen=True, slots=True)
class ProcessNow:
    """One process: percent of one processor, bytes of memory, its start in seconds since the epoch."""

    pid: int
    name: str
    status: str
    processor: float
    resident: int
    began: float


class Machine:
    """Reads the system, at most every ``FRESH_SECONDS``: percentages are of the time since the last reading.

    Those of a process that is seen for the first time are of its life. Any thread may ask.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._own = psutil.Process()
        self._times: dict[tuple[int, float], tuple[float, float]] = {}
        self._lock = threading.Lock()
        self._now: tuple[float, MachineNow] | None = None
        self._processes: tuple[float, tuple[ProcessNow, ...]] | None = None
        psutil.cpu_percent()  # the first answer would be of no time at all
        self._own.cpu_percent()

    def now(self) -> MachineNow:
        """How machine and process are; raises OSError where the system does not tell."""
        with self._lock:
            if self._now is None or not 0 <= self._clock() - self._now[0] < FRESH_SECONDS:
                self._now = self._clock(), self._read()
            return self._now[1]

    def _read(self) -> MachineNow:
        try:
            memory = psutil.virtual_memory()
            own = self._own.memory_info()
            return MachineNow(
                psutil.cpu_percent(),
                self._own.cpu_percent(),
                memory.total,
                memory.total - memory.available,
                memory.available,
                own.rss,
                max(0, own.rss - getattr(own, "shared", 0)),
                self._own.create_time(),
            )
        except psutil.Error as error:
            raise OSError(str(error)) from error

    def processes(self) -> tuple[ProcessNow, ...]:
        """Our process and all below it, of which the first are told; raises OSError where the system does not tell."""
        with self._lock:
            if self._processes is None or not 0 <= self._clock() - self._processes[0] < FRESH_SECONDS:
                self._processes = self._clock(), self._read_processes()
            return self._processes[1]

    def _read_processes(self) -> tuple[ProcessNow, ...]:
        known, self._times = self._times, {}
        try:
            found = [self._own, *self._own.children(recursive=True)[:MAX_PROCESSES]]
        except psutil.Error as error:
            raise OSError(str(error)) from error
        return tuple(one for process in found if (one := self._told(process, known)) is not None)

    def _told(self, process: psutil.Process, known: dict[tuple[int, float], tuple[float, float]]) -> ProcessNow | None:
        now = self._clock()
        try:
            with process.oneshot():
                times, began = process.cpu_times(), process.create_time()
                name, status, resident = process.name(), process.status(), process.memory_info().rss
        except psutil.Error:  # it has ended meanwhile
            return None
        used, key = times.user + times.system, (process.pid, began)
        before, then = known.get(key, (0.0, began))
        self._times[key] = used, now
        percent = 100 * (used - before) / (now - then) if now > then else 0.0
        return ProcessNow(process.pid, name, str(status), round(max(0.0, percent), 1), resident, began)
