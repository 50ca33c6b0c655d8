"""The end of the server: one deadline for all that runs, and one for all that has to be ended (P83)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from app.extend import Clock

log = logging.getLogger(__name__)

END_SECONDS = 12.0
"""Longest time, after the grace, for ending all parts one after the other."""

LEAST_SECONDS = 0.5
"""What a part has to end even when that time is over."""


class Stopping:
    """Tells whoever waits for running work how long it may wait.

    ``grace`` are the seconds that running work has, from the moment at which the stop begins and not from part to part;
    ``end_seconds`` those that ending the parts takes at most. ``timer`` gives seconds of any steady clock.
    """

    def __init__(
        self,
        grace: Callable[[], float],
        end_seconds: Callable[[], float] = lambda: END_SECONDS,
        timer: Clock = time.monotonic,
    ) -> None:
        self._grace = grace
        self._end_seconds = end_seconds
        self._timer = timer
        self._until: float | None = None
        self._waiting: set[asyncio.Event] = set()
        self._told: list[Callable[[], None]] = []

    @property
    def begun(self) -> bool:
        """True from the first call of ``begin``."""
        return self._until is not None

    def at_begin(self, told: Callable[[], None]) -> None:
        """Call ``told`` once, when the stop begins: for what only waits for news and would be waited for itself.

        It is called at once when that was already. It must be quick and must not raise.
        """
        if self.begun:
            told()
        else:
            self._told.append(told)

    def begin(self, seconds: float | None = None) -> None:
        """The stop begins, with ``seconds`` for running work or the grace; later calls can only shorten it."""
        if seconds is None:
            if self._until is not None:
                return
            seconds = self._grace()
        until = self._timer() + seconds
        self._until = until if self._until is None else min(self._until, until)
        for changed in self._waiting:
            changed.set()
        while self._told:
            self._told.pop(0)()

    def left(self) -> float:
        """Seconds that running work still has."""
        return max(0.0, self._left(0))

    async def wait(self, tasks: Collection[asyncio.Task[Any]]) -> None:
        """Wait until all of these have ended, or the time that they have is over. Cancels nothing."""
        await self._wait(tasks, self.left)

    async def end(self, stop: Callable[[], Awaitable[None]]) -> None:
        """Stop one part; one that does not end in time is left behind, with a line in the log. Raises what it raises.

        The log names the function.
        """
        self.begin()
        task = asyncio.ensure_future(stop())
        least = self._timer() + LEAST_SECONDS
        try:
            await self._wait((task,), lambda: max(self._left(self._end_seconds()), least - self._timer()))
            if not task.done():
                task.cancel()
                await asyncio.wait((task,), timeout=LEAST_SECONDS)
        finally:
            task.cancel()  # nothing happens when it is done
        if not task.done() or task.cancelled():
            log.error("%s has not ended in time, the server goes without it", getattr(stop, "__qualname__", stop))
        else:
            task.result()

    def _left(self, more: float) -> float:
        self.begin()
        assert self._until is not None
        return self._until + more - self._timer()

    async def _wait(self, tasks: Collection[asyncio.Future[Any]], left: Callable[[], float]) -> None:
        """Wait for all of these as long as ``left`` says; it is asked again when the stop is to be quicker."""
        if not tasks:
            return
        changed = asyncio.Event()
        self._waiting.add(changed)
        ended = asyncio.ensure_future(asyncio.wait(tasks))
        try:
            while not ended.done() and (seconds := left()) > 0:
                changed.clear()
                hurried = asyncio.ensure_future(changed.wait())
                await asyncio.wait((ended, hurried), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                hurried.cancel()
        finally:
            ended.cancel()
            self._waiting.discard(changed)
