"""Diary files on disk: never overwritten, never seen half written (memory.md 1.2, 11.1; B34)."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from app.protocol.diary import file_name, safe_folder

from .failure import NoteError

MAX_ATTEMPTS = 1000
"""Notes of one notebook that may carry the same second in their names."""

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EACCES})


def notebook_folder(root: Path, name: str) -> Path:
    """The folder of a notebook, made if it is missing. Where it really lies must be inside the diary root (B3)."""
    root.mkdir(parents=True, exist_ok=True)
    folder = root / safe_folder(name)
    folder.mkdir(exist_ok=True)
    real, real_root = folder.resolve(), root.resolve()
    if real == real_root or not real.is_relative_to(real_root):
        raise NoteError(
            f"日记本 {folder.name!r} 是指向日记目录之外的链接，没有写入",
            f"notebook {folder.name!r} is a link that leads out of the diary folder; nothing was written",
        )
    return folder


def create_note(folder: Path, date: str, moment: datetime, extension: str, text: str) -> Path:
    """Store a new note under the first free name; it appears whole, or not at all."""
    with _temporary(folder, text) as written:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            target = folder / file_name(date, moment, extension, attempt)
            if _publish(written, target):
                _sync_folder(folder)
                return target
    raise NoteError(
        f"同一秒内已有 {MAX_ATTEMPTS} 篇日记，请稍后再写",
        f"{MAX_ATTEMPTS} notes already carry this second: write again in a moment",
    )


def replace_note(path: Path, before: str, after: str) -> bool:
    """Put ``after`` in the place of the note if it still says ``before``; someone else's edit is left alone."""
    try:
        unchanged = path.read_bytes() == before.encode("utf-8")
    except FileNotFoundError:
        return False
    if not unchanged:
        return False
    with _temporary(path.parent, after) as written:
        written.replace(path)
        _sync_folder(path.parent)
    return True


@contextlib.contextmanager
def _temporary(folder: Path, text: str) -> Iterator[Path]:
    """A hidden file with the text, safe on the disk; its name is none that readers of diaries look at."""
    path = folder / f".{os.urandom(16).hex()}.tmp"
    try:
        with path.open("xb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        yield path
    finally:
        path.unlink(missing_ok=True)


def _publish(written: Path, target: Path) -> bool:
    """Give the finished file its name, unless the name is taken."""
    try:
        target.hardlink_to(written)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        return _claim_and_rename(written, target)
    return True


def _claim_and_rename(written: Path, target: Path) -> bool:
    """The same without hard links: an empty file claims the name, then the finished one takes its place."""
    try:
        target.open("xb").close()
    except FileExistsError:
        return False
    written.replace(target)
    return True


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where folders can be synced."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot sync folders; the file itself is already safe.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
