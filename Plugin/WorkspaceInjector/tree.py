"""A directory tree as text, without what ``.workspaceignore`` names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from app.errors import both

DEPTH_LIMIT = 20
IGNORE_FILE = ".workspaceignore"
IGNORE_BYTES_LIMIT = 256 * 1024
IGNORE_LINES_LIMIT = 2000
FOLDER_LIMIT = 20_000
"""Most entries of one folder that are looked at."""


@dataclass(slots=True)
class Tree:
    """A folder, how many levels of it are shown, and how many entries in all; symbolic links are not followed."""

    folder: Path
    depth: int
    entries: int
    _left: int = field(init=False, default=0)

    def lines(self) -> list[str]:
        """The lines, and a last one that says so when the limit cut them."""
        self._left = self.entries
        lines = list(self._below(self.folder, "", "", self.depth, _ignored(self.folder)))
        if self._left <= 0:
            lines.append(both(f"[目录树过长，只显示前 {self.entries} 项]", f"[cut: the first {self.entries} entries]"))
        return lines

    def _below(self, folder: Path, inside: str, indent: str, depth: int, ignored: GitIgnoreSpec) -> Iterator[str]:
        if depth <= 0:
            return
        shown = [
            (name, is_folder)
            for name, is_folder in _entries(folder)
            if not ignored.match_file(f"{inside}{name}/" if is_folder else f"{inside}{name}")
        ]
        for number, (name, is_folder) in enumerate(shown):
            if self._left <= 0:
                return
            self._left -= 1
            last = number == len(shown) - 1
            yield f"{indent}{'└─ ' if last else '├─ '}{_printable(name)}{'/' if is_folder else ''}"
            if is_folder:
                deeper = indent + ("    " if last else "│   ")
                yield from self._below(folder / name, f"{inside}{name}/", deeper, depth - 1, ignored)


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


def _ignored(folder: Path) -> GitIgnoreSpec:
    """The rules of the folder's own file; none where there is none or it cannot be read."""
    try:
        with (folder / IGNORE_FILE).open("rb") as file:
            text = file.read(IGNORE_BYTES_LIMIT).decode("utf-8-sig", "replace")
        return GitIgnoreSpec.from_lines(text.splitlines()[:IGNORE_LINES_LIMIT])
    except (OSError, ValueError):
        return GitIgnoreSpec.from_lines(())


def _printable(name: str) -> str:
    """A name on one line: line ends and half characters in it would break the tree or the request."""
    return "".join(character if character.isprintable() else "\ufffd" for character in name)
