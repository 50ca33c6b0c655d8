"""Small files that people and programs put there: read in bounded time, whatever lies under their name."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_small(path: Path, limit: int) -> bytes:
    """At most ``limit`` bytes from the beginning of a file; never waits for somebody to write.

    Raises OSError: IsADirectoryError for a folder, and also for pipes and other things that may never end. The null
    device is an empty file, since that is what it is mounted for.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode) and not path.samefile(os.devnull):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read(limit)


def _open_at_once(path: str, flags: int) -> int:
    """A pipe that nobody writes to is opened at once and not when somebody does."""
    return os.open(path, flags | _FLAGS)
