"""Descriptions of media, kept by content in SQLite; what was not used for long or lies over the limit goes."""

from __future__ import annotations

import base64
import contextlib
import logging
import re
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from app.config.small_file import read_small
from app.extend import Clock, Json
from app.protocol.half_characters import whole
from app.protocol.json_text import strict_json

from .media import cleaned, decoded, fingerprint

KEPT_DAYS = 90
KEPT_BYTES = 16 * 1024 * 1024
"""Bytes of a medium that is kept with its description, to be shown and described anew."""

LISTED_BYTES = 32 * 1024 * 1024
"""Bytes of media that a list shows; further ones stand in it by their SHA-256."""

ENTRIES_LIMIT = 50_000
OLD_FILE_BYTES = 256 * 1024 * 1024
DESCRIPTION_CHARS = 200_000
SHA_PREFIX = "sha256:"

_LIKE_MARKS = re.compile("[%_!]")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS transcriptions (
    sha TEXT PRIMARY KEY, id TEXT NOT NULL, description TEXT NOT NULL, mime TEXT NOT NULL,
    made REAL NOT NULL, used REAL NOT NULL, size INTEGER NOT NULL, media BLOB
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_use ON transcriptions (used);
CREATE TABLE IF NOT EXISTS taken_over (file TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_MAGIC = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"), (b"RIFF", "image/webp"))


@dataclass(frozen=True, slots=True)
class Entry:
    """One description; ``mime`` is as old files have it, ``data:image/png;``. ``made`` in Unix seconds."""

    sha: str
    id: str
    description: str
    mime: str
    made: float
    media: bytes | None


@dataclass(frozen=True, slots=True)
class Line:
    """One description in a list, without its medium; ``size`` is that of the medium in bytes, None without one.

    ``made`` and ``used`` in Unix seconds.
    """

    sha: str
    description: str
    mime: str
    made: float
    used: float
    size: int | None

    @property
    def version(self) -> str:
        """What names this description, for whoever changes it."""
        return fingerprint(self.description.encode("utf-8", "surrogatepass"))


class ChangedError(ValueError):
    """A description is another one than whoever changes it has read."""


class Transcriptions:
    """The cache. Methods block, any thread may call them; they raise sqlite3.Error and OSError.

    ``old_files`` of the reference are read once, at the first use.
    """

    def __init__(
        self, path: Path, old_files: Sequence[Path], limit_bytes: int, clock: Clock, log: logging.Logger
    ) -> None:
        self._path = path
        self._old_files = tuple(old_files)
        self._limit = limit_bytes
        self._clock = clock
        self._log = log
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def known(self, shas: Sequence[str]) -> dict[str, str]:
        """The descriptions that there are; they count as used now."""
        with self._open() as connection:
            found: dict[str, str] = {}
            for sha in shas:
                row = connection.execute("SELECT description FROM transcriptions WHERE sha = ?", (sha,)).fetchone()
                if row is not None:
                    found[sha] = row[0]
            connection.executemany(
                "UPDATE transcriptions SET used = ? WHERE sha = ?", [(self._clock(), sha) for sha in found]
            )
            return found

    def keep(self, sha: str, description: str, mime: str, media: bytes) -> None:
        """Store a description, over an older one; what is over the limits goes."""
        now = self._clock()
        entry = Entry(sha, str(uuid.uuid4()), description, mime, now, media)
        with self._open() as connection:
            _insert(connection, entry, now)
            self._tidy(connection, now)

    def entry(self, key: str) -> Entry | None:
        """The entry of a key as lists show it: base64 of the medium, or ``sha256:`` and its digits."""
        with self._open() as connection:
            columns = "sha, id, description, mime, made, media"
            row = connection.execute(f"SELECT {columns} FROM transcriptions WHERE sha = ?", (_sha(key),)).fetchone()
        return None if row is None else Entry(*row)

    def listed(self) -> dict[str, Json]:
        """All entries in the shape of the old file, the last used first."""
        left = LISTED_BYTES
        found: dict[str, Json] = {}
        with self._open() as connection:
            rows = connection.execute(
                "SELECT sha, id, description, mime, made, length(media) FROM transcriptions ORDER BY used DESC, sha"
            ).fetchall()
            for sha, entry_id, description, mime, made, size in rows:
                key = SHA_PREFIX + sha
                if size is not None and size <= left:
                    left -= size
                    (media,) = connection.execute("SELECT media FROM transcriptions WHERE sha = ?", (sha,)).fetchone()
                    key = base64.b64encode(media).decode("ascii")
                found[key] = {"id": entry_id, "description": description, "timestamp": iso(made), "mimeType": mime}
        return found

    def page(self, start: int, count: int, words: str = "") -> tuple[int, list[Line]]:
        """How many descriptions have all of the words in them, and some of these, the last used first."""
        found = "1 = 1" + " AND description LIKE ? ESCAPE '!'" * len(words.split())
        like = ["%" + _LIKE_MARKS.sub(r"!\g<0>", word) + "%" for word in words.split()]
        columns = "sha, description, mime, made, used, length(media)"
        with self._open() as connection:
            (total,) = connection.execute(f"SELECT count(*) FROM transcriptions WHERE {found}", like).fetchone()
            rows = connection.execute(
                f"SELECT {columns} FROM transcriptions WHERE {found} ORDER BY used DESC, sha LIMIT ? OFFSET ?",
                (*like, count, start),
            ).fetchall()
        return total, [Line(*row) for row in rows]

    def line(self, sha: str) -> Line | None:
        """One description."""
        columns = "sha, description, mime, made, used, length(media)"
        with self._open() as connection:
            row = connection.execute(f"SELECT {columns} FROM transcriptions WHERE sha = ?", (sha,)).fetchone()
        return None if row is None else Line(*row)

    def describe(self, sha: str, description: str, expected: str | None = None) -> bool:
        """Give a medium another description; false when it is not here.

        With ``expected``, the version that was read, ChangedError comes when it is another one now. Raises ValueError
        for a description that says nothing.
        """
        text = whole(cleaned(description))[:DESCRIPTION_CHARS]
        if not text:
            raise ValueError("the description is empty")
        with self._open() as connection:
            row = connection.execute(
                "SELECT description, length(media) FROM transcriptions WHERE sha = ?", (sha,)
            ).fetchone()
            if row is None:
                return False
            if expected is not None and expected != fingerprint(row[0].encode("utf-8", "surrogatepass")):
                raise ChangedError("the description was changed meanwhile")
            size = len(text.encode()) + (row[1] or 0) + 200
            connection.execute("UPDATE transcriptions SET description = ?, size = ? WHERE sha = ?", (text, size, sha))
        return True

    def remove(self, sha: str) -> bool:
        """Forget a description and its medium; false when it is not here."""
        with self._open() as connection:
            return connection.execute("DELETE FROM transcriptions WHERE sha = ?", (sha,)).rowcount > 0

    def replace(self, data: Mapping[str, Json]) -> None:
        """Make the cache what a person has made of a list: other texts, fewer or more entries. All of it or nothing.

        Raises ValueError that names what cannot be taken.
        """
        now = self._clock()
        if len(data) > ENTRIES_LIMIT:
            raise ValueError(f"more than {ENTRIES_LIMIT} entries")
        entries = {}
        for key, value in data.items():
            entry = _read_entry(key, value, now)
            if entry is None:
                raise ValueError(f"{key[:20]!r} has no description or is no key")
            entries[entry.sha] = entry
        with self._open() as connection:
            there = {row[0] for row in connection.execute("SELECT sha FROM transcriptions")}
            connection.executemany(
                "DELETE FROM transcriptions WHERE sha = ?", [(sha,) for sha in there - entries.keys()]
            )
            for sha, entry in entries.items():
                if sha in there:
                    connection.execute(
                        "UPDATE transcriptions SET description = ?, id = ?, mime = ? WHERE sha = ?",
                        (entry.description, entry.id, entry.mime, sha),
                    )
                elif entry.media is not None:
                    _insert(connection, entry, now)
            self._tidy(connection, now)

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A transaction: written whole at the end of the block, or not at all."""
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()
                self._take_over(self._connection)
            try:
                yield self._connection
            except BaseException:
                self._connection.rollback()
                raise
            self._connection.commit()

    def _connect(self) -> sqlite3.Connection:
        """Open the file; one that is no database is put aside, for it is only a cache."""
        try:
            return self._connected()
        except sqlite3.DatabaseError as fault:
            if isinstance(fault, sqlite3.OperationalError):
                raise
            self._log.warning("the cache of descriptions is damaged and begins anew: %s", fault)
            self._path.replace(self._path.with_suffix(".damaged"))
            return self._connected()

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=5.0, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def _tidy(self, connection: sqlite3.Connection, now: float) -> None:
        connection.execute("DELETE FROM transcriptions WHERE used < ?", (now - KEPT_DAYS * 86_400,))
        total, count = connection.execute("SELECT coalesce(sum(size), 0), count(*) FROM transcriptions").fetchone()
        while total > self._limit or count > ENTRIES_LIMIT:
            sha, size = connection.execute("SELECT sha, size FROM transcriptions ORDER BY used, sha LIMIT 1").fetchone()
            connection.execute("DELETE FROM transcriptions WHERE sha = ?", (sha,))
            total, count = total - size, count - 1

    def _take_over(self, connection: sqlite3.Connection) -> None:
        """Read the reference's files, each once; they stay as they are."""
        for path in self._old_files:
            if connection.execute("SELECT 1 FROM taken_over WHERE file = ?", (path.name,)).fetchone() is not None:
                continue
            try:
                data = read_small(path, OLD_FILE_BYTES + 1)
            except FileNotFoundError:
                continue
            except OSError as fault:
                self._log.warning("%s cannot be read: %s", path.name, fault.strerror or fault)
                continue
            count = self._imported(connection, path.name, data)
            connection.execute("INSERT INTO taken_over VALUES (?)", (path.name,))
            self._tidy(connection, self._clock())
            connection.commit()
            self._log.info("%d descriptions are taken over from %s", count, path.name)

    def _imported(self, connection: sqlite3.Connection, name: str, data: bytes) -> int:
        try:
            if len(data) > OLD_FILE_BYTES:
                raise ValueError(f"it is larger than {OLD_FILE_BYTES} bytes")
            value = strict_json(data.decode("utf-8-sig"))
        except (ValueError, RecursionError) as fault:
            self._log.warning("%s is not taken over: %s", name, fault)
            return 0
        count, now = 0, self._clock()
        for key, item in value.items() if isinstance(value, dict) else ():
            entry = _read_entry(key, item, now)
            if entry is not None and entry.media is not None:
                count += _insert(connection, entry, now, over=False)
        return count


def _insert(connection: sqlite3.Connection, entry: Entry, used: float, *, over: bool = True) -> int:
    kept = entry.media if entry.media is not None and len(entry.media) <= KEPT_BYTES else None
    size = len(entry.description.encode("utf-8", "replace")) + (0 if kept is None else len(kept)) + 200
    return connection.execute(
        f"INSERT OR {'REPLACE' if over else 'IGNORE'} INTO transcriptions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (entry.sha, entry.id, entry.description, entry.mime, entry.made, used, size, kept),
    ).rowcount


def _read_entry(key: str, value: object, now: float) -> Entry | None:
    """An entry of both shapes of the old file: an object, or the description alone; None for what is none."""
    fields = value if isinstance(value, dict) else {"description": value}
    description = fields.get("description")
    if not isinstance(description, str) or not cleaned(description):
        return None
    media: bytes | None = None
    if not key.startswith(SHA_PREFIX):
        try:
            media = decoded(key)
        except ValueError:
            return None
    given, mime = fields.get("id"), fields.get("mimeType")
    return Entry(
        fingerprint(media) if media is not None else key.removeprefix(SHA_PREFIX),
        whole(given)[:100] if isinstance(given, str) and given else str(uuid.uuid4()),
        whole(cleaned(description))[:DESCRIPTION_CHARS],
        whole(mime)[:200] if isinstance(mime, str) and mime else f"data:{_sniffed(media or b'')};",
        _seconds(fields.get("timestamp"), now),
        media,
    )


def _sha(key: str) -> str:
    """The fingerprint that a key stands for; ValueError for a key that is none."""
    return key.removeprefix(SHA_PREFIX) if key.startswith(SHA_PREFIX) else fingerprint(decoded(key))


def picture_type(media: bytes) -> str | None:
    """The kind of a picture that a browser may show; None for all else."""
    return next((mime for magic, mime in _MAGIC if media.startswith(magic)), None)


def _sniffed(media: bytes) -> str:
    return next((mime for magic, mime in _MAGIC if media.startswith(magic)), "image/jpeg")


def _seconds(value: object, default: float) -> float:
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else default
    except (ValueError, OverflowError):
        return default


def iso(seconds: float) -> str:
    """A time as the old file has it: ``2025-11-27T07:30:00.000Z``."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
