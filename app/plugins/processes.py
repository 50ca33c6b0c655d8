"""Runs plugin processes: within limits, to a complete output, and never leaving one behind that should be gone.

What happens to the process group of a call:

* answered: helpers that the plugin started are left alone, counted, and ended when the server stops (D41);
* time-out, interrupt, crash, no answer, too much output: SIGTERM, ``stop_seconds``, SIGKILL, reaped; a second cancel
  does not skip that (D27).

Helpers that left the group are treated like it, where they can be found (``strays.py``).

A server that is killed outright cannot end anything; its children then find their pipes closed, which ends those that
print. What would tie their lives to the server's (``PR_SET_PDEATHSIG``) has to be asked for between fork and exec:
that takes a program of its own in front of every plugin, and it ends the first process only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar

from app.plugins.child import REAP_SECONDS, SETTLE_SECONDS, Child, group_lives, group_members, signal_group
from app.plugins.places import Limits, Place, Places
from app.plugins.strays import is_marked, kill_strays, signal_strays

GROUP_POLL_SECONDS = 0.05
THREADED_READ_BYTES = 1024 * 1024
"""Outputs larger than this are read as JSON in a thread."""

Answer = TypeVar("Answer")


class Ending(StrEnum):
    """How a process came to its end, as far as the call is concerned."""

    ANSWERED = "answered"
    SILENT = "silent"  # ended, but what it printed is no answer
    TIMED_OUT = "timed_out"
    FLOODED = "flooded"  # printed more than the limit
    STOPPED = "stopped"  # the server is stopping


@dataclass(frozen=True, slots=True)
class Job:
    """One process to run. ``timeout`` in seconds counts from its start (D40); ``max_running`` is the plugin's own cap.

    ``deadline``, a time of the loop's clock, shortens both the waiting for a place and the running.
    """

    name: str
    argv: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    stdin: bytes
    timeout: float
    max_running: int | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Ran(Generic[Answer]):
    """A process that was run: the answer read from its output, the output itself, the last bytes of its stderr."""

    ending: Ending
    answer: Answer | None
    stdout: bytearray
    stderr: bytearray
    exit_code: int | None


class Processes:
    """All plugin processes of the server."""

    def __init__(self, limits: Limits | None = None, *, threads: bool = not hasattr(os, "killpg")) -> None:
        self.limits = limits or Limits()
        self._threads = threads
        self._mark = f"{secrets.token_hex(8)}."
        self._started = 0
        self._places = Places(self.limits)
        self._running: dict[Child, asyncio.Timeout] = {}
        self._left: set[Child] = set()
        self._stopping = False

    @property
    def running(self) -> int:
        """Processes that a call waits for."""
        return self._places.running

    @property
    def waiting(self) -> int:
        """Calls that wait for a place."""
        return self._places.waiting

    def left_groups(self) -> tuple[int, ...]:
        """Process groups that live on after their plugin answered (D41)."""
        self._prune()
        return tuple(child.pid for child in self._left if _lives(child))

    async def start(self) -> None:
        """Nothing to do; the counterpart of ``stop``."""

    async def run(
        self, job: Job, read: Callable[[bytearray], Answer | None], started: Callable[..., None]
    ) -> Ran[Answer]:
        """Run one process and return when its output is complete (D15).

        ``read`` finds the answer in the standard output, or None. Raises QueueError without a place, StoppingError,
        OSError when the process cannot be started. Cancelling ends the process group before the cancellation goes on.
        """
        place = await self._places.take(job.name, job.max_running, _left_until(job.deadline))
        try:
            return await self._run(job, read, started, place)
        finally:
            place.release()

    async def _run(
        self, job: Job, read: Callable[[bytearray], Answer | None], started: Callable[..., None], place: Place
    ) -> Ran[Answer]:
        self._started += 1
        child = Child(
            job.argv,
            folder=job.folder,
            environment=job.environment,
            stdin=job.stdin,
            output_limit=self.limits.output_bytes,
            mark=f"{self._mark}{self._started}.",
            threads=self._threads,
        )
        child.spoke.add_done_callback(lambda _: place.started())
        slow = asyncio.get_running_loop().call_later(self.limits.starting_seconds, place.started)
        ending, answer = Ending.TIMED_OUT, None
        try:
            until_deadline = _left_until(job.deadline)
            seconds = job.timeout if until_deadline is None else min(job.timeout, until_deadline)
            async with asyncio.timeout(seconds) as limit:
                self._running[child] = limit
                started(pid=child.pid)
                ending, answer = await self._watch(child, read)
        except TimeoutError:
            ending = Ending.STOPPED if self._stopping else Ending.TIMED_OUT
        finally:
            slow.cancel()
            stdout = child.stdout
            if ending is Ending.ANSWERED:
                self._leave(child)
            else:
                await _see_through(asyncio.ensure_future(self._end(child)))
        return Ran(ending, answer, stdout, child.stderr, child.exit_code)

    async def _watch(self, child: Child, read: Callable[[bytearray], Answer | None]) -> tuple[Ending, Answer | None]:
        await _first(child.exited, child.closed, child.flooded)
        if child.closed.done() and not child.exited.done():
            # Its pipes are at their end, so the output is complete; the exit code usually follows at once.
            await asyncio.wait({child.exited}, timeout=SETTLE_SECONDS)
            if not child.exited.done():
                answer = await _read(child, read)
                if answer is not None:
                    return Ending.ANSWERED, answer
                await _first(child.exited)
        if child.exited.done():
            await child.drain()
        if child.flooded.done():
            return Ending.FLOODED, None
        answer = await _read(child, read)
        if answer is None and not child.closed.done():
            # A launcher may be gone before the process it started has printed the answer.
            await _first(child.closed, child.flooded, timeout=SETTLE_SECONDS)
            answer = await _read(child, read)
        if child.flooded.done():
            return Ending.FLOODED, None
        return (Ending.SILENT if answer is None else Ending.ANSWERED), answer

    def _leave(self, child: Child) -> None:
        """Let go of a child that has answered; what it left running goes on."""
        self._forget(child)
        child.discard()
        _reap(child)
        self._left.add(child)
        self._prune()

    async def _end(self, child: Child) -> None:
        """SIGTERM to the group, a pause, SIGKILL, and only then the leader is reaped."""
        try:
            child.signal(kill=False)
            loop = asyncio.get_running_loop()
            last = loop.time() + self.limits.stop_seconds
            strays = await asyncio.to_thread(signal_strays, child.mark, {child.pid}, kill=False)
            await _first(child.exited, timeout=self.limits.stop_seconds)
            await _first(child.closed, timeout=max(0.0, last - loop.time()))
            # The rest of the group has the same time; nothing tells when processes end that are no children of ours.
            while _remains(child, strays) and loop.time() < last:  # noqa: ASYNC110 - no event to wait for
                await asyncio.sleep(GROUP_POLL_SECONDS)
            child.signal(kill=True)
            await asyncio.to_thread(kill_strays, child.mark, {child.pid})
            await _first(child.exited, timeout=REAP_SECONDS)
        except asyncio.CancelledError:
            # Only a loop that is being torn down cancels this; nothing may be waited for in it any more.
            child.signal(kill=True)
            kill_strays(child.mark, {child.pid})
            child.reap_now()
            raise
        finally:
            _reap(child)
            child.close_pipes()
            self._forget(child)

    def _forget(self, child: Child) -> None:
        self._running.pop(child, None)
        if not child.done_with.done():
            child.done_with.set_result(None)

    def _prune(self) -> None:
        self._left = {child for child in self._left if _lives(child) or not child.closed.done()}

    async def stop(self) -> None:
        """End everything: waiting calls, running processes, what answered plugins left behind. Bounded in time."""
        self._stopping = True
        self._places.close()
        now = asyncio.get_running_loop().time()
        for limit in self._running.values():
            # A run that has met its limit, or was cancelled, is being ended already and cannot be hurried.
            with contextlib.suppress(RuntimeError):
                limit.reschedule(now)
        try:
            await asyncio.gather(self._end_running(), self._end_left())
        finally:
            for child in self._left:
                _signal_left(child, kill=True)
                child.reap_now()
                child.close_pipes()
            self._left.clear()
            if self._started:
                kill_strays(self._mark, ())

    async def _end_running(self) -> None:
        waits = [child.done_with for child in self._running]
        await _first_all(waits, timeout=self.limits.stop_seconds + 2 * REAP_SECONDS)
        for child in tuple(self._running):
            # Whoever ran it is stuck somewhere else; the process goes all the same.
            await self._end(child)

    async def _end_left(self) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time() + self.limits.stop_seconds
        for child in self._left:
            _signal_left(child, kill=False)
        strays: list[int] = []
        if self._started:
            groups = {child.pid for child in (*self._left, *self._running)}
            strays = await asyncio.to_thread(signal_strays, self._mark, groups, kill=False)

        def remain() -> bool:
            return any(_lives(child) for child in self._left) or any(is_marked(pid, self._mark) for pid in strays)

        # They are no children of ours, so nothing tells when they end.
        while remain() and loop.time() < last:  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(GROUP_POLL_SECONDS)


def _left_until(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())


def _lives(child: Child) -> bool:
    """Whether anything of an answered child's group is left."""
    return not child.exited.done() or group_lives(child.pid)


def _remains(child: Child, strays: Sequence[int]) -> bool:
    """Whether anything of a child's group or of its known strays still runs, as far as the system tells."""
    return group_members(child.pid, unknown=False) or any(is_marked(pid, child.mark) for pid in strays)


def _reap(child: Child) -> None:
    """Collect the exit status now, or as soon as there is one."""
    if child.exited.done():
        child.reap()
    else:
        child.exited.add_done_callback(lambda _: child.reap())


def _signal_left(child: Child, kill: bool) -> None:
    if child.exited.done():
        signal_group(child.pid, kill)
    else:
        child.signal(kill)


async def _read(child: Child, read: Callable[[bytearray], Answer | None]) -> Answer | None:
    if len(child.stdout) <= THREADED_READ_BYTES:
        return read(child.stdout)
    return await asyncio.to_thread(read, bytearray(child.stdout))


async def _first(*futures: asyncio.Future[None], timeout: float | None = None) -> None:
    """Wait until one of the futures is done or the time is over; never cancels them."""
    await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)


async def _first_all(futures: list[asyncio.Future[None]], timeout: float) -> None:
    if futures:
        await asyncio.wait(futures, timeout=timeout)


async def _see_through(ending: asyncio.Future[None]) -> None:
    """Wait for a bounded piece of work to its end, whatever is cancelled meanwhile; then let the cancellation go on."""
    cancelled = False
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled or ending.cancelled():
        raise asyncio.CancelledError
    ending.result()
