"""The SQLite file of traces: made for its owner alone, moved aside when it is damaged or of another version."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from app.errors import VcpError, both
from app.observe.server_log import private_folder
from app.observe.traces.rows import SCHEMA, SCHEMA_VERSION

log = logging.getLogger(__name__)

APPLICATION_ID = 0x76637074
BUSY_SECONDS = 5.0
WAL_BYTES = 8 * 1024 * 1024
BROKEN, OLD = ".broken", ".old"
"""What a file is called that was moved aside; one of each is kept."""

_ENDINGS = ("-wal", "-shm", "")
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})


class TracesUnavailableError(VcpError):
    """Traces cannot be read or written now: the disk is full, or the file was damaged and has been moved aside."""

    status = 503
    code = "traces_unavailable"

    def __init__(self, why: str) -> None:
        super().__init__(both(f"追踪记录暂不可用：{why}", f"traces are not available now: {why}"))


class TraceFile:
    """One file. ``writing`` and ``reading`` give connections; whoever writes is alone. All of it blocks.

    sqlite3.Error and OSError leave both blocks as they are, except that a damaged file has been moved aside first.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer: sqlite3.Connection | None = None

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The one connection that writes, inside of a transaction that is undone when the block raises."""
        with self._damage_told():
            if self._writer is None or not self.path.exists():
                self.close()
                self._writer = self._opened()
            connection = self._writer
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection that only reads; None while there is no file."""
        if not self.path.exists():
            yield None
            return
        with self._damage_told():
            connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS)
            try:
                connection.execute("PRAGMA query_only = ON")
                yield connection if _is_ours(connection) else None
            finally:
                connection.close()

    def tidy(self) -> None:
        """Give room that deleted traces had back to the disk, and cut the log of the last writes."""
        if self._writer is not None:
            self._writer.execute("PRAGMA incremental_vacuum").fetchall()
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def used(self) -> int:
        """Bytes that traces take in the file; 0 before it is open."""
        if self._writer is None:
            return 0
        pages, free, size = (
            int(self._writer.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def close(self) -> None:
        """Close what writes; it opens again by itself."""
        if self._writer is not None:
            with contextlib.suppress(sqlite3.Error):  # a damaged or full file: what is not in it is in its log
                self._writer.close()
            self._writer = None

    def _opened(self) -> sqlite3.Connection:
        private_folder(self.path.parent)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite gives its other files the same mode
        connection = self._connected()
        try:
            if _is_empty(connection):
                _make(connection)
            elif not _is_ours(connection):
                connection.close()
                log.warning("the traces in %s are of another version; they were moved aside", self.path)
                self._move_aside(OLD)
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
                connection = self._connected()
                _make(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            if _is_empty(connection):
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON").fetchall()
            connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def _damage_told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
                log.warning("the traces in %s were damaged and have been moved aside: %s", self.path, error)
                self._move_aside(BROKEN)
            raise

    def _move_aside(self, suffix: str) -> None:
        self.close()
        for ending in _ENDINGS:
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self.path}{ending}").replace(f"{self.path}{suffix}{ending}")


def _is_empty(connection: sqlite3.Connection) -> bool:
    return not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def _is_ours(connection: sqlite3.Connection) -> bool:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    return bool(
        application == APPLICATION_ID and connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
    )


def _make(connection: sqlite3.Connection) -> None:
    """All tables at once: a process that is killed in the middle leaves an empty file."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
