"""What nodes sent and what takes time to read: done bit by bit, so that nobody else waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Generic, TypeVar

from app.extend import Clock

K = TypeVar("K")
V = TypeVar("V")

SLICE_SECONDS = 0.01
"""How long is read at a stretch."""

SHARE = 0.25
"""The part of the event loop's time that reading may take in the long run, whoever sends how much."""

SAVED_SECONDS = 0.2
"""What an idle reader has saved: so much is read without a pause."""


class Intake(Generic[K, V]):
    """Reads what senders sent last, one sender after the other; what comes meanwhile replaces what waits of the same.

    ``read`` yields wherever it may be interrupted. What little there is is read at once. ``busy`` is a
    steady clock. Belongs to the event loop.
    """

    def __init__(self, read: Callable[[K, V], Generator[None]], busy: Clock = time.perf_counter) -> None:
        self._read = read
        self._busy = busy
        self._waiting: dict[K, V] = {}
        self._reading: Generator[None] | None = None
        self._next: asyncio.TimerHandle | None = None
        self._saved = SAVED_SECONDS
        self._since = 0.0

    def put(self, sender: K, what: V) -> None:
        """Read this as soon as it is its turn."""
        self._waiting[sender] = what
        if self._next is None and self._reading is None:
            self._go_on()

    def forget(self, sender: K) -> None:
        """The sender is gone; what is being read of it is read to its end."""
        self._waiting.pop(sender, None)

    def stop(self) -> None:
        """Read no more."""
        self._waiting.clear()
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _go_on(self) -> None:
        self._next = None
        loop = asyncio.get_running_loop()
        now, began = loop.time(), self._busy()
        self._saved = min(SAVED_SECONDS, self._saved + (now - self._since) * SHARE)
        self._since = now
        spent = 0.0
        try:
            while (self._reading is not None or self._waiting) and self._saved > 0 and spent < SLICE_SECONDS:
                self._step()
                spent = self._busy() - began
        finally:
            self._saved -= self._busy() - began
            if self._reading is not None or self._waiting:
                self._next = loop.call_later(max(0.0, (SLICE_SECONDS - self._saved) / SHARE), self._go_on)

    def _step(self) -> None:
        if self._reading is None:
            sender = next(iter(self._waiting))
            self._reading = self._read(sender, self._waiting.pop(sender))
        reading, self._reading = self._reading, None
        for _ in reading:
            self._reading = reading
            return
