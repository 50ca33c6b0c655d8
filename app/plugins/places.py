"""Who may start a process now: a cap on running ones, on starting ones, on each plugin's own, and a bounded queue."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass

from app.errors import VcpError, both


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of plugin processes; times in seconds.

    ``starting`` counts processes that have neither printed anything nor ended nor passed ``starting_seconds``: many
    interpreters that load at the same time only make each other slow. ``stop_seconds`` lie between SIGTERM and SIGKILL.
    """

    running: int = 64
    queued: int = 1000
    queue_seconds: float = 60.0
    starting: int = 2 * (os.cpu_count() or 1)
    starting_seconds: float = 0.1
    output_bytes: int = 64 * 1024 * 1024
    stop_seconds: float = 2.0


class QueueError(VcpError):
    """A call got no place to run: the queue is full, or waiting took too long."""

    status = 503
    code = "plugin_queue"


class StoppingError(VcpError):
    """The server is stopping; nothing is started any more."""

    status = 503
    code = "stopping"


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    name: str
    limit: int | None
    granted: asyncio.Future[None]


class Place:
    """One granted place; ``started`` and ``release`` may be called more than once."""

    __slots__ = ("_places", "_running", "_starting", "name")

    def __init__(self, places: Places, name: str) -> None:
        self.name = name
        self._places = places
        self._running = True
        self._starting = True

    def started(self) -> None:
        """The process has come up: another one may start."""
        if self._starting:
            self._starting = False
            self._places.starting -= 1
            self._places.grant()

    def release(self) -> None:
        """The process has ended."""
        if self._running:
            self._running = False
            self._places.left(self.name)
            self.started()
            self._places.grant()


class Places:
    """Hands out places in the order they were asked for; a plugin at its own limit does not hold up others."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queue: list[_Waiter] = []
        self._by_name: Counter[str] = Counter()
        self._closed = False
        self.running = 0
        self.starting = 0

    def limit(self, limits: Limits) -> None:
        """Let in by these limits from now on; whoever is in stays."""
        self._limits = limits
        self.grant()

    @property
    def waiting(self) -> int:
        """How many calls wait for a place."""
        return len(self._queue)

    async def take(self, name: str, limit: int | None, seconds: float | None = None) -> Place:
        """Wait for a place for plugin ``name``, which may run ``limit`` times at once.

        Waits ``queue_seconds`` or ``seconds``, whichever is less. Raises QueueError or StoppingError.
        """
        if self._closed:
            raise StoppingError(both("服务器正在关闭", "the server is stopping"))
        if not self._queue and self._free(name, limit):
            return self._enter(name)
        if len(self._queue) >= self._limits.queued:
            raise QueueError(
                both(
                    f'插件 "{name}" 没有空位：已有 {self._limits.queued} 个调用在排队',
                    f'no place for plugin "{name}": {self._limits.queued} calls are waiting already',
                )
            )
        waiter = _Waiter(name, limit, asyncio.get_running_loop().create_future())
        self._queue.append(waiter)
        self.grant()
        allowed = self._limits.queue_seconds if seconds is None else max(0.0, min(seconds, self._limits.queue_seconds))
        try:
            await asyncio.wait({waiter.granted}, timeout=allowed)
        except asyncio.CancelledError:
            self._give_up(waiter)
            raise
        if not waiter.granted.done():
            self._give_up(waiter)
            raise QueueError(
                both(
                    f'插件 "{name}" 在 {allowed:g} 秒内没有等到空位：正在运行的调用太多',
                    f'no place for plugin "{name}" within {allowed:g} s: too many calls are running',
                )
            )
        if waiter.granted.cancelled():
            raise StoppingError(both("服务器正在关闭", "the server is stopping"))
        return Place(self, name)

    def _give_up(self, waiter: _Waiter) -> None:
        if waiter in self._queue:
            self._queue.remove(waiter)
        elif not waiter.granted.cancelled():
            Place(self, waiter.name).release()  # it was granted in the same moment

    def _room(self) -> bool:
        return self.running < self._limits.running and self.starting < self._limits.starting

    def _free(self, name: str, limit: int | None) -> bool:
        if not self._room():
            return False
        return limit is None or self._by_name[name] < limit

    def _enter(self, name: str) -> Place:
        self._count(name)
        return Place(self, name)

    def _count(self, name: str) -> None:
        self.running += 1
        self.starting += 1
        self._by_name[name] += 1

    def left(self, name: str) -> None:
        """One process of this plugin has ended."""
        self.running -= 1
        self._by_name[name] -= 1
        if not self._by_name[name]:
            del self._by_name[name]

    def grant(self) -> None:
        """Let in whoever can come in, first come first served."""
        if not self._queue:
            return
        for waiter in tuple(self._queue) if self._room() else ():
            if not self._room():
                return
            if self._free(waiter.name, waiter.limit):
                self._queue.remove(waiter)
                self._count(waiter.name)
                waiter.granted.set_result(None)

    def close(self) -> None:
        """Refuse everybody from now on, those who wait included."""
        self._closed = True
        for waiter in self._queue:
            waiter.granted.cancel()
        self._queue.clear()
