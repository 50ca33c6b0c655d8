"""Files that several people edit: whoever writes says what they have read, so that nobody overwrites unseen."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from app.config.durable import write_atomic
from app.config.file_lock import held
from app.config.small_file import read_small
from app.errors import VcpError, both

LOCK_SECONDS = 5.0
"""How long a writer waits for another one of the same file."""

_LARGEST = 64 * 1024 * 1024
"""Bytes that are compared with what a writer has read; no editor takes as many."""


@dataclass(frozen=True, slots=True)
class EditedFile:
    """The text of a file, and the SHA-256 of its bytes in hex, which names this version."""

    text: str
    fingerprint: str


class EditConflictError(VcpError):
    """The file is not what the writer has read. ``current`` and ``yours`` name both versions, ``content`` is on disk.

    ``current`` is empty when the file is gone.
    """

    status = 409
    code = "edit_conflict"

    def __init__(self, name: str, current: str, yours: str, content: str) -> None:
        super().__init__(
            both(
                f"{name} 在此期间被改动，没有保存",
                f"{name} was changed meanwhile by somebody else; nothing was saved",
            )
        )
        self.current = current
        self.yours = yours
        self.content = content


class FileTooLargeError(VcpError):
    """A file is larger than an editor takes."""

    status = 413
    code = "file_too_large"


def fingerprint(data: bytes) -> str:
    """What names a version of a file: SHA-256 of its bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def read_edited(path: Path, limit: int) -> EditedFile:
    """The file as it is now, what is no UTF-8 replaced; blocks.

    Raises OSError, and FileTooLargeError beyond ``limit`` bytes, since a part of a file must not be written back.
    """
    data = read_small(path, limit + 1)
    if len(data) > limit:
        raise FileTooLargeError(
            both(
                f"{path.name} 超过 {limit} 字节，无法编辑", f"{path.name} has more than the {limit} bytes of an editor"
            )
        )
    return EditedFile(data.decode("utf-8", "replace"), fingerprint(data))


def write_edited(path: Path, text: str, expected: str | None, lock: Path, *, mode: int = 0o644) -> str:
    """Replace or make the file and return the fingerprint of what it is now; its folder must exist; blocks.

    ``expected`` is the fingerprint of what the writer has read, empty for a file that must not exist yet, None to write
    whatever is there. ``lock`` is a file below the home's own folder that orders writers. Raises EditConflictError,
    OSError and TimeoutError, and then nothing has changed.
    """
    data = text.encode("utf-8", "surrogateescape")
    with held(lock, LOCK_SECONDS):
        if expected is not None:
            _check(path, expected, fingerprint(data))
        write_atomic(path, data, mode)
    return fingerprint(data)


def _check(path: Path, expected: str, yours: str) -> None:
    try:
        there = read_small(path, _LARGEST)
    except FileNotFoundError:
        if expected:
            raise EditConflictError(path.name, "", yours, "") from None
        return
    if fingerprint(there) != expected:
        raise EditConflictError(path.name, fingerprint(there), yours, there.decode("utf-8", "replace"))
