"""Locks of the operating system on files. One ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

TRY_SECONDS = 0.02
"""Pause between two tries."""

_TAKEN = frozenset({errno.EAGAIN, errno.EACCES, errno.EDEADLK})


def try_lock(descriptor: int) -> bool | None:
    """True when the lock is ours now, False when another process has it, None when there are no locks here."""
    try:
        _lock(descriptor)
    except OSError as error:
        return False if error.errno in _TAKEN else None
    return True


@contextlib.contextmanager
def held(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock file ``path``, which is made, while the block runs; blocks for up to ``seconds``.

    Raises TimeoutError when somebody else has it all that time, and OSError. Where the file system has no locks (some
    network mounts) the block runs all the same.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        last = time.monotonic() + seconds
        while try_lock(descriptor) is False:
            if time.monotonic() > last:
                raise TimeoutError(f"{path} is held by another process")
            time.sleep(TRY_SECONDS)
        yield
    finally:
        os.close(descriptor)  # which gives the lock back


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
