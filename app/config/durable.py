"""Files that are whole at every moment: a reader, or a crash, meets the old content or the new, never a part."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

_NO_HARD_LINKS = frozenset(
    {errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
)


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace the content of ``path``, or make the file; its folder must exist.

    A symbolic link stays a link, its target is replaced. Only a regular file is: a device or pipe that somebody linked
    to belongs to the machine. ``mode`` is subject to the process's umask. When this returns the content is on the disk.
    Raises OSError, and then the old content is untouched.
    """
    try:
        target = path.resolve() if path.is_symlink() else path
    except RuntimeError:  # what some versions of Python raise for links that lead in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from None
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(target.lstat().st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
    with written(target.parent, data, mode) as temporary:
        temporary.replace(target)
    sync_folder(target.parent)


def create_atomic(path: Path, data: bytes, mode: int = 0o644) -> bool:
    """Make the file with this content unless it exists; false when it does, and then nothing is changed.

    Of several processes that call this at a time, exactly one gets true. Raises OSError.
    """
    with written(path.parent, data, mode) as temporary:
        return publish(temporary, path)


@contextlib.contextmanager
def written(folder: Path, data: bytes, mode: int = 0o644) -> Iterator[Path]:
    """A hidden file with this content in ``folder``, safe on the disk, for the block to give it its name.

    What has no name at the end of the block is gone. ``mode`` is subject to the process's umask. Raises OSError.
    """
    temporary, descriptor = open_temporary(folder, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def publish(temporary: Path, path: Path) -> bool:
    """Give a written file the name ``path`` in the same folder; false when the name is taken, and nothing is changed.

    Whoever else wants the name at the same moment gets false. On a file system without hard links a reader may meet the
    file empty for a moment. When this returns the name is on the disk too. Raises OSError.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if not _claim_and_rename(temporary, path):
            return False
    sync_folder(path.parent)
    return True


def _claim_and_rename(temporary: Path, path: Path) -> bool:
    """The same without hard links: an empty file claims the name, then the written one takes its place."""
    try:
        path.open("xb").close()
    except FileExistsError:
        return False
    try:
        temporary.replace(path)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return True


def open_temporary(folder: Path, mode: int) -> tuple[Path, int]:
    """A new hidden file in ``folder``, open for writing, and its descriptor; only there is a rename atomic.

    Its name fits every file system, however long the one is that it will get. Raises OSError.
    """
    temporary = folder / f".{secrets.token_hex(16)}.tmp"
    return temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)


def move_atomic(source: Path, target: Path) -> None:
    """Move a file inside one file system, over one that is there; when this returns the move is on the disk too.

    Raises OSError: FileNotFoundError when there is no such file or folder. Then nothing is changed.
    """
    source.replace(target)
    sync_folder(target.parent)
    sync_folder(source.parent)


def remove_atomic(path: Path) -> None:
    """Remove a file, if it is there; when this returns it will not come back. Raises OSError."""
    try:
        path.unlink()
    except FileNotFoundError:
        return
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put the new name on the disk too; some systems and file systems have no way to, and lose nothing else by it."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
