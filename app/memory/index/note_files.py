"""Diary files as the index finds them: which count, what is in them (memory.md 1.1, 3.1, 3.2). Blocks."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.protocol.diary_tags import fold_tag

EXTENSIONS = (".txt", ".md")
ROOT_NOTEBOOK = "Root"
"""The notebook of files that lie in the root itself (1.1)."""

MAX_NOTE_BYTES = 8 * 1024 * 1024
MAX_NOTES = 200_000
MAX_DEPTH = 16
TOO_LARGE = b"too large"
"""Stands for the hash of a file that is not read: what was known of it counts no longer."""

YIELD_EVERY = 200
"""After so many files another thread gets its turn, whatever it waits for."""


@dataclass(frozen=True, slots=True)
class NoteRules:
    """Which notes are indexed, and how their tags are read (3.1); names are compared without case and width."""

    folders: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    tag_blacklist: tuple[str, ...] = ()
    tag_blacklist_super: tuple[str, ...] = ()

    def reading(self) -> str:
        """What of the rules decides about the contents of the index, as one line; others decide about files only."""
        return repr((self.tag_blacklist, self.tag_blacklist_super))

    def wants_folder(self, name: str) -> bool:
        """Whether notes below a folder of this name are indexed."""
        if name.startswith("."):
            return False
        return fold_tag(name) not in {fold_tag(folder) for folder in self.folders} and self._wants(name)

    def wants_file(self, name: str) -> bool:
        """Whether a file of this name is indexed, as far as its name says."""
        stem, extension = os.path.splitext(name)  # noqa: PTH122 - asked for every file of a large folder
        return not name.startswith(".") and extension.lower() in EXTENSIONS and self._wants(stem)

    def wants_path(self, path: str) -> bool:
        """Both, for a path below the root."""
        *folders, name = path.split("/")
        return len(folders) <= MAX_DEPTH and all(map(self.wants_folder, folders)) and self.wants_file(name)

    def _wants(self, name: str) -> bool:
        folded = fold_tag(name)
        return not (
            folded.startswith(tuple(fold_tag(prefix) for prefix in self.prefixes if prefix))
            or folded.endswith(tuple(fold_tag(suffix) for suffix in self.suffixes if suffix))
        )


@dataclass(frozen=True, slots=True)
class FileState:
    """Size in bytes and time of the last change, as far as a file can be told from another by them."""

    size: int
    mtime_ns: int


@dataclass(slots=True)
class Found:
    """What a look at folders found: files and folders by their path below the root; ``faults`` say what was not read.

    ``folders`` have the time of their last change (ns), ``below`` are the folders in them.

    Nothing is known about what lies below a folder with a fault.
    """

    files: dict[str, FileState] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    below: list[str] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)

    def knows(self, path: str) -> bool:
        """Whether it can be said that there is no such file when it is not among ``files``."""
        return not any(path.startswith(f"{folder}/") or not folder for folder in self.faults)


@dataclass(frozen=True, slots=True)
class NoteText:
    """The text of a note. ``fault`` is why there is none; ``unsettled`` files changed while they were read."""

    state: FileState
    sha256: bytes = b""
    text: str | None = None
    fault: str = ""
    unsettled: bool = False


def notebook_of(path: str) -> str:
    """The notebook of a path below the root: its first folder (1.1)."""
    folder, slash, _ = path.partition("/")
    return folder if slash else ROOT_NOTEBOOK


def look_at(root: Path, rules: NoteRules, folder: str = "", *, deep: bool = True) -> Found:
    """All notes below a folder of the root (``""``: the root), or those in it alone. Links are not followed."""
    found = Found()
    waiting = [folder]
    seen = 0
    while waiting:
        below = waiting.pop()
        try:
            changed = folder_time(root, below)  # before it is read: what comes meanwhile is found at the next look
            entries = list(_entries(root / below))
            found.folders[below] = changed
        except OSError as error:
            found.faults[below] = error.strerror or str(error)
            continue
        for entry in entries:
            seen += 1
            if not seen % YIELD_EVERY:
                time.sleep(0)
            path = f"{below}/{entry.name}" if below else entry.name
            try:
                path.encode("utf-8")
                if entry.is_dir(follow_symlinks=False):
                    if rules.wants_folder(entry.name) and path.count("/") < MAX_DEPTH:
                        found.below.append(path)
                        if deep:
                            waiting.append(path)
                elif rules.wants_file(entry.name) and entry.is_file(follow_symlinks=False):
                    state = entry.stat(follow_symlinks=False)
                    if len(found.files) >= MAX_NOTES:
                        found.faults[""] = f"there are more than {MAX_NOTES} notes"
                        return found
                    found.files[path] = FileState(state.st_size, state.st_mtime_ns)
            except UnicodeEncodeError:
                found.faults[repr(path)] = "its name is not UTF-8"
            except FileNotFoundError:
                continue  # gone since the folder was read
            except OSError as error:
                found.faults[path] = error.strerror or str(error)
    return found


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from entries


def folder_time(root: Path, folder: str) -> int:
    """When a folder last got or lost an entry (ns). Raises OSError."""
    return os.stat(root / folder).st_mtime_ns  # noqa: PTH116 - asked for every folder after each tool call


def state_of(root: Path, path: str) -> FileState | None:
    """A file as it is now; None when there is none, or none that counts (a link, a folder, below a link).

    Raises OSError when that cannot be said.
    """
    current = root
    *folders, name = path.split("/")
    try:
        for folder in folders:
            current = current / folder
            if not stat.S_ISDIR(current.lstat().st_mode):
                return None
        found = (current / name).lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return FileState(found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def read_note(root: Path, path: str) -> NoteText | None:
    """Read a note; None when there is no such file. A file that somebody writes at this moment is ``unsettled``."""
    try:
        state = state_of(root, path)
    except OSError as error:
        return NoteText(FileState(0, -1), fault=error.strerror or str(error))
    if state is None:
        return None
    if state.size > MAX_NOTE_BYTES:
        return NoteText(state, TOO_LARGE, fault=f"it has more than {MAX_NOTE_BYTES // 1024 // 1024} MiB")
    try:
        descriptor = os.open(root / path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_NOTE_BYTES + 1)
        after = state_of(root, path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return NoteText(state, fault=error.strerror or str(error))
    if after != state or len(data) != state.size:
        return NoteText(state, unsettled=True)
    return NoteText(state, hashlib.sha256(data).digest(), decoded(data))


def decoded(data: bytes) -> str:
    """The text of a file: UTF-8, else GB 18030 if it is that, else UTF-8 with replacement characters.

    Nothing else of it is changed.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    try:
        return data.decode("gb18030")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")
