"""Background plugins: a process that answers first and works afterwards (spec 5.6 asynchronous; D14, D27).

The first answer is taken at once, whatever the process does then. From there on nobody waits for it: what it prints is
read and forgotten, it is reaped when it ends, and it is ended with the server or at the end of its longest life.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from app.errors import both
from app.extend import Clock
from app.plugins.child import Child
from app.plugins.objects import FirstObject
from app.plugins.output import Answer, read_answer, read_object
from app.plugins.places import QueueError
from app.plugins.processes import Job, Processes, Ran

LOOK_TOKENS = 2_000
"""Tokens of output looked at in one go: a few milliseconds, then everybody else has a turn."""

STOP_SECONDS = 5.0
"""How long the stop of the server waits until the last ends have been told."""


@dataclass(frozen=True, slots=True)
class BackgroundLimits:
    """How many background processes may live, and how many seconds one may live after its answer (0: no limit)."""

    living: int = 64
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class BackgroundProcess:
    """A background process that lives on: whose it is, since when (epoch), which call and tasks it works for."""

    plugin: str
    pid: int
    started: float
    call_id: str
    tasks: tuple[str, ...] = ()


Ended = Callable[[BackgroundProcess, int | None], Coroutine[Any, Any, None]]
"""Told when a background process has ended, with its exit code (negative: a signal)."""


class FirstAnswer:
    """Finds the first answer in a growing output."""

    def __init__(self) -> None:
        self._objects = FirstObject()

    def look(self, stdout: bytearray) -> Answer | bool:
        """The answer, True when there is more to look at, False when there is none so far."""
        found = self._objects.look(stdout, LOOK_TOKENS)
        if isinstance(found, bool):
            return found
        return read_object(stdout[found[0] : found[1]]) or True


@dataclass(slots=True, eq=False)
class _Life:
    process: BackgroundProcess
    child: Child
    end: asyncio.TimerHandle | None = None


class BackgroundProcesses:
    """All processes of background plugins, from their start to their end."""

    def __init__(self, processes: Processes, limits: Callable[[], BackgroundLimits], clock: Clock) -> None:
        self._processes = processes
        self._limits = limits
        self._clock = clock
        self._starting = 0
        self._lives: set[_Life] = set()
        self._work: set[asyncio.Task[None]] = set()

    def living(self) -> tuple[BackgroundProcess, ...]:
        """The processes that have answered and still run, oldest first."""
        return tuple(sorted((life.process for life in self._lives), key=lambda process: process.started))

    async def run(
        self,
        job: Job,
        started: Callable[..., None],
        *,
        call_id: str,
        tasks: Callable[[Answer], tuple[str, ...]],
        ended: Ended,
    ) -> Ran[Answer]:
        """Start a process and return its first answer; ``tasks`` reads from that what it works on.

        A process that reports an error lives on like any other until it ends by itself. Raises QueueError when too many
        live already, and what ``Processes.run`` raises.
        """
        limit = self._limits().living
        if self._starting + len(self._lives) >= limit:
            raise QueueError(
                both(
                    f'插件 "{job.name}" 没有启动：已有 {limit} 个后台进程（BackgroundMaxRunning）',
                    f'plugin "{job.name}" was not started: {limit} background processes live already '
                    "(BackgroundMaxRunning)",
                )
            )
        self._starting += 1
        lives: list[_Life] = []
        begun = self._clock()

        def begin(pid: int) -> None:
            nonlocal begun
            begun = self._clock()
            started(pid=pid)

        def keep(child: Child) -> None:
            lives.append(self._keep(_Life(BackgroundProcess(job.name, child.pid, begun, call_id), child), ended))

        try:
            ran = await self._processes.run_until_answer(job, FirstAnswer().look, read_answer, begin, keep)
        finally:
            self._starting -= 1
        if ran.answer is not None:
            for life in lives:
                life.process = replace(life.process, tasks=tasks(ran.answer))
        return ran

    def _keep(self, life: _Life, ended: Ended) -> _Life:
        self._lives.add(life)
        seconds = self._limits().seconds
        if seconds:
            life.end = asyncio.get_running_loop().call_later(seconds, self._expire, life.child)
        life.child.exited.add_done_callback(functools.partial(self._ended, life, ended))
        return life

    def _expire(self, child: Child) -> None:
        self._start(self._processes.end_left(child))

    def _ended(self, life: _Life, ended: Ended, _: asyncio.Future[None]) -> None:
        self._lives.discard(life)
        if life.end is not None:
            life.end.cancel()
        self._start(ended(life.process, life.child.exit_code))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def settle(self) -> None:
        """Wait until every process has ended by itself, however long that takes."""
        while self._lives:
            await asyncio.wait([life.child.exited for life in self._lives])

    async def stop(self) -> None:
        """End every process, running or answered, and see to it that the end of each is told. Bounded in time."""
        await self._processes.stop()
        await asyncio.sleep(0)  # the ends that were just seen become work
        if self._work:
            await asyncio.wait(tuple(self._work), timeout=STOP_SECONDS)
