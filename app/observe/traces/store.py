"""Traces on the disk: written in batches, searched, deleted when they are old or too many. All of it blocks."""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from app.observe.traces.database import TraceFile, TracesUnavailableError
from app.observe.traces.rows import COLUMNS, TraceRow, row_of, tools_of, words_of

log = logging.getLogger(__name__)

MAX_PAGE = 200
"""Lines of one page."""

MAX_SCANNED = 20_000
"""Traces that one search for words looks through; the next page goes on from there."""

MAX_CHOICES = 200
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
DELETED_AT_ONCE = 200
NAMES = tuple(name.strip() for name in COLUMNS.split(","))
INSERT = f"INSERT INTO traces ({COLUMNS}, words) VALUES ({', '.join('?' * (len(NAMES) + 1))})"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which traces a page shows; empty fields mean any. ``since`` and ``until`` are seconds since the epoch.

    ``after`` is where the last page ended (``Page.next``).
    """

    words: str = ""
    outcome: str = ""
    kind: str = ""
    model: str = ""
    agent: str = ""
    tool: str = ""
    since: float | None = None
    until: float | None = None
    after: tuple[float, int] | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Page:
    """Lines, the newest first, and where the next page begins; None: there is none.

    ``searched_to`` is set when a search has stopped before it had looked at everything: it went back to that time.
    """

    rows: tuple[TraceRow, ...]
    next: tuple[float, int] | None = None
    searched_to: float | None = None


@dataclass(frozen=True, slots=True)
class Choices:
    """What there is to filter by."""

    models: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Packed:
    """A trace ready for the tables: its line, what the search looks through, its tools, the document."""

    id: str
    values: tuple[Any, ...]
    words: str
    tools: tuple[str, ...]
    document: bytes


def packed(document: Mapping[str, Any]) -> Packed:
    """The trace of a document; raises whatever a document that is none leads to."""
    row = row_of(document)
    return Packed(
        whole_text(row.id),
        tuple(whole_text(getattr(row, name)) for name in NAMES),
        whole_text(words_of(document)),
        tuple(whole_text(tool) for tool in sorted(tools_of(document))),
        zlib.compress(written(document), 1),
    )


class TraceStore:
    """The traces of one installation. Raises TracesUnavailableError, and OSError never."""

    def __init__(self, path: Path) -> None:
        self._file = TraceFile(path)
        self._lock = threading.Lock()  # one writer; readers need none

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def add(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Keep these traces, all or none; one that is there already is replaced."""
        self.add_packed([packed(document) for document in documents])

    def add_packed(self, traces: Sequence[Packed]) -> None:
        """The same for traces that were made ready before."""
        if not traces:
            return
        with self._writing() as connection:
            for trace in traces:
                _insert(connection, trace)

    def page(self, wanted: Wanted) -> Page:
        """The traces that fit, the newest first."""
        conditions, values = _conditions(wanted)
        limit = max(1, min(wanted.limit, MAX_PAGE))
        words = [word for word in wanted.words.lower().split()[:10] if word]
        inner = f"SELECT * FROM traces{_where(conditions)} ORDER BY started DESC, seq DESC"
        if words:
            inner += f" LIMIT {MAX_SCANNED}"
        with self._reading() as connection:
            if connection is None:
                return Page(())
            if not words:
                found = _rows(connection, f"SELECT seq, {COLUMNS} FROM ({inner} LIMIT {limit + 1})", values)
                return _page(found, limit)
            has_words = " AND ".join(["instr(words, ?) > 0"] * len(words))
            found = _rows(
                connection,
                f"SELECT seq, {COLUMNS} FROM ({inner}) WHERE {has_words} "
                f"ORDER BY started DESC, seq DESC LIMIT {limit + 1}",
                [*values, *words],
            )
            page = _page(found, limit)
            if page.next is not None:
                return page
            edge = connection.execute(
                f"SELECT started, seq FROM traces{_where(conditions)} "
                f"ORDER BY started DESC, seq DESC LIMIT 1 OFFSET {MAX_SCANNED - 1}",
                values,
            ).fetchone()
            return page if edge is None else Page(page.rows, (edge[0], edge[1]), edge[0])

    def one(self, id: str) -> dict[str, Any] | None:
        """The document of a trace."""
        with self._reading() as connection:
            row = (
                connection
                and connection.execute(
                    "SELECT document FROM documents JOIN traces USING (seq) WHERE id = ?", (id,)
                ).fetchone()
            )
        return None if not row else _unpacked(row[0])

    def related(self, id: str) -> tuple[TraceRow, ...]:
        """Traces that belong to this one: what it led to, and what repeats it; the oldest first, 50 at most."""
        with self._reading() as connection:
            if connection is None:
                return ()
            both_kinds = " UNION ".join(
                f"SELECT seq, {COLUMNS} FROM traces WHERE {column} = ? AND {column} != ''"
                for column in ("parent", "replay_of")
            )
            found = _rows(connection, f"{both_kinds} ORDER BY started LIMIT 50", [id, id])
        return tuple(row for _, row in found)

    def choices(self) -> Choices:
        """Models, agents and tools that traces name."""

        def names(connection: sqlite3.Connection, column: str, table: str) -> tuple[str, ...]:
            sql = f"SELECT DISTINCT {column} FROM {table} WHERE {column} != '' ORDER BY {column} LIMIT {MAX_CHOICES}"
            return tuple(row[0] for row in connection.execute(sql))

        with self._reading() as connection:
            if connection is None:
                return Choices()
            return Choices(
                names(connection, "model", "traces"),
                names(connection, "agent", "traces"),
                names(connection, "tool", "tools"),
            )

    def count(self) -> int:
        """How many there are."""
        with self._reading() as connection:
            return 0 if connection is None else int(connection.execute("SELECT count(*) FROM traces").fetchone()[0])

    def delete(self, id: str | None = None) -> int:
        """Delete one trace, or all; how many were there."""
        if not self.path.exists():
            return 0
        with self._writing() as connection:
            sql = "DELETE FROM traces" + ("" if id is None else " WHERE id = ?")
            gone = connection.execute(sql, () if id is None else (id,)).rowcount
        self._tidy()
        return gone

    def keep(self, since: float, max_bytes: int) -> None:
        """Delete what began before ``since``, and the oldest while all take more than ``max_bytes``."""
        if not self.path.exists():
            return
        with self._writing() as connection:
            gone = connection.execute("DELETE FROM traces WHERE started < ?", (since,)).rowcount
        while True:
            with self._lock:
                used = self._file.used()
            if used <= max_bytes:
                break
            with self._writing() as connection:
                oldest = f"SELECT seq FROM traces ORDER BY started, seq LIMIT {DELETED_AT_ONCE}"
                fewer = connection.execute(f"DELETE FROM traces WHERE seq IN ({oldest})").rowcount
            gone += fewer
            if not fewer:
                break
        if gone:
            self._tidy()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def _tidy(self) -> None:
        with self._told(), self._lock:
            self._file.tidy()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._told(), self._lock, self._file.writing() as connection:
            yield connection

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        with self._told(), self._file.reading() as connection:
            yield connection

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise TracesUnavailableError(str(error)) from error
        except OSError as error:
            raise TracesUnavailableError(error.strerror or str(error)) from error


def _insert(connection: sqlite3.Connection, trace: Packed) -> None:
    values = (*trace.values, trace.words)
    try:
        seq = connection.execute(INSERT, values).lastrowid
    except sqlite3.IntegrityError:  # it is there already
        connection.execute("DELETE FROM traces WHERE id = ?", (trace.id,))
        seq = connection.execute(INSERT, values).lastrowid
    connection.execute("INSERT INTO documents VALUES (?, ?)", (seq, trace.document))
    if trace.tools:
        connection.executemany("INSERT OR IGNORE INTO tools VALUES (?, ?)", [(tool, seq) for tool in trace.tools])


def whole_text(value: Any) -> Any:
    """A text that SQLite can keep: halves of characters are replaced, no NUL in it."""
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


def written(document: Mapping[str, Any]) -> bytes:
    """A document as JSON in UTF-8; halves of characters are replaced."""
    try:
        return orjson.dumps(document)
    except TypeError:  # halves of characters, numbers beyond 64 bits
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8", "replace")


def _unpacked(data: bytes) -> dict[str, Any]:
    opened: dict[str, Any] = orjson.loads(zlib.decompressobj().decompress(data, MAX_DOCUMENT_BYTES))
    return opened


def _conditions(wanted: Wanted) -> tuple[list[str], list[Any]]:
    conditions: list[str] = []
    values: list[Any] = []
    for column in ("outcome", "kind", "model", "agent"):
        if value := getattr(wanted, column):
            conditions.append(f"{column} = ?")
            values.append(whole_text(value))
    if wanted.tool:
        conditions.append("EXISTS (SELECT 1 FROM tools WHERE tool = ? AND tools.seq = traces.seq)")
        values.append(whole_text(wanted.tool))
    if wanted.since is not None:
        conditions.append("started >= ?")
        values.append(wanted.since)
    if wanted.until is not None:
        conditions.append("started <= ?")
        values.append(wanted.until)
    if wanted.after is not None:
        conditions.append("(started, seq) < (?, ?)")
        values += wanted.after
    return conditions, values


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _rows(connection: sqlite3.Connection, sql: str, values: Sequence[Any]) -> list[tuple[int, TraceRow]]:
    return [(row[0], TraceRow(*row[1:])) for row in connection.execute(sql, values)]


def _page(found: Sequence[tuple[int, TraceRow]], limit: int) -> Page:
    rows = tuple(row for _, row in found[:limit])
    if len(found) <= limit:
        return Page(rows)
    seq, last = found[limit - 1]
    return Page(rows, (last.started, seq))
