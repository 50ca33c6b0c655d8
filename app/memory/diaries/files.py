"""Diary files on disk: never overwritten, never seen half written (memory.md 1.2, 11.1; B34)."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from app.config.durable import publish, sync_folder, written
from app.errors import VcpError, both
from app.protocol.diary import file_name, safe_folder

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

MAX_ATTEMPTS = 1000
"""Notes of one notebook that may carry the same second in their names."""

NOTE_MODE = 0o666
"""Who may read and write a new note is for the umask to say: people edit notes too."""

LOCK_SECONDS = 10.0
_LOCK_POLL_SECONDS = 0.02


class DiaryError(VcpError):
    """A note cannot be stored or changed; the text says why and what helps."""

    status = 400
    code = "diary"

    def __init__(self, chinese: str, english: str) -> None:
        super().__init__(both(chinese, english))

    def fields(self) -> Mapping[str, str]:
        """What the answer of a tool says beside the text."""
        return {}


_NO_LOCKS = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENOLCK, errno.EBADF})


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
    with written(folder, text.encode("utf-8"), NOTE_MODE) as temporary:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            target = folder / file_name(date, moment, extension, attempt, suffix)
            if publish(temporary, target):
                return target
    raise DiaryError(
        f"同一秒内已有 {MAX_ATTEMPTS} 篇日记，请稍后再写",
        f"{MAX_ATTEMPTS} notes already carry this second: write again in a moment",
    )


def replace_note(path: Path, before: str, after: str) -> bool:
    """``replace_bytes`` for texts."""
    return replace_bytes(path, before.encode("utf-8"), after.encode("utf-8"))


def replace_bytes(path: Path, before: bytes, after: bytes) -> bool:
    """Put ``after`` in the place of the note if it still says ``before``; someone else's edit is left alone.

    Writers that go through here take turns (where the system can lock a folder), so none of them undoes another's.
    Raises DiaryError when the others do not get done within ``LOCK_SECONDS``.
    """
    with locked(path.parent):
        try:
            unchanged = path.read_bytes() == before
        except FileNotFoundError:
            return False
        if not unchanged:
            return False
        mode = path.stat().st_mode & 0o777
        with written(path.parent, after, mode) as temporary:
            temporary.chmod(mode)  # whatever the umask says
            temporary.replace(path)
        sync_folder(path.parent)
        return True


def move_note(source: Path, target: Path) -> bool:
    """Give a note another place, never one that is taken: then false, and nothing is changed.

    Whoever edits it through ``replace_note`` is waited for. Killed in the middle, the note is at both places, never at
    none. Across file systems the note is copied. Raises OSError (FileNotFoundError: it is gone) and DiaryError.
    """
    with locked(source.parent):
        try:
            moved = publish(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            moved = _copy(source, target)
        if moved:
            source.unlink(missing_ok=True)  # without hard links it was renamed already
            sync_folder(source.parent)
    return moved


def _copy(source: Path, target: Path) -> bool:
    status = source.stat()
    with written(target.parent, source.read_bytes(), status.st_mode & 0o777) as temporary:
        os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
        return publish(temporary, target)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
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
