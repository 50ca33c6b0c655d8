"""A directory tree as text, without what ``.workspaceignore`` names."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from app.config.small_file import read_small
from app.errors import both

DEPTH_LIMIT = 20
IGNORE_FILE = ".workspaceignore"
IGNORE_BYTES_LIMIT = 256 * 1024
IGNORE_LINES_LIMIT = 2000
PATTERN_CHARS_LIMIT = 200
PATTERN_STARS_LIMIT = 3
"""Runs of stars in one pattern. Each multiplies what a search may cost, and the folder may come from anybody."""
TREE_SECONDS = 5.0
"""How long one tree may take; what is not listed by then is cut."""
FOLDER_LIMIT = 20_000
"""Most entries of one folder that are looked at."""


@dataclass(slots=True)
class Tree:
    """A folder, how many levels of it are shown, and how many entries in all; symbolic links are not followed."""

    folder: Path
    depth: int
    entries: int
    warn: Callable[[str], None]
    _left: int = field(init=False, default=0)
    _until: float = field(init=False, default=0.0)

    def lines(self) -> list[str]:
        """The lines, and a last one that says so when the limit cut them."""
        self._left = self.entries
        self._until = time.monotonic() + TREE_SECONDS
        lines = list(self._below(self.folder, "", "", self.depth, self._ignored()))
        if self._is_full():
            lines.append(both(f"[目录树过长，只显示前 {len(lines)} 项]", f"[cut: the first {len(lines)} entries]"))
        return lines

    def _is_full(self) -> bool:
        return self._left <= 0 or time.monotonic() > self._until

    def _below(self, folder: Path, inside: str, indent: str, depth: int, ignored: GitIgnoreSpec) -> Iterator[str]:
        if depth <= 0:
            return
        shown = []
        for name, is_folder in _entries(folder):
            if time.monotonic() > self._until:
                break
            if not ignored.match_file(f"{inside}{name}/" if is_folder else f"{inside}{name}"):
                shown.append((name, is_folder))
        for number, (name, is_folder) in enumerate(shown):
            if self._is_full():
                return
            self._left -= 1
            last = number == len(shown) - 1
            yield f"{indent}{'└─ ' if last else '├─ '}{_printable(name)}{'/' if is_folder else ''}"
            if is_folder:
                deeper = indent + ("    " if last else "│   ")
                yield from self._below(folder / name, f"{inside}{name}/", deeper, depth - 1, ignored)

    def _ignored(self) -> GitIgnoreSpec:
        """The rules of the folder's own file; none where there is none or it cannot be read."""
        path = self.folder / IGNORE_FILE
        try:
            text = read_small(path, IGNORE_BYTES_LIMIT).decode("utf-8-sig", "replace")
        except FileNotFoundError:
            return GitIgnoreSpec.from_lines(())
        except OSError as error:
            self.warn(f"{path} cannot be read: {error.strerror or error}")
            return GitIgnoreSpec.from_lines(())
        lines = text.splitlines()
        usable = [line for line in lines[:IGNORE_LINES_LIMIT] if _is_usable(line)]
        if len(usable) < len(lines):
            self.warn(
                f"{path}: {len(lines) - len(usable)} lines are too long, too many or have too many stars; left out"
            )
        try:
            return GitIgnoreSpec.from_lines(usable)
        except ValueError as error:
            self.warn(f"{path}: {error}; the file is not used")
            return GitIgnoreSpec.from_lines(())


def _is_usable(line: str) -> bool:
    return len(line) <= PATTERN_CHARS_LIMIT and len(re.findall(r"\*+", line)) <= PATTERN_STARS_LIMIT


def _entries(folder: Path) -> list[tuple[str, bool]]:
    """Names and whether they are folders: folders first, each by name. What cannot be read is empty."""
    found: list[tuple[str, bool]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found.append((entry.name, entry.is_dir(follow_symlinks=False)))
                if len(found) >= FOLDER_LIMIT:
                    break
    except OSError:
        return []
    return sorted(found, key=lambda item: (not item[1], item[0].lower(), item[0]))


def _printable(name: str) -> str:
    """A name on one line: line ends and half characters in it would break the tree or the request."""
    return "".join(character if character.isprintable() else "\ufffd" for character in name)
