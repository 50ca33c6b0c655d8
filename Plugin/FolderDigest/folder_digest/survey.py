"""Looks at every file below a folder once. Links are not followed, hidden files are not opened."""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from folder_digest.failure import DigestError
from folder_digest.request import HIDDEN_FILES

MAX_FILES = 50_000
MAX_BYTES = 8 * 1024**3
MAX_SECONDS = 1500.0
BLOCK = 1024 * 1024

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class File:
    """One file: path below the folder, bytes, time of change (epoch), SHA-256, characters if it is UTF-8 text."""

    path: str
    size: int
    modified: float
    sha256: str
    characters: int | None


@dataclass(slots=True)
class Survey:
    """All that was found, by path. ``links``, ``hidden`` and ``unreadable`` count what was passed over."""

    files: list[File] = field(default_factory=list)
    folders: int = 0
    links: int = 0
    hidden: int = 0
    unreadable: int = 0

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def digest(self) -> str:
        """One SHA-256 over names, sizes and contents; it is the same wherever the folder lies."""
        whole = hashlib.sha256()
        for file in self.files:
            whole.update(f"{file.path}\0{file.size}\0{file.sha256}\n".encode("utf-8", "surrogatepass"))
        return whole.hexdigest()

    def kinds(self) -> list[tuple[str, int]]:
        """Extensions and how many files have them, the most frequent first."""
        counted = Counter(os.path.splitext(file.path)[1].lower() or "-" for file in self.files)  # noqa: PTH122 - names, not paths
        return sorted(counted.items(), key=lambda item: (-item[1], item[0]))

    def duplicates(self) -> list[list[File]]:
        """Files of the same content, those that waste most bytes first; empty ones do not count."""
        same: defaultdict[tuple[int, str], list[File]] = defaultdict(list)
        for file in self.files:
            if file.size:
                same[file.size, file.sha256].append(file)
        groups = [group for group in same.values() if len(group) > 1]
        return sorted(groups, key=lambda group: (-(len(group) - 1) * group[0].size, group[0].path))


def survey(folder: Path) -> Survey:
    """Read the folder; raises DigestError when it is larger than the limits."""
    found = Survey()
    last = time.monotonic() + MAX_SECONDS
    read = 0
    for parent, entry in _entries(folder, found):
        if len(found.files) >= MAX_FILES:
            raise DigestError(f"文件超过 {MAX_FILES} 个", f"more than {MAX_FILES} files")
        try:
            file = _file(f"{parent}{entry.name}", entry.path)
        except OSError:
            found.unreadable += 1
            continue
        read += file.size
        if read > MAX_BYTES or time.monotonic() > last:
            raise DigestError(
                f"目录太大：上限为 {MAX_BYTES // 1024**3} GiB 和 {MAX_SECONDS:g} 秒",
                f"the folder is too large: the limits are {MAX_BYTES // 1024**3} GiB and {MAX_SECONDS:g} s",
            )
        found.files.append(file)
    found.files.sort(key=lambda file: file.path)
    return found


def _entries(folder: Path, found: Survey) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Regular files, each with its folder's name from the root on."""
    waiting = [("", str(folder))]
    while waiting:
        name, path = waiting.pop()
        try:
            with os.scandir(path) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            found.unreadable += 1
            continue
        found.folders += 1
        for entry in listed:
            if entry.is_symlink():
                found.links += 1
            elif entry.name.startswith(".") or entry.name in HIDDEN_FILES:
                found.hidden += 1
            elif entry.is_dir(follow_symlinks=False):
                waiting.append((f"{name}{entry.name}/", entry.path))
            elif entry.is_file(follow_symlinks=False):
                yield name, entry
            else:
                found.unreadable += 1  # a pipe, a socket


def _file(name: str, path: str) -> File:
    descriptor = os.open(path, _FLAGS)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("no regular file any more")
        digest = hashlib.sha256()
        decoder = codecs.getincrementaldecoder("utf-8")()
        size, characters = 0, 0
        text = True
        while block := file.read(BLOCK):
            digest.update(block)
            size += len(block)
            if size > MAX_BYTES:
                break
            text, count = _counted(decoder, block, text)
            characters += count
    if text:
        text, _ = _counted(decoder, b"", True, final=True)
    return File(name, size, status.st_mtime, digest.hexdigest(), characters if text else None)


def _counted(decoder: codecs.IncrementalDecoder, block: bytes, text: bool, final: bool = False) -> tuple[bool, int]:
    if not text or b"\0" in block:
        return False, 0
    try:
        return True, len(decoder.decode(block, final))
    except UnicodeDecodeError:
        return False, 0
