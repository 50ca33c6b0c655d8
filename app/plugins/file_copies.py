"""Copies of clients' files in ``.file_cache`` (spec 5.9, D62): the same bytes once, and who may have them.

``content/`` holds files named by the digest of their bytes, ``index/`` a small file for each client and address that
says which bytes those are, whose file it is and in which state it was. What an older installation left in the folder
itself, named by the digest of the address, has no owner: it is the last resort, and goes with age like all others.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.config.durable import write_atomic
from app.config.small_file import read_small
from app.extend import Clock, FileCopy, Json
from app.protocol.file_urls import path_of
from app.protocol.json_text import compact_json, strict_json

CACHE_DAYS = 30.0
CACHE_BYTES = 1024 * 1024 * 1024
CACHE_FILES = 2_000
ENTRY_BYTES = 4_096

_DAY = 86_400.0
_YOUNG_SECONDS = 60.0
"""Content that nothing points to stays for so long: another process may be about to point to it."""

_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,16}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_OLD = re.compile(r"[0-9a-f]{64}(\.[A-Za-z0-9]{1,16})?")


@dataclass(frozen=True, slots=True)
class Copy:
    """A file as a client got it; ``known`` tells whose it is."""

    content: bytes
    media_type: str
    known: FileCopy


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    time: float
    size: int
    digest: str
    media_type: str
    known: FileCopy


class FileCopies:
    """The copies in ``folder``. All methods block and belong into a thread; several threads may call them.

    ``clock`` is in seconds since the epoch, ``file_bytes`` the size of the largest file. Copies older than
    ``CACHE_DAYS`` do not count; beyond ``CACHE_FILES`` or ``CACHE_BYTES`` the oldest go.
    """

    def __init__(self, folder: Path, clock: Clock, file_bytes: Callable[[], int]) -> None:
        self._folder = folder
        self._index = folder / "index"
        self._content = folder / "content"
        self._clock = clock
        self._file_bytes = file_bytes
        self._lock = threading.Lock()

    def find(self, client: str, url: str) -> Copy | None:
        """What this client got for this address before, if it is whole and not too old."""
        entry = self._entry(self._index / _key(client, url))
        if entry is None or self._is_old(entry.time):
            return None
        content = self._read(self._content / entry.digest)
        if content is None or hashlib.sha256(content).hexdigest() != entry.digest:
            return None
        return Copy(content, entry.media_type, entry.known)

    def find_old(self, url: str) -> bytes | None:
        """What an older installation kept for this address, whoever it was for."""
        path = self._folder / old_name(url)
        try:
            return None if self._is_old(path.stat().st_mtime) else self._read(path)
        except OSError:
            return None

    def keep(self, client: str, url: str, copy: Copy) -> None:
        """Keep what a client got, readable for the server alone, and make room. Raises OSError."""
        for folder in (self._folder, self._index, self._content):
            folder.mkdir(mode=0o700, exist_ok=True)
        digest = hashlib.sha256(copy.content).hexdigest()
        fields: dict[str, Json] = {
            "digest": digest,
            "size": len(copy.content),
            "mediaType": copy.media_type,
            "holder": copy.known.holder,
            "version": copy.known.version,
            "time": self._clock(),
        }
        data = compact_json(fields).encode("utf-8", "replace")
        if len(data) > ENTRY_BYTES:
            return  # a holder with endless names; its files are fetched each time
        with self._lock:
            target = self._content / digest
            if self._read(target) != copy.content:
                write_atomic(target, copy.content, mode=0o600)
            write_atomic(self._index / _key(client, url), data, mode=0o600)
            self._make_room()

    def sweep(self) -> None:
        """Remove what is too old or too much. Raises OSError."""
        with self._lock:
            self._make_room()

    def _make_room(self) -> None:
        entries = sorted(self._entries(), key=lambda entry: entry.time, reverse=True)
        counted: set[str] = set()
        size = 0
        for number, entry in enumerate(entries):
            if entry.digest not in counted:
                size += entry.size
            if number >= CACHE_FILES or size > CACHE_BYTES or self._is_old(entry.time):
                _remove(entry.path)
                size -= 0 if entry.digest in counted else entry.size
            else:
                counted.add(entry.digest)
        for path in _files(self._content):
            with suppress(OSError):
                if path.name not in counted and self._clock() - path.stat().st_mtime > _YOUNG_SECONDS:
                    _remove(path)

    def _entries(self) -> Iterator[_Entry]:
        """All that is pointed to, and what an older installation left; what cannot be read is removed."""
        for path in _files(self._index):
            entry = self._entry(path)
            if entry is not None:
                yield entry
            elif _DIGEST.fullmatch(path.name):
                _remove(path)
        for path in _files(self._folder):
            if _OLD.fullmatch(path.name):
                with suppress(OSError):
                    status = path.stat()
                    yield _Entry(path, status.st_mtime, status.st_size, f"old:{path.name}", "", FileCopy(""))

    def _entry(self, path: Path) -> _Entry | None:
        try:
            fields = strict_json(read_small(path, ENTRY_BYTES + 1).decode("utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(fields, dict):
            return None
        digest, holder, version = fields.get("digest"), fields.get("holder"), fields.get("version")
        media_type, size, time = fields.get("mediaType"), fields.get("size"), fields.get("time")
        if not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
            return None
        if not (isinstance(holder, str) and isinstance(version, str) and isinstance(media_type, str)):
            return None
        if not isinstance(size, int) or not isinstance(time, int | float):
            return None
        return _Entry(path, float(time), size, digest, media_type, FileCopy(holder, version))

    def _is_old(self, time: float) -> bool:
        return not -_DAY <= self._clock() - time <= CACHE_DAYS * _DAY

    def _read(self, path: Path) -> bytes | None:
        limit = self._file_bytes()
        try:
            content = read_small(path, limit + 1)
        except OSError:
            return None
        return content if len(content) <= limit else None


def old_name(url: str) -> str:
    """The name of a copy of an older installation: the digest of the address and its own ending, if a plain one."""
    suffix = Path(path_of(url)).suffix
    return hashlib.sha256(url.encode()).hexdigest() + (suffix if _SUFFIX.fullmatch(suffix) else "")


def _key(client: str, url: str) -> str:
    return hashlib.sha256(f"{client}\0{url}".encode()).hexdigest()


def _files(folder: Path) -> list[Path]:
    try:
        return [entry for entry in folder.iterdir() if entry.is_file() and not entry.is_symlink()]
    except FileNotFoundError:
        return []


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
