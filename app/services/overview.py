"""What the panel shows of the server as a whole: numbers over time, the machine, findings of a check, the restart."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from app.config.durable import write_atomic
from app.config.small_file import read_small
from app.config.snapshot import Config
from app.observe.bus import EventBus
from app.observe.history import MAX_FILE_BYTES, OBSERVED, SAMPLE_SECONDS, History, packed, unpacked
from app.observe.machine import Machine
from app.services.in_force import InForce
from app.services.restarting import Restart

log = logging.getLogger(__name__)

HISTORY_FILE = Path(".vcp") / "history"
KEEP_SECONDS = 300.0
"""How often the numbers are written to the disk, beside the end of the server."""

KEEP_TIMEOUT = 5.0
"""A disk that hangs is not waited for longer."""

TICK_SECONDS = 1.0
"""How often the event loop's delay is measured."""


class Overview:
    """Made with the server, running beside it. ``read_config`` reads the configuration on disk; it blocks."""

    def __init__(self, in_force: InForce, events: EventBus, read_config: Callable[[], Config]) -> None:
        self._in_force = in_force
        self.machine = Machine()
        self.history = History(time.time)
        self.restart = Restart(read_config)
        self.began = time.time()
        self._told = False
        events.listen(self.history.observe, *OBSERVED)

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
            if keep:
                await self._keep(path)

    async def _sample(self, path: Path | None) -> None:
        loop = asyncio.get_running_loop()
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
                await asyncio.to_thread(lambda: write_atomic(path, packed(data), 0o600))
        except OSError as error:  # a TimeoutError is one too
            log.warning("%s cannot be written (%s); numbers over time will have a gap", path, error)
