"""A small file that people edit while the server runs: read again when it is another one than before."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from app.config.small_file import read_small

Parsed = TypeVar("Parsed")

LOOK_SECONDS = 1.0
"""The file is looked at again when the last look is at least this long ago."""


@dataclass(frozen=True, slots=True)
class Content:
    """What was found: the bytes (None: there is no such file), or ``error``, which says why it cannot be read."""

    data: bytes | None
    error: str = ""

    def parsed(self, parse: Callable[[bytes | None], Parsed]) -> Parsed:
        """What ``parse`` makes of the bytes; raises ValueError, which says in one line why there is nothing to use."""
        if self.error:
            raise ValueError(self.error)
        try:
            return parse(self.data)
        except RecursionError as fault:
            raise ValueError(str(fault)) from fault


class LiveFile:
    """Looks at one file of at most ``limit`` bytes, at most once a second by ``clock`` (seconds, monotonic).

    A look is one ``stat``; only a changed file is read, at once, in whatever thread asks.
    """

    def __init__(self, path: Path, limit: int, clock: Callable[[], float]) -> None:
        self.path = path
        self._name = os.fspath(path)
        self._limit = limit
        self._clock = clock
        self._looked = -math.inf
        self._seen: tuple[int, ...] | None = ()

    def changed(self, *, at_once: bool = False) -> Content | None:
        """The content when it is new since the last call that returned one, else None; the first call returns one."""
        now = self._clock()
        if not at_once and now - self._looked < LOOK_SECONDS:
            return None
        self._looked = now
        seen = self._signature()
        if seen == self._seen:
            return None
        self._seen = seen
        return self._read()

    def _signature(self) -> tuple[int, ...] | None:
        try:
            found = os.stat(self._name)  # noqa: PTH116 - asked at each tool call, and Path.stat takes half as long again
        except OSError:
            return None  # reading says why, if there is something to say
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino

    def _read(self) -> Content:
        try:
            data = read_small(self.path, self._limit + 1)
        except FileNotFoundError:
            return Content(None)
        except OSError as error:
            return Content(None, error.strerror or str(error))
        if len(data) > self._limit:
            return Content(None, f"it is larger than {self._limit} bytes")
        return Content(data)
