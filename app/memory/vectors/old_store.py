"""Reads an existing ``VectorStore/knowledge_base.sqlite``, which may be anything at all (memory.md 3.5). Blocking."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.errors import VcpError, both
from app.memory.embedders.embedder import Vector
from app.memory.vectors.matrix import unit
from app.memory.vectors.set_files import BUILDING_PREFIX

STORE_NAME = "knowledge_base.sqlite"
MAX_BYTES = 64 * 1024**3
MAX_TEXT_CHARS = 1_000_000
MAX_NOTE_BYTES = 8 * 1024 * 1024
LONGEST_DIMENSION = 16_384
READ_SECONDS = 60.0
"""One question to the file may take so long; a table may be made so that it never ends."""

PAGE = 256
_STEPS = 100_000
_TABLES = {"files": {"path", "checksum"}, "chunks": {"id", "content", "vector"}}
_NAME_KEY = "diary_name:"


class ImportRefusedError(VcpError):
    """The file is no store that can be imported."""

    status = 400
    code = "import_refused"


@dataclass(frozen=True, slots=True)
class OldText:
    """A text of the store with its vector of length 1; None for what is no vector."""

    text: str
    vector: Vector | None


class OldStore:
    """The file, opened so that nothing of it changes. Use it from one thread at a time, and close it."""

    def __init__(self, path: Path, scratch: Path) -> None:
        """Open it. With a WAL beside it a copy in ``scratch`` is read, since its newest rows stand there.

        Raises ImportRefusedError.
        """
        self._copy: Path | None = None
        self._until = 0.0
        self.path = path
        try:
            if path.is_dir():
                self.path = path / STORE_NAME
            self._connection = self._opened(scratch)
            self.tables = self._checked()
        except (sqlite3.Error, OSError, ValueError) as error:
            self.close()
            raise ImportRefusedError(
                both(f"无法读取 {self.path}：{error}", f"{self.path} cannot be read: {error}")
            ) from error
        except ImportRefusedError:
            self.close()
            raise

    def close(self) -> None:
        """Close it, and remove the copy."""
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()
        if self._copy is not None:
            shutil.rmtree(self._copy, ignore_errors=True)

    def dimension(self) -> int:
        """Numbers of most vectors; 0 when there are none."""
        rows = self._all(
            "SELECT length(vector) AS size, count(*) FROM (SELECT vector FROM chunks WHERE typeof(vector) = 'blob' "
            "LIMIT 1000) GROUP BY size ORDER BY count(*) DESC, size LIMIT 1"
        )
        size = int(rows[0][0]) if rows else 0
        return size // 4 if size % 4 == 0 and size // 4 <= LONGEST_DIMENSION else 0

    def chunks(self, dimension: int, after: int) -> tuple[list[OldText], int]:
        """The next texts of notes behind row ``after``, and the row to go on behind; none at the end."""
        return self._page("chunks", "id", "content", dimension, after)

    def tags(self, dimension: int, after: int) -> tuple[list[OldText], int]:
        """The same for tags."""
        return self._page("tags", "rowid", "name", dimension, after) if "tags" in self.tables else ([], after)

    def names(self, dimension: int, after: int) -> tuple[list[OldText], int]:
        """The same for names of notebooks."""
        if "kv_store" not in self.tables:
            return [], after
        found, last = self._page("kv_store", "rowid", "key", dimension, after)
        named = [one for one in found if one.text.startswith(_NAME_KEY)]
        return [OldText(one.text.removeprefix(_NAME_KEY), one.vector) for one in named], last

    def files(self) -> Iterator[tuple[str, str]]:
        """Path and MD5 of all files."""
        last = 0
        while rows := self._all(
            "SELECT rowid, CAST(path AS TEXT), CAST(checksum AS TEXT) FROM files WHERE rowid > ? "
            "AND length(path) < 4096 AND length(checksum) < 100 ORDER BY rowid LIMIT 1000",
            last,
        ):
            last = int(rows[-1][0])
            yield from ((str(path), str(checksum)) for _, path, checksum in rows)

    def _page(self, table: str, key: str, column: str, dimension: int, after: int) -> tuple[list[OldText], int]:
        rows = self._all(
            f"SELECT {key}, CASE WHEN length({column}) <= {MAX_TEXT_CHARS} THEN CAST({column} AS TEXT) ELSE '' END, "
            f"CASE WHEN typeof(vector) = 'blob' AND length(vector) = {4 * dimension} THEN vector END "
            f"FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT {PAGE}",
            after,
        )
        texts = [OldText(str(text or ""), _vector(vector)) for _, text, vector in rows]
        return texts, int(rows[-1][0]) if rows else after

    def _all(self, statement: str, *values: int) -> list[tuple[Any, ...]]:
        self._until = time.monotonic() + READ_SECONDS
        try:
            return [tuple(row) for row in self._connection.execute(statement, values).fetchall()]
        except (sqlite3.Error, OverflowError, MemoryError) as error:
            raise ImportRefusedError(both(f"文件已损坏：{error}", f"the file is damaged: {error}")) from error

    def _opened(self, scratch: Path) -> sqlite3.Connection:
        facts = self.path.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES:
            raise ImportRefusedError(both(f"{self.path} 不是数据库文件", f"{self.path} is no database file"))
        path = self.path
        log = Path(f"{path}-wal")
        if log.is_file() and log.stat().st_size:
            scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._copy = Path(tempfile.mkdtemp(prefix=BUILDING_PREFIX, dir=scratch))
            path = self._copy / STORE_NAME
            shutil.copyfile(self.path, path)
            shutil.copyfile(log, f"{path}-wal")
        how = "mode=rw" if self._copy is not None else "mode=ro&immutable=1"
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True, check_same_thread=False)
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        self._until = time.monotonic() + READ_SECONDS
        connection.set_progress_handler(lambda: int(time.monotonic() > self._until), _STEPS)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _checked(self) -> frozenset[str]:
        rows = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 1000").fetchall()
        names = frozenset(str(name) for (name,) in rows)
        for table, wanted in _TABLES.items():
            columns = {str(row[1]) for row in self._connection.execute(f"PRAGMA table_info({table})")}
            if table not in names or not wanted <= columns:
                raise ImportRefusedError(
                    both(f"{self.path} 不是 VectorStore 数据库", f"{self.path} is no database of a VectorStore")
                )
        return names


def current_files(store: OldStore, root: Path, stopped: Callable[[], bool] = lambda: False) -> tuple[int, int, int]:
    """How many files the store knows, how many of them are others now, and how many are not there."""
    files = stale = missing = 0
    for path, checksum in store.files():
        if stopped():
            break
        files += 1
        parts = path.replace("\\", "/").split("/")
        note = root.joinpath(*parts) if not {"", ".", ".."} & set(parts) and "\0" not in path else None
        digest = "" if note is None else _md5(root, note)
        missing += not digest
        stale += bool(digest) and digest != checksum.lower()
    return files, stale, missing


def _md5(root: Path, note: Path) -> str:
    """Of a file below the root that no link leads to; empty when there is none."""
    try:
        if any(parent.is_symlink() for parent in (note, *note.parents) if parent != root and root in parent.parents):
            return ""
        facts = note.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_NOTE_BYTES:
            return ""
        return hashlib.md5(note.read_bytes(), usedforsecurity=False).hexdigest()
    except (OSError, ValueError):
        return ""


def _vector(blob: object) -> Vector | None:
    if not isinstance(blob, bytes) or not blob:
        return None
    with np.errstate(all="ignore"):
        return unit(np.frombuffer(blob, "<f4"))
