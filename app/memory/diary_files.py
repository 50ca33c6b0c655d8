"""Diary files on disk: never overwritten, never seen half written (memory.md 1.2, 11.1; B34)."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from app.errors import VcpError, both
from app.protocol.diary import file_name, safe_folder

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

MAX_ATTEMPTS = 1000
"""Notes of one notebook that may carry the same second in their names."""

LOCK_SECONDS = 10.0
_LOCK_POLL_SECONDS = 0.02


class DiaryError(VcpError):
    """A note cannot be stored or changed; the text says why and what helps."""

    status = 400
    code = "diary"

    def __init__(self, chinese: str, english: str) -> None:
        super().__init__(both(chinese, english))


_NO_LOCKS = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENOLCK, errno.EBADF})
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EACCES})


def notebook_folder(root: Path, name: str) -> Path:
    """The folder of a notebook, made if it is missing. Where it really lies must be inside the diary root (B3)."""
    root.mkdir(parents=True, exist_ok=True)
    folder = root / safe_folder(name)
    folder.mkdir(exist_ok=True)
    if not lies_inside(root, folder):
        raise DiaryError(
            f"日记本 {folder.name!r} 是指向日记目录之外的链接，没有写入",
            f"notebook {folder.name!r} is a link that leads out of the diary folder; nothing was written",
        )
    return folder


def lies_inside(root: Path, path: Path) -> bool:
    """Whether ``path`` really lies below ``root``, all links followed (B3)."""
    real, real_root = path.resolve(), root.resolve()
    return real != real_root and real.is_relative_to(real_root)


def create_note(folder: Path, date: str, moment: datetime, extension: str, text: str, *, suffix: str = "") -> Path:
    """Store a new note under the first free name; it appears whole, or not at all.

    ``suffix`` is what the caller wants to have in the name behind date and time.
    """
    with _temporary(folder, text) as written:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            target = folder / file_name(date, moment, extension, attempt, suffix)
            if _publish(written, target):
                _sync_folder(folder)
                return target
    raise DiaryError(
        f"同一秒内已有 {MAX_ATTEMPTS} 篇日记，请稍后再写",
        f"{MAX_ATTEMPTS} notes already carry this second: write again in a moment",
    )


def replace_note(path: Path, before: str, after: str) -> bool:
    """Put ``after`` in the place of the note if it still says ``before``; someone else's edit is left alone.

    Writers that go through here take turns (where the system can lock a folder), so none of them undoes another's.
    Raises DiaryError when the others do not get done within ``LOCK_SECONDS``.
    """
    with _locked(path.parent):
        try:
            unchanged = path.read_bytes() == before.encode("utf-8")
        except FileNotFoundError:
            return False
        if not unchanged:
            return False
        with _temporary(path.parent, after, mode=path.stat().st_mode & 0o777) as written:
            written.replace(path)
            _sync_folder(path.parent)
        return True


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder against other writers of notes; nothing is locked where folders cannot be (Windows, some NFS)."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        last = time.monotonic() + LOCK_SECONDS
        while not _lock(descriptor):
            if time.monotonic() > last:
                raise DiaryError(
                    f"日记本 {folder.name!r} 一直被其他写入占用，请稍后再试",
                    f"notebook {folder.name!r} is held by another writer; try again in a moment",
                )
            time.sleep(_LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)  # which gives the lock back


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


@contextlib.contextmanager
def _temporary(folder: Path, text: str, *, mode: int | None = None) -> Iterator[Path]:
    """A hidden file with the text, safe on the disk; its name is none that readers of diaries look at."""
    path = folder / f".{os.urandom(16).hex()}.tmp"
    try:
        with path.open("xb") as file:
            if mode is not None:
                path.chmod(mode)
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
