"""What the panel shows of the server as a whole: numbers over time, the machine, findings of a check, the restart."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from app.config.durable import write_atomic
from app.config.small_file import read_small
from app.config.snapshot import Config
from app.extend import Reloaded
from app.observe.bus import EventBus
from app.observe.history import MAX_FILE_BYTES, OBSERVED, SAMPLE_SECONDS, History, packed, unpacked
from app.services.attention import Attention
from app.services.in_force import InForce
from app.services.restarting import Restart

if TYPE_CHECKING:
    from app.observe.machine import Machine

log = logging.getLogger(__name__)

HISTORY_FILE = Path(".vcp") / "history"
KEEP_SECONDS = 300.0
"""How often the numbers are written to the disk, beside the end of the server."""

KEEP_TIMEOUT = 5.0
"""A disk that hangs is not waited for longer."""

OF_LOADING = ("plugins",)
"""What is told when plugins inside the server have been loaded, which says nothing of files."""

TICK_SECONDS = 1.0
"""How often the event loop's delay is measured."""


CHECK_SECONDS = 60.0
CHECK_SHARE = 50
"""What a check has found is told for so long, and for so many times as long as the check took, unless something was
reloaded meanwhile."""

CHECK_WAIT_SECONDS = 2.0
"""Who asks waits so long for a check; then what the one before has found is told."""


class Checked:
    """What is wrong with the installation, found out in a thread, one check at a time, and remembered for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._check: Callable[[], Sequence[Attention]] | None = None
        self._found: Sequence[Attention] | None = None
        self._until = 0.0
        self._running: asyncio.Task[None] | None = None

    def check_with(self, check: Callable[[], Sequence[Attention]]) -> None:
        """``check`` finds out what is wrong; it blocks."""
        self._check = check

    def outdated(self) -> None:
        """Something has changed: the next who asks starts a check."""
        self._until = 0.0

    async def findings(self) -> Sequence[Attention] | None:
        """What was found; None while nobody can check, or the first check has not ended."""
        if self._check is None:
            return None
        if self._running is None and self._clock() >= self._until:
            self._running = asyncio.create_task(self._run(self._check), name="check")
        if self._running is not None:
            await asyncio.wait((self._running,), timeout=CHECK_WAIT_SECONDS)
        return self._found

    async def stop(self) -> None:
        """Wait for no check any more."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait((self._running,))

    async def _run(self, check: Callable[[], Sequence[Attention]]) -> None:
        began = self._clock()
        self._until = began + CHECK_SECONDS
        try:
            self._found = await asyncio.to_thread(check)
            now = self._clock()
            if self._until:
                self._until = max(self._until, now + CHECK_SHARE * (now - began))
        except (OSError, ValueError, RecursionError) as error:
            log.warning("the installation cannot be checked: %s", error)
        finally:
            self._running = None


class Overview:
    """Made with the server, running beside it. ``read_config`` reads the configuration on disk; it blocks.

    ``blocked`` counts addresses that are refused; whoever refuses them sets it. ``reload_problems`` are those of the
    last reload, beside others.
    """

    def __init__(self, in_force: InForce, events: EventBus, read_config: Callable[[], Config]) -> None:
        self._in_force = in_force
        self.history = History(time.time)
        self.restart = Restart(read_config)
        self.checked = Checked(time.monotonic)
        self.began = time.time()
        self.reload_problems: tuple[str, ...] = ()
        self.blocked: Callable[[], int] = lambda: 0
        self._told = False
        events.listen(self.history.observe, *OBSERVED)
        events.listen(self._reloaded, Reloaded)

    @cached_property
    def machine(self) -> Machine:
        """This machine; the first use blocks."""
        from app.observe.machine import Machine

        return Machine()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take samples while the block runs; only the owner of the home keeps them on disk."""
        keep = self._in_force.owns_home
        path = self._in_force.home / HISTORY_FILE
        if keep:
            await asyncio.to_thread(self._take_over, path)
        sampling = asyncio.create_task(self._sample(path if keep else None), name="samples")
        try:
            yield
        finally:
            sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sampling
            await self.checked.stop()
            if "machine" in self.__dict__:
                self.history.sample(*self._measured(), 0.0)  # what was counted since the last one
            if keep:
                await self._keep(path)

    async def _sample(self, path: Path | None) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(lambda: self.machine)
        longest, ticks, kept = 0.0, 0, loop.time()
        while True:
            before = loop.time()
            await asyncio.sleep(TICK_SECONDS)
            longest, ticks = max(longest, loop.time() - before - TICK_SECONDS), ticks + 1
            if ticks < SAMPLE_SECONDS:
                continue
            processor, resident = self._measured()
            self.history.sample(processor, resident, longest)
            longest, ticks = 0.0, 0
            if path is not None and loop.time() - kept >= KEEP_SECONDS:
                kept = loop.time()
                await self._keep(path)

    def _reloaded(self, event: object) -> None:
        assert isinstance(event, Reloaded)
        if event.parts != OF_LOADING:
            self.reload_problems = event.problems
        self.checked.outdated()

    def _measured(self) -> tuple[float, float]:
        try:
            now = self.machine.now()
        except OSError as error:
            if not self._told:
                self._told = True
                log.warning("the system does not tell what this process uses: %s", error)
            return 0.0, 0.0
        return now.own_processor, now.resident

    def _take_over(self, path: Path) -> None:
        try:
            self.history.take_over(unpacked(read_small(path, MAX_FILE_BYTES)))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s cannot be used (%s); numbers over time begin anew", path, error)

    async def _keep(self, path: Path) -> None:
        data = self.history.kept()
        try:
            async with asyncio.timeout(KEEP_TIMEOUT):
                await asyncio.to_thread(_write, path, data)
        except OSError as error:  # a TimeoutError is one too
            log.warning("%s cannot be written (%s); numbers over time will have a gap", path, error)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(path, packed(data), 0o600)
