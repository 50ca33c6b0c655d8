"""Writing a backup while the installation may be in use: whole files, consistent databases, or a clear word."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from app.config.durable import open_temporary, sync_folder
from app.config.home_folders import NOTEBOOKS
from app.errors import both
from app.extend import Clock
from app.home.archive import (
    BLOCK_BYTES,
    MANIFEST,
    PREFIX,
    SQLITE_MAGIC,
    ArchivedFile,
    ArchiveError,
    ArchiveManifest,
)
from app.home.contents import Entry, contents

SPOOL_BYTES = 8 * 1024 * 1024
"""Larger files are copied to the disk beside the backup before they go in, so that they cannot change on the way."""

READS = 3
"""How often a file is read anew that is written to at the same time."""

_NO_ROOM_BESIDE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)

SQLITE_SECONDS = 30.0
"""How long a database may be locked by others before it is given up."""


@dataclass(slots=True)
class BackupReport:
    """What came of a backup. ``told`` are names with a word for people, ``lost`` how many files are missing in it."""

    path: Path
    files: int = 0
    size: int = 0
    told: list[tuple[str, str]] = field(default_factory=list)
    lost: int = 0


def write_backup(
    home: Path,
    target: Path,
    *,
    version: str,
    notebooks: Path | None = None,
    with_files: bool = False,
    replace: bool = False,
    clock: Clock = time.time,
    monotonic: Clock = time.monotonic,
) -> BackupReport:
    """Write a backup of ``home`` to ``target`` (mode 0600): the whole file, or none.

    ``notebooks`` is their folder where it is not ``dailynote``.

    Raises ArchiveError when the target exists and ``replace`` is false, or is a folder, device or pipe, or cannot be
    written, a full disk included.
    """
    if not replace and os.path.lexists(target):
        raise ArchiveError(both(f"{target} 已存在，用 --force 覆盖", f"{target} exists; --force replaces it"))
    if target.exists() and not target.is_file():
        raise ArchiveError(both(f"{target} 不是普通文件，不能覆盖", f"{target} is no regular file and is not replaced"))
    try:
        return _Backup(home, notebooks or home / NOTEBOOKS, target, version, with_files, clock, monotonic).write()
    except OSError as error:
        raise ArchiveError(
            both(f"备份 {target} 没有写成", f"the backup {target} was not written") + f": {error.strerror or error}"
        ) from error


class _Backup:
    def __init__(
        self,
        home: Path,
        notebooks: Path,
        target: Path,
        version: str,
        with_files: bool,
        clock: Clock,
        monotonic: Clock,
    ) -> None:
        self._home = home
        self._notebooks = notebooks
        self._target = target
        self._version = version
        self._with_files = with_files
        self._now = clock()
        self._monotonic = monotonic
        self._report = BackupReport(target)
        self._files: list[ArchivedFile] = []

    def write(self) -> BackupReport:
        temporary, descriptor = open_temporary(self._target.parent, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as raw:
                with (
                    gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=int(self._now)) as packed,
                    tarfile.open(
                        fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape"
                    ) as archive,
                ):
                    self._write_all(archive)
                raw.flush()
                os.fsync(raw.fileno())
                self._report.size = raw.tell()
            temporary.replace(self._target)
            sync_folder(self._target.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return self._report

    def _write_all(self, archive: tarfile.TarFile) -> None:
        for entry in contents(self._home, self._notebooks, with_files=self._with_files, tell=self._tell):
            if entry.folder:
                self._add_folder(archive, entry)
            elif not self._is_the_backup(entry.path):
                self._add_file(archive, entry)
        manifest = ArchiveManifest(
            version=self._version,
            made=datetime.fromtimestamp(self._now, UTC).isoformat(timespec="seconds"),
            files=tuple(self._files),
            with_files=self._with_files,
        ).to_bytes()
        info = tarfile.TarInfo(MANIFEST)
        info.size, info.mode, info.mtime = len(manifest), 0o600, int(self._now)
        archive.addfile(info, io.BytesIO(manifest))
        self._report.files = len(self._files)

    def _tell(self, name: str, what: str) -> None:
        self._report.told.append((name, what))

    def _lose(self, name: str, what: str) -> None:
        self._tell(name, what)
        self._report.lost += 1

    def _is_the_backup(self, path: Path) -> bool:
        try:
            return self._target.exists() and path.samefile(self._target)
        except OSError:
            return False

    def _add_folder(self, archive: tarfile.TarFile, entry: Entry) -> None:
        try:
            status = entry.path.stat()
        except OSError:
            return  # its files tell what there is to tell
        info = tarfile.TarInfo(f"{PREFIX}{entry.name}")
        info.type, info.mode, info.mtime = tarfile.DIRTYPE, status.st_mode & 0o777, int(status.st_mtime)
        archive.addfile(info)

    def _add_file(self, archive: tarfile.TarFile, entry: Entry) -> None:
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES, dir=str(self._target.parent)) as copy:
            status = self._copied(entry, copy)
            if status is None:
                return
            size = copy.tell()
            copy.seek(0)
            digest = hashlib.sha256()
            while block := copy.read(BLOCK_BYTES):
                digest.update(block)
            copy.seek(0)
            info = tarfile.TarInfo(f"{PREFIX}{entry.name}")
            info.size, info.mode, info.mtime = size, status.st_mode & 0o777, int(status.st_mtime)
            archive.addfile(info, copy)
        self._files.append(ArchivedFile(entry.name, size, digest.hexdigest()))

    def _copied(self, entry: Entry, copy: IO[bytes]) -> os.stat_result | None:
        """Fill ``copy`` with the file; None when it cannot be had, which has been told then."""
        try:
            source = entry.path.open("rb")
        except FileNotFoundError:
            self._tell(entry.name, both("备份期间消失了", "vanished while the backup was made"))
            return None
        except OSError as error:
            self._lose(entry.name, both("无法读取", "cannot be read") + f": {error.strerror or error}")
            return None
        with source:
            try:
                status = os.fstat(source.fileno())
                database = source.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
            except OSError as error:
                self._lose(entry.name, both("无法读取", "cannot be read") + f": {error.strerror or error}")
                return None
            copied = self._copied_by_sqlite(entry, copy) if database else None
            if copied is None:
                copied = self._copied_whole(entry, source, copy)
            return status if copied else None

    def _copied_whole(self, entry: Entry, source: IO[bytes], copy: IO[bytes]) -> bool:
        """A copy of one moment: read anew when the file was written to meanwhile."""
        for _ in range(READS):
            copy.seek(0)
            copy.truncate()
            try:
                source.seek(0)
                before = os.fstat(source.fileno())
            except OSError as error:
                self._lose(entry.name, both("无法读取", "cannot be read") + f": {error.strerror or error}")
                return False
            while True:
                try:
                    block = source.read(BLOCK_BYTES)
                except OSError as error:
                    self._lose(entry.name, both("无法读取", "cannot be read") + f": {error.strerror or error}")
                    return False
                if not block:
                    break
                copy.write(block)
            after = os.fstat(source.fileno())
            if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                return True
        self._tell(entry.name, both("读取期间一直在被写入", "was written to all the time while it was read"))
        return True

    def _copied_by_sqlite(self, entry: Entry, copy: IO[bytes]) -> bool | None:
        """A consistent copy of a database that others may be using; false when it cannot be had, None if it is none."""
        deadline = self._monotonic() + SQLITE_SECONDS
        with tempfile.TemporaryDirectory(dir=self._target.parent, prefix=".vcp-backup-", suffix=".tmp") as folder:
            copied = Path(folder) / "copy.sqlite"
            try:
                _sqlite_copy(entry.path, copied, lambda: self._monotonic() > deadline)
            except TimeoutError:
                self._lose(
                    entry.name,
                    both(
                        f"数据库被锁定超过 {SQLITE_SECONDS:g} 秒", f"the database was locked for {SQLITE_SECONDS:g} s"
                    ),
                )
                return False
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
                if error.sqlite_errorcode & 0xFF in _NO_ROOM_BESIDE and not Path(f"{entry.path}-wal").exists():
                    return None  # a folder in which SQLite may make no files; without a log the bytes are complete
                self._lose(entry.name, both("数据库无法读取", "the database cannot be read") + f": {error}")
                return False
            except sqlite3.DatabaseError:
                return None  # begins like a database and is none: its bytes are kept as they are
            with copied.open("rb") as file:
                shutil.copyfileobj(file, copy, BLOCK_BYTES)
        return True


def _sqlite_copy(source: Path, target: Path, late: Callable[[], bool]) -> None:
    """Copy a database with SQLite itself, in one step, so that it is of one moment. TimeoutError when ``late``."""

    def progress(status: int, remaining: int, total: int) -> None:
        if status not in (sqlite3.SQLITE_OK, sqlite3.SQLITE_DONE) and late():
            raise TimeoutError

    address = f"{source.absolute().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(address, uri=True, timeout=0.2)) as original,
        closing(sqlite3.connect(target)) as copy,
    ):
        original.backup(copy, pages=-1, progress=progress, sleep=0.1)
