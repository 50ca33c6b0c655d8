"""The log on disk: a file of its own for each start, with limits on size and number (spec 1.13; B42).

Writing is done by a thread, so that a slow disk holds nobody up. A disk that is full, or a folder that cannot be
written, costs lines of this log and nothing else: it is told once, and tried again later.
"""

from __future__ import annotations

import logging
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path

from app.config.settings import Settings

LOG_FOLDER = "DebugLog"
LAYOUT = "[%(asctime)s] [%(levelname)s] %(name)s: %(message)s"

MAX_WAITING = 10_000
"""Records that wait to be written; further ones are dropped and counted."""

RETRY_SECONDS = 10.0
"""After a failed write nothing is written for so long."""

CLOSE_SECONDS = 5.0
"""How long the end of the program waits for the last lines."""

PAUSE_SECONDS = 0.05
"""Between two writes: a thread that woke for every line would cost a busy server more than writing does. What a killed
server had to say in this time is lost here; on the screen it stands at once."""

_BATCH = 500
_STAMP_CHARS = len("YYYYMMDD_HHMMSS_mmm.txt")
_OURS = re.compile(r"ServerLog-\d{8}_\d{6}_\d{3}\.txt")


@dataclass(frozen=True, slots=True)
class LogLimits:
    """A file that has ``file_bytes`` is followed by another one; of all the newest ``files`` are kept."""

    file_bytes: int = 10 * 1024 * 1024
    files: int = 10


def log_limits(settings: Settings) -> LogLimits:
    """The limits that the settings name."""
    return LogLimits(settings.server_log_max_mb * 1024 * 1024, settings.server_log_files)


def stamped_name(prefix: str, moment: datetime) -> str:
    """``<prefix>-YYYYMMDD_HHMMSS_mmm.txt``."""
    return f"{prefix}-{moment:%Y%m%d_%H%M%S}_{moment.microsecond // 1000:03d}.txt"


def private_folder(folder: Path) -> None:
    """Make the folder, for its owner alone, unless it exists; raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def by_age(folder: Path, names: re.Pattern[str]) -> list[tuple[int, str, Path]]:
    """The files of these names, the one that was written to first in front, each with that time in ns and its stamp.

    Their names tell the local time, which goes backwards when a zone or its summer time changes; they decide only
    where two files are equally old.
    """
    found: list[tuple[int, str, Path]] = []
    with suppress(OSError):
        for path in folder.iterdir():
            if names.fullmatch(path.name):
                with suppress(OSError):
                    found.append((path.stat().st_mtime_ns, path.name[-_STAMP_CHARS:], path))
    return sorted(found)


class LogFiles:
    """The files themselves; used by one thread. ``now`` tells the time that stands in their names."""

    def __init__(self, folder: Path, limits: Callable[[], LogLimits], now: Callable[[], datetime]) -> None:
        self._folder = folder
        self.limits = limits
        self._now = now
        self._file: int | None = None
        self._size = 0
        self._torn = False

    def write(self, text: str) -> None:
        """Append whole lines; raises OSError, and then a part of them may have been written."""
        data = text.encode("utf-8", "backslashreplace")
        if self._file is not None and self._size >= self.limits().file_bytes:
            self.close()
        if self._file is None:
            self._file = self._open()
        if self._torn:
            data = b"\n" + data
        while data:
            self._torn = True
            written = os.write(self._file, data)
            self._size += written
            data = data[written:]
        self._torn = False

    def close(self) -> None:
        """Let go of the file; the next line begins another one."""
        if self._file is not None:
            file, self._file = self._file, None
            with suppress(OSError):
                os.close(file)
        self._size = 0
        self._torn = False

    def _open(self) -> int:
        private_folder(self._folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
        moment = self._now()
        while True:
            try:
                path = self._folder / stamped_name("ServerLog", moment)
                file = os.open(path, flags, 0o600)
                break
            except FileExistsError:  # another start in the same millisecond
                moment = datetime.fromtimestamp(moment.timestamp() + 0.001, moment.tzinfo)
        others = [old for _, _, old in by_age(self._folder, _OURS) if old != path]
        for old in others[: max(0, len(others) + 1 - self.limits().files)]:
            with suppress(OSError):
                old.unlink()
        return file


class ServerLog(logging.Handler):
    """Hands records to the thread that writes them; never blocks and never raises."""

    def __init__(
        self,
        folder: Path,
        limits: Callable[[], LogLimits],
        zone: tzinfo | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        complain: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__()
        self._files = LogFiles(folder, limits, lambda: datetime.now(zone))
        self._folder = folder
        self._clock = clock
        self._complain = complain or _to_stderr
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # the quick one; emit() limits it
        self._closing = threading.Event()
        self._lost = 0
        self._resting_until: float | None = None
        self._thread = threading.Thread(target=self._run, name="server log", daemon=True)
        self._thread.start()

    def follow(self, limits: Callable[[], LogLimits]) -> None:
        """Ask here for the limits from now on."""
        self._files.limits = limits

    def handle(self, record: logging.LogRecord) -> bool:
        """Take one record; without the library's lock, since what takes it needs none."""
        if self.filters:
            return bool(super().handle(record))
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Take one record."""
        if self._waiting.qsize() >= MAX_WAITING:
            self._lost += 1
            return
        try:
            self._waiting.put(self.format(record) + "\n")
        except (TypeError, ValueError):  # arguments that do not fit their message
            self.handleError(record)

    def close(self) -> None:
        """Write what waits, within ``CLOSE_SECONDS``, and end."""
        self._closing.set()
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join(CLOSE_SECONDS)
        super().close()

    def _run(self) -> None:
        going_on = True
        while going_on:
            texts = [self._waiting.get()]
            with suppress(queue.Empty):
                while len(texts) < _BATCH:
                    texts.append(self._waiting.get_nowait())
            going_on = None not in texts
            self._write([text for text in texts if text is not None])
            if going_on and len(texts) < _BATCH:
                self._closing.wait(PAUSE_SECONDS)
        self._files.close()

    def _write(self, texts: list[str]) -> None:
        if not texts:
            return
        if self._resting_until is not None and self._clock() < self._resting_until:
            self._lost += len(texts)
            return
        lost = self._lost
        try:
            if lost:
                self._files.write(f"... {lost} lines were lost here\n")
            self._files.write("".join(texts))
        except OSError as error:
            if self._resting_until is None:
                self._complain(f"the log in {self._folder} cannot be written ({error.strerror or error}); trying again")
            self._resting_until = self._clock() + RETRY_SECONDS
            self._lost += len(texts)
        else:
            self._resting_until = None
            self._lost -= lost


def _to_stderr(text: str) -> None:
    with suppress(OSError, ValueError):  # nobody is left to be told
        print(text, file=sys.stderr, flush=True)
