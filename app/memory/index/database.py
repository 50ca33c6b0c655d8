"""The SQLite file of the index: one writer, a few readers, none of them in the event loop (memory.md 3.5)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from app.errors import VcpError, both

log = logging.getLogger(__name__)

T = TypeVar("T")

READERS = 3
BUSY_SECONDS = 10.0
WAL_BYTES = 64 * 1024 * 1024
"""What is left of the WAL on disk after a checkpoint."""

QUICK_CHECK_BYTES = 64 * 1024 * 1024
"""A larger file is not read through at each start; a fault in it is found when it is met."""

OLD, BROKEN = ".old", ".broken"
"""What a file is called that was moved aside: of another version, damaged."""

NEW = ".new"
"""What a file is called that is being made beside the one in use."""

_ENDINGS = ("-wal", "-shm", "")
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_NO_ROOM = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})


class IndexBrokenError(VcpError):
    """The file of the index is damaged; it has to be made anew."""

    status = 503
    code = "index_broken"

    def __init__(self, why: str) -> None:
        super().__init__(
            both(f"记忆索引已损坏，正在重建：{why}", f"the memory index is damaged and is made anew: {why}")
        )


class IndexUnavailableError(VcpError):
    """The index cannot be read or written now: no room, no right, closed. Nothing is lost; try again later."""

    status = 503
    code = "index_unavailable"

    def __init__(self, why: str) -> None:
        super().__init__(both(f"记忆索引暂不可用：{why}", f"the memory index is not available now: {why}"))


@dataclass(frozen=True, slots=True)
class Tables:
    """What a file of ours holds: SQL that makes it, the version of that, and the number that marks it as ours."""

    name: str
    schema: str
    version: int
    application_id: int


class Database:
    """One SQLite file. ``read`` and ``write`` run a function with a connection in a thread of their own.

    A write is one transaction, which is undone when the function raises; a read sees one moment. Both raise
    IndexBrokenError for a damaged file and IndexUnavailableError while there is no room, or no file.
    """

    def __init__(self, path: Path, tables: Tables) -> None:
        self.path = path
        self._tables = tables
        self._writing = ThreadPoolExecutor(1, f"memory {tables.name} writer")
        self._reading = ThreadPoolExecutor(READERS, f"memory {tables.name} reader")
        self._writer: sqlite3.Connection | None = None
        self._readers: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue()
        self._opened = False
        self._size = 0
        self._files = 0
        self.broken = ""
        """Why the file cannot be read, since a read met damage; empty again when it was made anew."""
        self._met_damage: Callable[[], None] = lambda: None

    def damage(self, met: Callable[[], None]) -> None:
        """Call ``met``, in the event loop, when a read has met damage."""
        self._met_damage = met

    @property
    def is_open(self) -> bool:
        """Whether reads and writes are answered."""
        return self._opened

    async def open(self) -> bool:
        """Open the file, or make it; true when what is there was made now and is empty.

        A file of another schema, or a damaged one, is moved aside first (``<name>.old``, ``<name>.broken``).
        """
        return await self._in_thread(self._writing, self._open)

    async def close(self) -> None:
        """Close all connections and put the WAL into the file; open again with ``open``."""
        self._opened = False
        await self._in_thread(self._writing, self._close)

    async def stop(self) -> None:
        """Close, for good."""
        await self.close()
        self._writing.shutdown(wait=False)
        self._reading.shutdown(wait=False)

    async def read(self, work: Callable[[sqlite3.Connection], T], *, heals: bool = True) -> T:
        """What ``work`` finds out; it may only read. Damage is told (``damage``), unless it ``heals`` nothing."""
        file = self._files
        try:
            return await self._in_thread(self._reading, lambda: self._read(work))
        except IndexBrokenError as error:
            if heals and file == self._files:
                self.broken = error.message
                self._met_damage()
            raise

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What ``work`` answers, when all it did is committed."""
        return await self._in_thread(self._writing, lambda: self._write(work))

    async def renew(self, why: str) -> None:
        """Move the file aside and begin with an empty one; a damaged file may hold a clue, so one is kept."""
        log.warning("the memory index %s is made anew: %s", self.path, why)
        self._opened = False
        await self._in_thread(self._writing, self._renew)

    async def take_over(self, whole: Path) -> None:
        """Move the file aside and go on with one that is whole and closed.

        Raises IndexUnavailableError when it cannot be moved.
        """
        await self._in_thread(self._writing, lambda: self._take_over(whole))

    async def checkpoint(self) -> bool:
        """Put the WAL into the file and cut it to nothing; false when a reader holds it for too long."""

        def work() -> bool:
            (busy, _, _) = self._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy

        return await self._in_thread(self._writing, lambda: _told(work))

    async def forget_copies(self) -> None:
        """Remove files that were moved aside: they hold what was deleted since."""
        await self._in_thread(self._writing, self._forget_copies)

    def size(self) -> int:
        """Bytes on disk."""
        total = 0
        for suffix in ("", "-wal"):
            with contextlib.suppress(OSError):
                total += Path(f"{self.path}{suffix}").stat().st_size
        return total

    async def _in_thread(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        try:
            future = asyncio.get_running_loop().run_in_executor(threads, work)
        except RuntimeError as error:  # it was stopped
            raise IndexUnavailableError(both("已关闭", "it is closed")) from error
        return await future

    def _open(self) -> bool:
        if self._opened:
            return False
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise IndexUnavailableError(error.strerror or str(error)) from error
        try:
            self._writer = _told(lambda: self._connected(writing=True))
            reason = _told(lambda: self._strange(self._connection()))
            moved = OLD
        except IndexBrokenError as error:
            reason, moved = error.message, BROKEN
        fresh = reason == "new"
        if reason and not fresh:
            log.warning("the memory index %s is made anew: %s", self.path, reason)
            self._move_aside(moved)
            self._writer = _told(lambda: self._connected(writing=True))
            fresh = True
        if fresh:
            _told(lambda: _make(self._connection(), self._tables))
        self.remove(NEW)  # of one that was killed while it made it
        self._files += 1
        self.broken = ""
        self._opened = True
        return fresh

    def _connection(self) -> sqlite3.Connection:
        if self._writer is None:
            raise IndexUnavailableError(both("尚未打开", "it is not open"))
        return self._writer

    def _connected(self, *, writing: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            if writing:
                connection.execute("PRAGMA auto_vacuum = NONE")  # the file only grows: see _look_at_size
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute("PRAGMA secure_delete = ON").fetchall()
                connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}").fetchall()
                connection.execute("PRAGMA cache_size = -32768")
            else:
                connection.execute("PRAGMA query_only = ON")
                connection.execute("PRAGMA cache_size = -16384")
                connection.execute("PRAGMA mmap_size = 1073741824").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def _strange(self, connection: sqlite3.Connection) -> str:
        """Why the file is not ours to use as it is; ``new`` for an empty one, empty when all is well."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables:
            return "new"
        if application != self._tables.application_id:
            return f"it does not hold our {self._tables.name}"
        if version != self._tables.version:
            return f"its tables are of version {version}, not {self._tables.version}"
        if self.path.stat().st_size <= QUICK_CHECK_BYTES:
            found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")]
            if found != ["ok"]:
                raise IndexBrokenError(found[0].splitlines()[0] if found else "no answer")
        return ""

    def _forget_copies(self) -> None:
        self.remove(OLD)
        self.remove(BROKEN)

    def remove(self, suffix: str) -> None:
        """Remove the files beside this one whose names end so. Blocking."""
        for ending in _ENDINGS:
            with contextlib.suppress(OSError):
                Path(f"{self.path}{suffix}{ending}").unlink()

    def _move_aside(self, suffix: str) -> None:
        self._close()
        for ending in _ENDINGS:
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self.path}{ending}").replace(f"{self.path}{suffix}{ending}")

    def _renew(self) -> None:
        self._move_aside(BROKEN)
        self._open()

    def _take_over(self, whole: Path) -> None:
        if not whole.is_file():
            raise IndexUnavailableError(both("新文件不见了", "the new file is gone"))
        try:
            self._move_aside(BROKEN)
            whole.replace(self.path)
        except OSError as error:
            raise IndexUnavailableError(error.strerror or str(error)) from error
        finally:
            self._open()

    def _look_at_size(self) -> None:
        """Raise IndexBrokenError for a file that somebody cut: the system ends a program that reads beyond the end of
        what is mapped. The file of SQLite itself never becomes shorter, since nothing vacuums it.
        """
        with contextlib.suppress(FileNotFoundError):  # what is open can be read, though its name is gone
            size = self.path.stat().st_size
            if size < self._size:
                raise IndexBrokenError(both("文件被截短", "the file was cut"))
            self._size = size

    def _close(self) -> None:
        self._opened = False
        self._size = 0
        while True:
            try:
                reader = self._readers.get_nowait()
            except queue.Empty:
                break
            reader.close()
        if self._writer is not None:
            with contextlib.suppress(sqlite3.Error):  # a damaged or full file: what is not in it is in the WAL
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            with contextlib.suppress(sqlite3.Error):
                self._writer.close()
            self._writer = None

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if not self._opened:
            raise IndexUnavailableError(both("尚未打开", "it is not open"))
        try:
            connection = self._readers.get_nowait()
        except queue.Empty:
            connection = _told(lambda: self._connected(writing=False))
        try:
            self._look_at_size()
            return _told(lambda: _in_transaction(connection, "BEGIN", work))
        finally:
            if self._opened:
                self._readers.put(connection)
            else:
                connection.close()

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if not self._opened:
            raise IndexUnavailableError(both("尚未打开", "it is not open"))
        return _told(lambda: _in_transaction(self._connection(), "BEGIN IMMEDIATE", work))


def _in_transaction(connection: sqlite3.Connection, begin: str, work: Callable[[sqlite3.Connection], T]) -> T:
    connection.execute(begin)
    try:
        answer = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return answer


def _told(work: Callable[[], T]) -> T:
    """Do the work; what SQLite raises becomes one of our errors. What can only be a fault of ours stays as it is."""
    try:
        return work()
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _BROKEN:
            raise IndexBrokenError(str(error)) from error
        if code in _NO_ROOM or code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise IndexUnavailableError(str(error)) from error
        raise


def _make(connection: sqlite3.Connection, tables: Tables) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in _statements(tables.schema):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {tables.application_id}")
        connection.execute(f"PRAGMA user_version = {tables.version}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> list[str]:
    """``executescript`` would commit each by itself; half a schema must not be taken for a whole one."""
    statements: list[str] = []
    part = ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            statements.append(part)
            part = ""
    return statements
