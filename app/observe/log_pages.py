"""Pieces of the log on disk, forwards and backwards: whole lines, however large the file is. All functions block."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.errors import NotFoundError, both
from app.observe.server_log import LOG_FOLDER, by_age

LOG_NAMES = re.compile(r"ServerLog-\d{8}_\d{6}_\d{3}\.txt")

PIECE_BYTES = 512 * 1024
"""What is read at a time."""

MAX_SEARCHED = 64 * 1024 * 1024
MAX_PARSED = 6 * 1024 * 1024
"""Bytes that one search looks through, and bytes of pieces that hold what is searched for, which takes longer; whoever
wants more asks again from where it ended."""

MAX_BEHIND = 2 * 1024 * 1024
"""Whoever follows the log and is further behind than so many bytes does not get all of them."""

MAX_LINE_CHARS = 6000
MAX_ENTRY_CHARS = 20_000
MAX_DETAILS = 200
"""Most further lines of one entry, such as those of a traceback."""

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_BEGIN = re.compile(rb"^\[[^\]\n]{10,40}\] \[[A-Z]{4,8}\] ", re.MULTILINE)
_LINE = re.compile(r"\[([^\]]{10,40})\] \[([A-Z]{4,8})\] ([^\s:]{1,200}): (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of the log: its name, its bytes, when it was written last in seconds since the epoch."""

    name: str
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes from ``begin`` on of a file of ``size`` bytes: whole lines, unless one is longer than a piece."""

    data: bytes
    begin: int
    size: int

    @property
    def end(self) -> int:
        """The offset behind the last byte."""
        return self.begin + len(self.data)

    @property
    def text(self) -> str:
        """The same as text."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry: its time as it was written, level, source, and text, of which lines after the first are details.

    Lines that are none of ours have neither. ``offset`` is where it stands in its file.
    """

    offset: int
    time: str
    level: str
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class LogSearch:
    """Which entries are wanted: of this level or worse (empty: all), with this text in any capitals (empty: all)."""

    level: str = ""
    text: str = ""

    def may_be_in(self, piece: LogPiece) -> bool:
        """Whether it is worth while to look at its entries; quicker than looking at them."""
        worse = LEVELS[LEVELS.index(self.level) :] if self.level in LEVELS else ()
        if worse and not any(f"] [{level}] ".encode() in piece.data for level in worse):
            return False
        return not self.text or self.text.casefold() in piece.text.casefold()

    def wants(self, entry: LogEntry) -> bool:
        """Whether it is one of them. What has no level is always bad enough."""
        if self.level in LEVELS and entry.level in LEVELS and LEVELS.index(entry.level) < LEVELS.index(self.level):
            return False
        text = self.text.casefold()
        return not text or text in entry.text.casefold() or text in entry.source.casefold()


@dataclass(frozen=True, slots=True)
class Tail:
    """What came behind a place in the log: entries, and the place behind them.

    ``skipped`` bytes before the entries are left out, because whoever reads is too far behind.
    """

    entries: tuple[LogEntry, ...]
    file: str
    offset: int
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class LogPage:
    """Entries from the oldest to the newest; older ones stand before ``begin``, none when it is 0.

    ``end`` is where what was looked through ends, ``size`` that of the file.
    """

    entries: tuple[LogEntry, ...]
    begin: int
    end: int
    size: int


def log_files(home: Path) -> tuple[LogFile, ...]:
    """The files of the log, the one that is written now in front."""
    found = []
    for modified, _, path in reversed(by_age(home / LOG_FOLDER, LOG_NAMES)):
        try:
            found.append(LogFile(path.name, path.stat().st_size, modified / 1e9))
        except OSError:  # it was the oldest, and has made room
            continue
    return tuple(found)


def log_path(home: Path, name: str = "") -> Path:
    """The file of this name, or the newest; NotFoundError when there is none."""
    if not name:
        name = next((file.name for file in log_files(home)), "")
    if not LOG_NAMES.fullmatch(name):
        raise NotFoundError(both("没有这个日志文件", "there is no such file of the log"))
    return home / LOG_FOLDER / name


def read_forward(path: Path, offset: int, limit: int = PIECE_BYTES) -> LogPiece:
    """Whole lines from ``offset`` on, at most ``limit`` bytes; nothing beyond the end. NotFoundError, OSError."""
    with _opened(path) as (file, size):
        begin = min(max(0, offset), size)
        data = _read(file, begin, min(limit, size - begin))
    if not data.endswith(b"\n"):  # the rest of the line comes later
        data = data[: data.rfind(b"\n") + 1] or (data if len(data) >= limit else b"")
    return LogPiece(data, begin, size)


def read_backward(path: Path, offset: int | None, limit: int = PIECE_BYTES) -> LogPiece:
    """Whole lines up to ``offset`` (None: the last whole one), at most ``limit`` bytes. NotFoundError, OSError."""
    with _opened(path) as (file, size):
        end = size if offset is None else min(max(0, offset), size)
        begin = max(0, end - limit)
        data = _read(file, begin, end - begin)
    if offset is None:
        data = data[: data.rfind(b"\n") + 1] or data
    if begin > 0 and 0 < (cut := data.find(b"\n") + 1) < len(data):
        begin, data = begin + cut, data[cut:]
    return LogPiece(data, begin, size)


def read_raw(path: Path, offset: int, length: int) -> bytes:
    """Bytes as they are, fewer at the end of the file. NotFoundError, OSError."""
    with _opened(path) as (file, _):
        return _read(file, offset, length)


def size_of(path: Path) -> int:
    """Bytes of the file. NotFoundError, OSError."""
    with _opened(path) as (_, size):
        return size


def entries_of(piece: LogPiece) -> list[LogEntry]:
    """The entries of a piece; lines that are none are details of the entry before them."""
    found: list[LogEntry] = []
    details: list[str] = []

    def settle() -> None:
        if details:
            last = found[-1]
            text = "\n".join((last.text, *details))[:MAX_ENTRY_CHARS]
            found[-1] = LogEntry(last.offset, last.time, last.level, last.source, text)
            details.clear()

    for offset, line in _lines(piece):
        match = _LINE.fullmatch(line)
        if match is not None:
            settle()
            found.append(LogEntry(offset, match[1], match[2], match[3], match[4][:MAX_LINE_CHARS]))
        elif not found:
            found.append(LogEntry(offset, "", "", "", line[:MAX_LINE_CHARS]))
        elif len(details) < MAX_DETAILS:
            details.append(line[:MAX_LINE_CHARS])
    settle()
    return found


def page_before(path: Path, offset: int | None, wanted: int, search: LogSearch) -> LogPage:
    """The last ``wanted`` entries before ``offset`` (None: of all) that are searched for. NotFoundError, OSError.

    It looks through MAX_SEARCHED bytes at most; then it may have found fewer, and ``begin`` is where to go on.
    """
    piece = read_backward(path, offset)
    end, size, begin, searched, parsed = piece.end, piece.size, piece.begin, 0, 0
    found: list[LogEntry] = []
    while True:
        first = _BEGIN.search(piece.data) if piece.begin > 0 else None
        if first is not None and first.start() > 0:  # before it stand details of an entry that is before the piece
            piece = LogPiece(piece.data[first.start() :], piece.begin + first.start(), piece.size)
        begin = piece.begin
        if search.may_be_in(piece):
            found = [entry for entry in entries_of(piece) if search.wants(entry)] + found
            parsed += len(piece.data)
        searched += len(piece.data)
        enough = len(found) >= wanted or searched >= MAX_SEARCHED or parsed >= MAX_PARSED
        if begin == 0 or not piece.data or enough:
            break
        piece = read_backward(path, begin)
    kept = found[-wanted:]
    return LogPage(tuple(kept), kept[0].offset if len(kept) < len(found) else begin, end, size)


def tail_after(home: Path, file: str, offset: int, search: LogSearch) -> Tail:
    """What came behind ``offset`` of a file, or when that is finished, in the newest one. NotFoundError, OSError."""
    newest = log_path(home)
    path = newest if not file else log_path(home, file)
    try:
        size = size_of(path)
    except NotFoundError:  # it was the oldest, and has made room
        path, offset, size = newest, 0, size_of(newest)
    offset = 0 if offset > size else offset  # it was emptied
    begin = max(offset, size - MAX_BEHIND)
    piece = read_forward(path, begin)
    if begin > offset and (cut := piece.data.find(b"\n") + 1):
        piece = LogPiece(piece.data[cut:], piece.begin + cut, piece.size)
    skipped = piece.begin - offset
    if not piece.data and path.name != newest.name:
        return Tail((), newest.name, 0, skipped)
    return Tail(tuple(one for one in entries_of(piece) if search.wants(one)), path.name, piece.end, skipped)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, int]]:
    """The file, which must be a regular one and no link, and its size."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        file = os.open(path, flags)
    except FileNotFoundError:
        raise NotFoundError(both(f"日志文件 {path.name} 已不存在", f"{path.name} is gone")) from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise NotFoundError(both("没有这个日志文件", "there is no such file of the log"))
        yield file, status.st_size
    finally:
        os.close(file)


def _read(file: int, begin: int, length: int) -> bytes:
    os.lseek(file, begin, os.SEEK_SET)
    blocks = []
    while length > 0 and (block := os.read(file, length)):
        blocks.append(block)
        length -= len(block)
    return b"".join(blocks)


def _lines(piece: LogPiece) -> Iterator[tuple[int, str]]:
    offset = piece.begin
    for line in piece.data.split(b"\n"):
        if line:
            yield offset, line.decode("utf-8", "replace").rstrip("\r")
        offset += len(line) + 1
