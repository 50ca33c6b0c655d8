"""Who owns a home: one process at a time, known to the others, and nobody any more once it is gone (D88)."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app.home import lock
from app.home.lock import LOCK_FILE, OWNER_FILE, HomeTakenError, Owner, own_home, owner_of
from tests.program import environment

HOLDER = """
import sys, time
from pathlib import Path
from app.home.lock import own_home
with own_home(Path(sys.argv[1]), "serve") as ownership:
    ownership.tell("http://127.0.0.1:4711")
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(home: Path) -> subprocess.Popen[str]:
    """Another process that owns the home until its stdin is closed."""
    process = subprocess.Popen(
        (sys.executable, "-c", HOLDER, str(home)),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_home_that_nobody_owns_is_looked_at_without_making_a_file(tmp_path: Path) -> None:
    assert owner_of(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_the_owner_is_known_to_others_until_it_ends(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        assert owner_of(tmp_path) == Owner(process.pid, "http://127.0.0.1:4711", "serve")
        with pytest.raises(HomeTakenError) as taken, own_home(tmp_path, "restore"):
            pass
        assert str(process.pid) in taken.value.message
        assert "http://127.0.0.1:4711" in taken.value.message
        process.communicate()
    assert owner_of(tmp_path) is None
    assert not (tmp_path / OWNER_FILE).exists()


def test_an_owner_that_was_killed_leaves_a_free_home(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert (tmp_path / OWNER_FILE).exists()
    assert owner_of(tmp_path) is None
    with own_home(tmp_path, "serve") as ownership:
        ownership.tell("http://127.0.0.1:1")
        assert json.loads((tmp_path / OWNER_FILE).read_text())["pid"] == os.getpid()


def test_the_files_of_the_lock_are_for_their_owner_alone(tmp_path: Path) -> None:
    with own_home(tmp_path, "serve"):
        assert stat.S_IMODE((tmp_path / LOCK_FILE).stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / OWNER_FILE).stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / LOCK_FILE).parent.stat().st_mode) == 0o700


def test_children_of_the_owner_do_not_keep_the_lock(tmp_path: Path) -> None:
    with own_home(tmp_path, "serve"):
        child = subprocess.Popen((sys.executable, "-c", "import sys; sys.stdin.read()"), stdin=subprocess.PIPE)
    try:
        assert owner_of(tmp_path) is None
    finally:
        child.communicate()


def test_an_owner_whose_notes_cannot_be_read_is_still_an_owner(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        for text in ("", "{oops", "[1]", '{"pid": "7", "address": 3}', "\0", "[" * 4000):
            (tmp_path / OWNER_FILE).write_text(text)
            assert owner_of(tmp_path) == Owner()
        with pytest.raises(HomeTakenError, match="another process"), own_home(tmp_path, "serve"):
            pass
        process.communicate()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_without_locks_is_a_warning_and_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with own_home(tmp_path, "serve") as ownership:
        ownership.tell("http://127.0.0.1:1")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert owner_of(tmp_path) is None


def test_a_home_in_which_nothing_can_be_written_is_a_warning_and_no_obstacle(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / lock.STATE_FOLDER).write_text("in the way")
    with own_home(tmp_path, "serve") as ownership:
        ownership.tell("http://127.0.0.1:1")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_who_only_looks_does_not_keep_an_owner_out(tmp_path: Path) -> None:
    with own_home(tmp_path, "serve"):
        pass
    descriptor = os.open(tmp_path / LOCK_FILE, os.O_RDWR)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        os.close(descriptor)

    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock.time, "sleep", pause)
        with own_home(tmp_path, "serve"):
            assert pauses == [lock.TRY_SECONDS]
