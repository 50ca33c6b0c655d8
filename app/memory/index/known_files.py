"""What the index knows of files, for comparing with what is on disk (memory.md 3.2)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from app.memory.index.note_files import FileState
from app.memory.index.reading import parts

NEVER_NS = -1
"""Stands for the time of a change that has to be looked at again in any case."""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file as it was when it was last read."""

    state: FileState
    sha256: bytes


def known_files(connection: sqlite3.Connection, paths: Iterable[str]) -> dict[str, KnownFile]:
    """Of these paths those that are known."""
    found: dict[str, KnownFile] = {}
    for part in parts(list(paths)):
        marks = ",".join("?" * len(part))
        rows = connection.execute(
            f"SELECT path, size, mtime_ns, sha256 FROM notes WHERE path IN ({marks})", tuple(part)
        )
        found.update(_known(rows))
    return found


def known_below(connection: sqlite3.Connection, folder: str, *, deep: bool = True) -> dict[str, KnownFile]:
    """All files below a folder (``""``: all there are), or those in it alone."""
    if not folder:
        rows = connection.execute("SELECT path, size, mtime_ns, sha256 FROM notes")
    else:
        rows = connection.execute(
            "SELECT path, size, mtime_ns, sha256 FROM notes WHERE path >= ? AND path < ?", (f"{folder}/", f"{folder}0")
        )
    depth = folder.count("/") + 1 if folder else 0
    return {path: known for path, known in _known(rows) if deep or path.count("/") == depth}


def use_reading_rules(connection: sqlite3.Connection, rules: str) -> bool:
    """Remember by which rules notes are read; true when they were others, and then all notes are to be read anew."""
    row = connection.execute("SELECT value FROM facts WHERE name = 'rules'").fetchone()
    connection.execute("INSERT OR REPLACE INTO facts VALUES ('rules', ?)", (rules,))
    if row is None or row[0] == rules:
        return False
    connection.execute("UPDATE notes SET sha256 = x'', mtime_ns = ?", (NEVER_NS,))
    return True


def _known(rows: Iterable[tuple[str, int, int, bytes]]) -> Iterable[tuple[str, KnownFile]]:
    for path, size, mtime_ns, sha256 in rows:
        yield str(path), KnownFile(FileState(int(size), int(mtime_ns)), bytes(sha256))
