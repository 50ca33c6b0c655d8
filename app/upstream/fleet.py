"""What is known of each upstream while the server runs, and the queue for places at those that have a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from app.extend import UpstreamTarget
from app.upstream.health import Health
from app.upstream.plainer import ModelsWithoutTools
from app.upstream.urls import host_of

MAX_WAITING = 10_000
"""Requests that may wait for a place; further ones get none."""

MAX_KNOWN = 1024
"""Upstreams that are remembered; reloads bring new ones, the oldest are forgotten."""


class Standing:
    """One upstream: its health, the requests that run there, models that know no tools, counts since the start.

    ``limit`` is the most that may run, None for any number; ``attempts`` were made, ``faults`` of them brought no
    answer. A request that has taken a place gives it back with ``release``, once.
    """

    __slots__ = ("_fleet", "attempts", "faults", "health", "limit", "running", "without_tools")

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.health = Health()
        self.without_tools = ModelsWithoutTools()
        self.limit: int | None = None
        self.running = 0
        self.attempts = 0
        self.faults = 0

    @property
    def has_room(self) -> bool:
        """Whether one more request may run."""
        return self.limit is None or self.running < self.limit

    def take(self) -> None:
        """Take a place; the caller has seen that there is room."""
        self.running += 1

    def release(self) -> None:
        """Give a place back, to whoever waits longest for it."""
        self.running -= 1
        self._fleet.place_left(self)


@dataclass(frozen=True, slots=True)
class UpstreamStatus:
    """What a person sees of one upstream; ``resting`` are the seconds of pause that are left, 0 while it is sound.

    ``name`` is empty for that of ``API_URL``; ``host`` has no password in it.
    """

    name: str
    host: str
    running: int
    max_running: int | None
    failures: int
    resting: float
    attempts: int
    faults: int


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    wanted: Sequence[Standing]
    place: asyncio.Future[Standing]


class Fleet:
    """The standings of all upstreams; outlives a reload, so that a pause and a running request keep counting."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], Standing] = {}
        self._waiting: list[_Waiter] = []

    @property
    def waiting(self) -> int:
        """How many requests wait for a place."""
        return len(self._waiting)

    def standing(self, target: UpstreamTarget) -> Standing:
        """The standing of this upstream; another address or key makes it another one."""
        key = (target.name, target.base_url, target.api_key)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MAX_KNOWN:
                del self._known[next(iter(self._known))]
            found = self._known[key] = Standing(self)
        if found.limit != target.max_running:
            found.limit = target.max_running
            self.place_left(found)
        return found

    def status(self, target: UpstreamTarget, now: float) -> UpstreamStatus:
        """What a person sees of this upstream at this time of the clock."""
        it = self.standing(target)
        return UpstreamStatus(
            target.name,
            host_of(target.base_url),
            it.running,
            it.limit,
            it.health.failures,
            it.health.rest(now),
            it.attempts,
            it.faults,
        )

    async def wait(self, wanted: Sequence[Standing], seconds: float) -> Standing | None:
        """Wait for a place at one of these; it is taken. None when there was none in time, or too many wait."""
        if len(self._waiting) >= MAX_WAITING:
            return None
        waiter = _Waiter(wanted, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            await asyncio.wait({waiter.place}, timeout=seconds)
        except asyncio.CancelledError:
            if waiter.place.done():  # given in the very moment
                waiter.place.result().release()
            raise
        finally:
            if not waiter.place.done():
                self._waiting.remove(waiter)
        return waiter.place.result() if waiter.place.done() else None

    def place_left(self, standing: Standing) -> None:
        """Hand the free places of this upstream to those who wait for it, the longest first."""
        if not self._waiting:
            return
        for waiter in [waiter for waiter in self._waiting if standing in waiter.wanted]:
            if not standing.has_room:
                return
            standing.take()
            waiter.place.set_result(standing)
            self._waiting.remove(waiter)
