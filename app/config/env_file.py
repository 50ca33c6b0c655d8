"""``config.env`` as people edit it: read whole, saved whole, with a copy of what was there before."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from app.config.dotenv import decode
from app.config.durable import write_atomic
from app.config.edited_file import (
    LOCK_SECONDS,
    EditConflictError,
    EditedFile,
    FileTooLargeError,
    fingerprint,
)
from app.config.env_backups import keep_copy, read_backup
from app.config.file_lock import held
from app.config.small_file import read_small
from app.config.snapshot import CONFIG_FILE
from app.errors import both

LOCK_FILE = Path(".vcp") / "config.lock"

MAX_EDITED_BYTES = 4 * 1024 * 1024
"""A larger file is not edited here."""

_NO_RENAME = frozenset({errno.EBUSY, errno.EXDEV, errno.EROFS, errno.EACCES, errno.EPERM})
"""What a rename meets that cannot work although the file may be writable: a file that was mounted into a container by
itself, or a folder that may not be written to."""


@dataclass(frozen=True, slots=True)
class SavedEnv:
    """What was saved: its fingerprint, and the name of the copy of what was there before, empty when nothing was.

    ``in_place`` is true when the file could not be replaced by a whole one and was written over.
    """

    fingerprint: str
    backup: str
    in_place: bool


def read_env(home: Path) -> EditedFile:
    """The text and fingerprint of ``config.env``; both are empty while there is none. Blocks.

    Text of another encoding is read as the server reads it; saving makes it UTF-8. Raises ConfigError for bytes of no
    known encoding, FileTooLargeError, and OSError.
    """
    try:
        data = read_small(home / CONFIG_FILE, MAX_EDITED_BYTES + 1)
    except FileNotFoundError:
        return EditedFile("", "")
    if len(data) > MAX_EDITED_BYTES:
        raise _too_large()
    return EditedFile(decode(home / CONFIG_FILE, data)[0], fingerprint(data))


def write_env(home: Path, text: str, expected: str | None, now: datetime) -> SavedEnv:
    """Save ``config.env``; what was there is kept as a copy first. Blocks.

    ``expected`` is the fingerprint of what the writer has read, empty for a file that must not exist yet, None to write
    whatever is there. The file keeps its mode, a new one is for its owner only. Where it cannot be replaced (mounted
    alone into a container, or in a folder that is read-only) it is written over; a crash in that moment leaves a part
    of it, and the copy. Raises EditConflictError, FileTooLargeError, OSError (a TimeoutError while another process
    saves), and then nothing has changed.
    """
    path, data = home / CONFIG_FILE, text.encode("utf-8", "surrogateescape")
    if len(data) > MAX_EDITED_BYTES:
        raise _too_large()
    (home / LOCK_FILE).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with held(home / LOCK_FILE, LOCK_SECONDS):
        there = _there(path)
        if expected is not None and expected != ("" if there is None else fingerprint(there)):
            shown = b"" if there is None else there
            current = fingerprint(there) if there is not None else ""
            raise EditConflictError(CONFIG_FILE, current, fingerprint(data), decode(path, shown)[0])
        backup = "" if there is None else keep_copy(home, there, now)
        in_place = _put(path, data, there is not None)
    return SavedEnv(fingerprint(data), backup, in_place)


def restore_env(home: Path, name: str, expected: str | None, now: datetime) -> SavedEnv:
    """Put a copy back, as UTF-8; what is there is kept as a copy first. Blocks; raises as the others do."""
    text, _ = decode(home / CONFIG_FILE, read_backup(home, name))
    return write_env(home, text, expected, now)


def _there(path: Path) -> bytes | None:
    try:
        data = read_small(path, MAX_EDITED_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(data) > MAX_EDITED_BYTES:
        raise _too_large()
    return data


def _put(path: Path, data: bytes, exists: bool) -> bool:
    """Replace the file; true when it was written over instead."""
    mode = stat.S_IMODE(path.stat().st_mode) if exists else 0o600
    try:
        write_atomic(path, data, mode)
    except OSError as error:
        if not exists or error.errno not in _NO_RENAME:
            raise
        _write_over(path, data)
        return True
    if exists:
        path.chmod(mode)  # the umask may have taken something away
    return False


def _write_over(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "wb", closefd=True) as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _too_large() -> FileTooLargeError:
    limit = MAX_EDITED_BYTES // (1024 * 1024)
    return FileTooLargeError(
        both(f"{CONFIG_FILE} 超过 {limit} MiB，无法在此编辑", f"{CONFIG_FILE} has more than {limit} MiB")
    )
