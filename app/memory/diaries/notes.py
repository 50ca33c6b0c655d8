"""Notes for people who look after them: lists, search, saving, moving, deleting (memory.md 1.7; vcp-core 8.2)."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from app.config.durable import create_atomic, sync_folder
from app.errors import both
from app.memory.diaries.files import NOTE_MODE, DiaryError, locked, move_note, replace_bytes
from app.memory.diaries.notebooks import (
    NoSuchNoteError,
    check_name,
    existing_notebook,
    note_files,
    note_path,
    notebooks,
    walk_notes,
)
from app.memory.diaries.requests import MAX_CONTENT_BYTES
from app.memory.diaries.trash import Trash

PREVIEW_CHARS = 100
MAX_RESULTS = 500
"""Notes that one search gives."""

SEARCH_SECONDS = 20.0
"""A search that takes longer gives what it has found, and says so."""

MAX_BATCH = 10_000
"""Notes that one request moves or deletes."""


@dataclass(frozen=True, slots=True)
class NoteLine:
    """A note in a list. ``modified`` is in nanoseconds since the epoch."""

    notebook: str
    name: str
    modified: int
    preview: str


@dataclass(frozen=True, slots=True)
class Found:
    """The newest notes with the words; ``complete`` is false when there are more, or time was over."""

    notes: tuple[NoteLine, ...]
    total: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A note as a request names it; nothing is known of it yet."""

    notebook: str
    file: str

    def __str__(self) -> str:
        return f"{self.notebook}/{self.file}"


@dataclass(frozen=True, slots=True)
class Batch:
    """What came of several notes: a text for each that worked, (note, why) for the others, ``paths`` that changed."""

    done: tuple[str, ...]
    errors: tuple[tuple[str, str], ...]
    paths: tuple[str, ...]
    trash_id: str = ""


class ConflictError(DiaryError):
    """The note is not what the writer thinks; ``current`` is the SHA-256 of what it says, empty when it is gone.

    ``given`` is that of the text that was not saved.
    """

    status = 409
    code = "note_changed"

    def __init__(self, name: str, current: str, given: str) -> None:
        super().__init__(
            f"{name} 在此期间被改动，没有保存", f"{name} was changed meanwhile by somebody else; nothing was saved"
        )
        self.current = current
        self.given = given


def fingerprint(data: bytes) -> str:
    """What names a version of a note: SHA-256 of its bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


class Notes:
    """The notes of a home, by the names that requests bring; all methods block and raise DiaryError and OSError."""

    def __init__(self, home: Path, root: Path) -> None:
        self.root = root
        self.trash = Trash(home, root)

    def notebooks(self) -> list[str]:
        """All notebooks."""
        return notebooks(self.root)

    def of_notebook(self, notebook: str) -> list[NoteLine]:
        """The notes of a notebook, newest first."""
        folder = existing_notebook(self.root, notebook)
        return _newest_first(
            [_line(folder, entry.name, entry.stat(follow_symlinks=False)) for entry in note_files(folder)]
        )

    def read(self, place: Place) -> bytes:
        """The whole note; NoSuchNoteError when there is none."""
        path = self._path(place)
        try:
            if path.stat().st_size > MAX_CONTENT_BYTES:
                raise DiaryError(f"{place} 太大，无法显示", f"{place} is too large to be shown")
            return path.read_bytes()
        except (FileNotFoundError, IsADirectoryError):
            raise NoSuchNoteError(f"没有日记 {str(place)!r}", "File not found") from None

    def search(
        self,
        term: str,
        notebook: str,
        limit: int,
        stopped: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> Found:
        """Notes that have all words of ``term``, in any case, newest first; ``notebook`` empty means all of them.

        Ends early when ``stopped`` is set.
        """
        words = term.casefold().split()
        if notebook:
            existing_notebook(self.root, notebook)
        last = clock() + SEARCH_SECONDS
        found: list[NoteLine] = []
        complete = True
        for path in walk_notes(self.root, notebook):
            if stopped.is_set() or clock() > last:
                complete = False
                break
            line = _matching(self.root, path, words)
            if line is not None:
                found.append(line)
        shown = _newest_first(found)[: max(1, min(limit, MAX_RESULTS))]
        return Found(tuple(shown), len(found), complete and len(shown) == len(found))

    def save(self, place: Place, text: str, expected: str | None) -> str:
        """Write the whole note, a new one too; returns its fingerprint.

        ``expected`` is the fingerprint of what the writer has seen, empty for a note that is not there yet; when it is
        another one now ConflictError comes and nothing is changed. With None the last writer counts. What was there and
        is no text in UTF-8, and so was not shown whole, goes into the trash.
        """
        data = text.encode("utf-8")
        if len(data) > MAX_CONTENT_BYTES:
            raise DiaryError(f"日记超过 {MAX_CONTENT_BYTES} 字节", f"the note is over {MAX_CONTENT_BYTES} bytes")
        if "/" in place.file:
            path = self._path(place)
        else:
            note_path(self.root / check_name(place.notebook), place.file)
            path = note_path(self._made(place.notebook), place.file)
        for _ in range(10):
            before = _bytes_of(path)
            if expected is not None and expected != ("" if before is None else fingerprint(before)):
                raise ConflictError(str(place), "" if before is None else fingerprint(before), fingerprint(data))
            if before is None:
                saved = create_atomic(path, data, NOTE_MODE)
            else:
                self._keep_unreadable(path, before)
                saved = replace_bytes(path, before, data) if path.exists() else create_atomic(path, data, NOTE_MODE)
            if saved:
                return fingerprint(data)
        raise ConflictError(str(place), fingerprint(_bytes_of(path) or b""), fingerprint(data))

    def _keep_unreadable(self, path: Path, before: bytes) -> None:
        try:
            before.decode("utf-8")
        except UnicodeDecodeError:
            self.trash.put(self.trash.begin(datetime.now(UTC)), path)

    def move(self, places: Sequence[Place], target: str) -> Batch:
        """Move notes into another notebook, which is made if it is missing; a name that is taken there stays."""
        folder = self._made(target)
        done: list[str] = []
        errors: list[tuple[str, str]] = []
        paths: list[str] = []
        for place in places:
            try:
                source = self._existing(place)
                if not move_note(source, folder / source.name):
                    raise DiaryError(f"{target}/{source.name} 已存在", f"{target}/{source.name} exists already")
            except (OSError, DiaryError) as error:
                errors.append((str(place), _reason(error)))
                continue
            done.append(f"{place} to {target}/{source.name}")
            paths += [str(place), f"{target}/{source.name}"]
        return Batch(tuple(done), tuple(errors), tuple(paths))

    def delete(self, places: Sequence[Place], now: datetime, keep_days: int) -> Batch:
        """Delete notes; for ``keep_days`` days ``trash.restore`` brings them back (0: never). What was deleted longer
        ago goes for good now.
        """
        self.trash.sweep(now, keep_days)
        trash_id = self.trash.begin(now)
        done: list[str] = []
        errors: list[tuple[str, str]] = []
        for place in places:
            try:
                self.trash.put(trash_id, self._existing(place))
                done.append(str(place))
            except (OSError, DiaryError) as error:
                errors.append((str(place), _reason(error)))
        kept = self.trash.end(trash_id, keep=keep_days > 0)
        return Batch(tuple(done), tuple(errors), tuple(done), trash_id if kept else "")

    def delete_notebook(self, name: str) -> None:
        """Remove an empty notebook; one that has anything in it stays (DiaryError)."""
        folder = existing_notebook(self.root, name)
        with locked(folder):
            try:
                folder.rmdir()
            except OSError as error:
                if any(folder.iterdir()):
                    raise DiaryError(
                        f"日记本 {name!r} 不是空的，请先移走或删除其中的内容",
                        f"Folder {name!r} is not empty; move or delete what is in it first",
                    ) from error
                raise
        sync_folder(self.root)

    def _existing(self, place: Place) -> Path:
        path = self._path(place)
        if not path.is_file():
            raise NoSuchNoteError("没有这篇日记", "Source file not found.")
        return path

    def _path(self, place: Place) -> Path:
        """Where the note lies or would lie; folders inside the notebook have to be there (B3)."""
        *folders, file = place.file.split("/")
        folder = existing_notebook(self.root, place.notebook)
        for name in folders:
            folder = existing_notebook(folder, name)
        return note_path(folder, file)

    def _made(self, notebook: str) -> Path:
        """The folder of a notebook, made if it is missing, under exactly this name."""
        folder = self.root / check_name(notebook)
        folder.mkdir(parents=True, exist_ok=True)
        return existing_notebook(self.root, notebook)


def _matching(root: Path, path: Path, words: Sequence[str]) -> NoteLine | None:
    try:
        status = path.stat()
        if status.st_size > MAX_CONTENT_BYTES:
            return None
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        return None
    folded = text.casefold()
    if not all(word in folded for word in words):
        return None
    below = path.relative_to(root)
    return NoteLine(
        below.parts[0], "/".join(below.parts[1:]), status.st_mtime_ns, _preview(text, len(text) > PREVIEW_CHARS)
    )


def _line(folder: Path, name: str, status: os.stat_result) -> NoteLine:
    try:
        with (folder / name).open("rb") as file:
            data = file.read(4 * PREVIEW_CHARS + 4)
        text = data.decode("utf-8-sig", "replace")
        preview = _preview(text, len(text) > PREVIEW_CHARS or status.st_size > len(data))
    except OSError:
        preview = both("[无法读取]", "[cannot be read]")
    return NoteLine(folder.name, name, status.st_mtime_ns, preview)


def _preview(text: str, longer: bool) -> str:
    return text[:PREVIEW_CHARS].replace("\r\n", " ").replace("\n", " ") + ("..." if longer else "")


def _newest_first(lines: list[NoteLine]) -> list[NoteLine]:
    return sorted(lines, key=lambda line: (-line.modified, line.notebook, line.name))


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return both("没有这篇日记", "Source file not found.")
    return str(error)
