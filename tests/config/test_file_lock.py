"""Locks on files: one holder at a time, and none after the holder's end."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.config import file_lock
from app.config.file_lock import held, try_lock
from tests.program import environment

HOLDER = """
import sys
from pathlib import Path
from app.config.file_lock import held
with held(Path(sys.argv[1]), 1):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_that_another_process_has_is_waited_for_and_free_after_its_end(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen(
        (sys.executable, "-c", HOLDER, str(path)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(TimeoutError, match="held by another"), held(path, 0):
            pass
        holder.kill()
    with held(path, 0):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_system_without_locks_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(_descriptor: int) -> None:
        raise OSError(errno.ENOTSUP, "no locks here")

    monkeypatch.setattr(file_lock, "_lock", unsupported)
    with held(tmp_path / "lock", 0), held(tmp_path / "lock", 0):
        descriptor = os.open(tmp_path / "lock", os.O_RDWR)
        assert try_lock(descriptor) is None
        os.close(descriptor)
