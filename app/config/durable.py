"""Files that are whole at every moment: a reader, or a crash, meets the old content or the new, never a part."""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace the content of ``path``, or make the file; its folder must exist.

    A symbolic link stays a link, its target is replaced. ``mode`` is subject to the process's umask. When this returns
    the content is on the disk. Raises OSError, and then the old content is untouched; so it does when there is
    something else than a file, such as a device.
    """
    target = path.resolve() if path.is_symlink() else path
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "there is no regular file to replace", str(target))
    temporary = _written_beside(target, data, mode)
    try:
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def create_atomic(path: Path, data: bytes, mode: int = 0o644) -> bool:
    """Make the file with this content unless it exists; false when it does, and then nothing is changed.

    Of several processes that call this at a time, exactly one gets true. Raises OSError.
    """
    temporary = _written_beside(path, data, mode)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        # A file system without hard links: two processes may now both believe they were first.
        if path.exists():
            return False
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return True


def move_atomic(source: Path, target: Path) -> None:
    """Move a file inside one file system, over one that is there; when this returns the move is on the disk too.

    Raises OSError: FileNotFoundError when there is no such file or folder. Then nothing is changed.
    """
    source.replace(target)
    _sync_folder(target.parent)
    _sync_folder(source.parent)


def remove_atomic(path: Path) -> None:
    """Remove a file, if it is there; when this returns it will not come back. Raises OSError."""
    try:
        path.unlink()
    except FileNotFoundError:
        return
    _sync_folder(path.parent)


def _written_beside(path: Path, data: bytes, mode: int) -> Path:
    """A new file with this content in the same folder, for only there a rename is atomic."""
    temporary = path.parent / f".{path.name[:100]}.{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _sync_folder(folder: Path) -> None:
    """Put the new name on the disk too; some systems and file systems have no way to, and lose nothing else by it."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
