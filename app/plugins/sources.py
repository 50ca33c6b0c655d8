"""The Python files of an in-process plugin's folder: which they are, and one digest that changes with any of them.

Only code counts. What a plugin writes into its own folder (data, caches, logs) is no reason to load it anew, and
neither are environments and packages that somebody installed there.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

MAX_FILES = 1000
MAX_ENTRIES = 20_000
"""Most entries of folders that are looked at for one plugin."""

MAX_DEPTH = 8
MAX_BYTES = 16 * 1024 * 1024
"""What is read for one digest; of further files only size and time count."""

_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


@dataclass(frozen=True, slots=True)
class Sources:
    """Python files in the order of their names, and the folders they lie in; ``cut`` when a limit was reached."""

    files: tuple[Path, ...]
    folders: tuple[Path, ...]
    cut: bool = False


def python_sources(root: Path) -> Sources:
    """The ``.py`` files below ``root``, hidden folders and ``_SKIPPED`` left out. Links to folders are not followed.

    A folder that cannot be read has no files. Blocks.
    """
    files: list[Path] = []
    folders: list[Path] = []
    entries = 0
    cut = False
    waiting = [(root, 0)]
    while waiting and not cut:
        folder, depth = waiting.pop()
        folders.append(folder)
        try:
            with os.scandir(folder) as found:
                for entry in found:
                    entries += 1
                    cut = entries > MAX_ENTRIES or len(files) >= MAX_FILES
                    if cut:
                        break
                    if _is_folder(entry):
                        if entry.name not in _SKIPPED and not entry.name.startswith("."):
                            cut = cut or depth >= MAX_DEPTH
                            if depth < MAX_DEPTH:
                                waiting.append((folder / entry.name, depth + 1))
                    elif entry.name.endswith(".py"):
                        files.append(folder / entry.name)
        except OSError:
            continue  # gone or closed to us meanwhile: there is no code in it that could be loaded
    return Sources(tuple(sorted(files)), tuple(sorted(folders)), cut)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


_OF_THE_SYSTEM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def digest(root: Path, files: tuple[Path, ...]) -> str:
    """A digest of names and contents of ``files``, which lie below ``root``; blocks.

    Raises OSError when it is the system that lacks something, which says nothing about the files.
    """
    whole = hashlib.sha256()
    left = MAX_BYTES
    for path in files:
        whole.update(f"{path.relative_to(root)}\0".encode("utf-8", "surrogateescape"))
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                whole.update(b"not a file")  # a pipe would be read for ever
            elif status.st_size > left:
                whole.update(f"{status.st_size} {status.st_mtime_ns}".encode())
            else:
                left -= status.st_size
                with path.open("rb") as file:
                    whole.update(hashlib.sha256(file.read(status.st_size)).digest())
        except OSError as error:
            if error.errno in _OF_THE_SYSTEM:
                raise
            whole.update(f"unreadable: {error.errno}".encode())
    return whole.hexdigest()
