"""The log on disk: its names, rights, limits, and what happens when the disk does not want it (spec 1.13; B42)."""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.observe import server_log
from app.observe.lines import LineFormatter
from app.observe.server_log import LAYOUT, LogFiles, LogLimits, ServerLog

NAME = re.compile(r"ServerLog-\d{8}_\d{6}_\d{3}\.txt")
SMALL = LogLimits(200, 3)


@contextmanager
def logging_to(folder: Path, **more: Any) -> Iterator[logging.Logger]:
    """A logger of its own whose handler is closed, and so written, at the end."""
    handler = ServerLog(folder, LogLimits, UTC, **more)
    handler.setFormatter(LineFormatter(LAYOUT, UTC))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    try:
        yield logger
    finally:
        handler.close()


def written(folder: Path) -> list[str]:
    paths = sorted(folder.glob("ServerLog-*.txt"))
    return [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_record_is_a_line_with_time_level_and_text(tmp_path: Path) -> None:
    folder = tmp_path / "DebugLog"
    with logging_to(folder) as log:
        log.warning("钥匙 %s", "x\ny\udcff")
        log.info("second")
    (path,) = folder.iterdir()
    assert NAME.fullmatch(path.name)
    first, second = written(folder)
    assert re.fullmatch(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\+00:00\] \[WARNING\] test: 钥匙 x\\ny\\udcff", first)
    assert second.endswith("[INFO] test: second")


def test_folder_and_files_are_for_their_owner_and_a_folder_that_exists_stays_as_it_is(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.mkdir(mode=0o755)
    for folder in (new, old):
        with logging_to(folder) as log:
            log.info("x")
        (path,) = folder.iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(new.stat().st_mode) == 0o700
    assert stat.S_IMODE(old.stat().st_mode) == 0o755


def test_each_start_has_a_file_of_its_own_even_in_the_same_millisecond(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 5, 8, 0, 0, 999_500, UTC)
    for number in range(3):
        files = LogFiles(tmp_path, LogLimits, lambda: moment)
        files.write(f"{number}\n")
        files.close()
    names = [
        "ServerLog-20260105_080000_999.txt",
        "ServerLog-20260105_080001_000.txt",
        "ServerLog-20260105_080001_001.txt",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert written(tmp_path) == ["0", "1", "2"]


def test_b42_files_are_limited_in_size_and_number_and_nothing_else_is_removed(tmp_path: Path) -> None:
    others = [
        "LogInput-20250101_000000_000.txt",
        "ServerLog-old.txt",
        "notes.txt",
        "ServerLog-20250101_000000_000.txt.gz",
    ]
    for name in others:
        (tmp_path / name).touch()
    clock = [datetime(2026, 1, 5, tzinfo=UTC)]

    def now() -> datetime:
        clock[0] += timedelta(seconds=1)
        return clock[0]

    files = LogFiles(tmp_path, lambda: SMALL, now)
    for number in range(100):
        files.write(f"line {number:03d} of this log\n")
    files.close()
    ours = sorted(path for path in tmp_path.iterdir() if NAME.fullmatch(path.name))
    assert len(ours) == SMALL.files
    assert all(path.stat().st_size <= SMALL.file_bytes + 30 for path in ours)
    assert "line 099 of this log" in ours[-1].read_text(encoding="utf-8")
    assert {path.name for path in tmp_path.iterdir()} >= set(others)


def test_the_file_that_is_written_is_kept_although_the_zone_gave_older_ones_later_names(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 5, 20, tzinfo=UTC)
    for hours in (3, 2, 1):  # the same zone to the east of the one of now, and then some
        old = tmp_path / f"ServerLog-20260106_0{hours}0000_000.txt"
        old.touch()
        os.utime(old, (moment.timestamp() - hours, moment.timestamp() - hours))
    files = LogFiles(tmp_path, lambda: LogLimits(200, 2), lambda: moment)
    files.write("now\n")
    files.close()
    names = ["ServerLog-20260105_200000_000.txt", "ServerLog-20260106_010000_000.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_limits_that_change_count_for_the_next_line(tmp_path: Path) -> None:
    limits = [LogLimits()]
    clock = [datetime(2026, 1, 5, tzinfo=UTC)]

    def now() -> datetime:
        clock[0] += timedelta(seconds=1)
        return clock[0]

    files = LogFiles(tmp_path, lambda: limits[0], now)
    for _ in range(3):
        files.write("x" * 300 + "\n")
    assert len(list(tmp_path.iterdir())) == 1
    limits[0] = SMALL
    for _ in range(6):
        files.write("x" * 300 + "\n")
    assert len(list(tmp_path.iterdir())) == SMALL.files
    files.close()


class Disk:
    """Refuses writes, or takes only a part of them, as long as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = True
        self.takes = 0
        self._real = os.write
        monkeypatch.setattr(server_log.os, "write", self.write)

    def write(self, file: int, data: bytes) -> int:
        if not self.full:
            return self._real(file, data)
        if self.takes:
            taken, self.takes = self.takes, 0
            return self._real(file, data[:taken])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_costs_lines_and_is_told_once_and_writing_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    disk.takes = 10
    said: list[str] = []
    now = [0.0]
    handler = ServerLog(tmp_path, LogLimits, UTC, clock=lambda: now[0], complain=said.append)
    handler.setFormatter(logging.Formatter("%(message)s"))
    write = handler._write  # the thread's own step, taken by hand: what came when is then certain
    write(["first line\n"])
    write(["second\n", "third\n"])
    now[0] += server_log.RETRY_SECONDS
    write(["fourth\n"])
    assert len(said) == 1 and "No space left" in said[0]
    now[0] += server_log.RETRY_SECONDS
    disk.full = False
    write(["fifth\n"])
    write(["sixth\n"])
    handler.close()
    assert written(tmp_path) == ["first line", "... 4 lines were lost here", "fifth", "sixth"]


def test_a_folder_that_cannot_be_made_is_no_harm(tmp_path: Path) -> None:
    (tmp_path / "DebugLog").write_text("a file", encoding="utf-8")
    said: list[str] = []
    with logging_to(tmp_path / "DebugLog", complain=said.append) as log:
        for _ in range(3):
            log.info("x")
    assert len(said) == 1


def test_a_slow_disk_holds_nobody_up_and_what_is_too_much_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_log, "MAX_WAITING", 5)
    handler = ServerLog(tmp_path, LogLimits, UTC)
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler._waiting.put(None)  # the thread ends; nothing is taken any more
    handler._thread.join(10)
    logger = logging.Logger("test")
    logger.addHandler(handler)
    for number in range(20):
        logger.info("%d", number)
    assert handler._lost == 15
    handler.close()


def test_lines_that_come_close_to_each_other_are_one_write_and_the_end_waits_for_no_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_log, "PAUSE_SECONDS", 60.0)
    wrote = threading.Semaphore(0)
    writes: list[bytes] = []
    real = os.write

    def write(file: int, data: bytes) -> int:
        writes.append(data)
        wrote.release()
        return real(file, data)

    monkeypatch.setattr(server_log.os, "write", write)
    with logging_to(tmp_path) as log:
        log.info("first")
        assert wrote.acquire(timeout=10)
        for number in range(50):
            log.info("%d", number)
            time.sleep(0)  # the writing thread may run now, if it wants to
    assert len(writes) == 2
    assert [line.rpartition(": ")[2] for line in written(tmp_path)] == ["first", *map(str, range(50))]


def test_a_record_that_cannot_be_formatted_is_no_harm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(tmp_path) as log:
        log.info("%d", "no number")
        log.info("fine")
    assert [line.rpartition(": ")[2] for line in written(tmp_path)] == ["fine"]
    assert "Logging error" in capsys.readouterr().err
