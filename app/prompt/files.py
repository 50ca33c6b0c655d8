"""Text files below one folder, read live: what a person saves is in the next chat (P62)."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from app.extend import Clock

MAX_FILE_BYTES = 8 * 1024 * 1024
CACHED_FILES = 256
CACHED_CHARACTERS = 16 * 1024 * 1024

SETTLED_SECONDS = 3.0
"""Younger files are not cached: two saves within one tick of the file system's clock look alike."""


def contained(root: Path, relative: str) -> Path:
    """The real path of ``relative`` below ``root``, after all symbolic links (B3).

    Backslashes count as separators (P61). The file need not exist. Raises PermissionError when the path leads out of
    ``root``, other OSErrors when it cannot be a path at all.
    """
    try:
        base = os.path.realpath(root)
        path = os.path.realpath(os.path.join(base, relative.replace("\\", "/")))  # noqa: PTH118 - for each file of each prompt
    except ValueError as error:  # a NUL or a lone surrogate in the name
        raise OSError(errno.EINVAL, f"not a file name: {relative!r}") from error
    if not path.startswith(base.rstrip(os.sep) + os.sep):
        raise PermissionError(errno.EACCES, f"leads out of {root.name}/: {relative!r}")
    return Path(path)


def read_text(path: Path, max_bytes: int = MAX_FILE_BYTES) -> str:
    """The text of a regular file: UTF-8, a BOM is dropped, bad bytes become U+FFFD, line ends stay.

    Raises OSError, also for files that are not regular (a pipe would block for ever) or over ``max_bytes``.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, f"not a regular file: {path.name}")
    if status.st_size > max_bytes:
        raise OSError(errno.EFBIG, f"over {max_bytes} bytes: {path.name}")
    return path.read_bytes().decode("utf-8-sig", "replace")


def read_tail(path: Path, max_chars: int) -> tuple[str, bool]:
    """The last ``max_chars`` characters of a regular file, and whether something before them was left out.

    Decoding as in ``read_text``; a huge file is not read whole. Raises OSError.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, f"not a regular file: {path.name}")
    max_bytes = 4 * max(0, max_chars)
    with path.open("rb") as file:
        skipped = status.st_size > max_bytes
        if skipped:
            file.seek(status.st_size - max_bytes)
        raw = file.read(max_bytes)
    if skipped:
        begin = next((index for index in range(min(4, len(raw))) if raw[index] & 0xC0 != 0x80), 0)
        raw = raw[begin:]  # not into the middle of a character
    text = raw.decode("utf-8-sig", "replace")
    kept = text[len(text) - max_chars :] if len(text) > max_chars else text
    return kept, skipped or len(kept) < len(text)


@dataclass(frozen=True, slots=True)
class _Cached:
    signature: tuple[int, ...]
    text: str


class TextFiles:
    """Reads files below ``root``. All methods block and may be called from several threads."""

    def __init__(self, root: Path, clock: Clock = time.time) -> None:
        self.root = root
        self._clock = clock
        self._lock = threading.Lock()
        self._cache: OrderedDict[Path, _Cached] = OrderedDict()
        self._characters = 0

    def read(self, relative: str) -> str:
        """The text of now. Raises OSError (FileNotFoundError, PermissionError outside of the folder, others)."""
        path = contained(self.root, relative)
        status = path.stat()
        signature = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        with self._lock:
            cached = self._cache.get(path)
            if cached is not None and cached.signature == signature:
                self._cache.move_to_end(path)
                return cached.text
        text = read_text(path)
        if abs(self._clock() - max(status.st_mtime, status.st_ctime)) > SETTLED_SECONDS:
            self._remember(path, _Cached(signature, text))
        return text

    def similar(self, relative: str) -> str | None:
        """An existing path that differs from ``relative`` only in case, for a hint (P61)."""
        found = Path()
        try:
            for wanted in relative.replace("\\", "/").split("/"):
                folder = contained(self.root, str(found)) if found.parts else self.root
                names = [entry.name for entry in folder.iterdir() if entry.name.lower() == wanted.lower()]
                if not names:
                    return None
                found /= names[0]
        except OSError:
            return None  # only a hint: the caller reports the fault itself
        return found.as_posix()

    def _remember(self, path: Path, entry: _Cached) -> None:
        with self._lock:
            self._forget(path)
            self._cache[path] = entry
            self._characters += len(entry.text)
            while len(self._cache) > CACHED_FILES or self._characters > CACHED_CHARACTERS:
                self._forget(next(iter(self._cache)))

    def _forget(self, path: Path) -> None:
        old = self._cache.pop(path, None)
        if old is not None:
            self._characters -= len(old.text)
