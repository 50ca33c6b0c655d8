"""Deleted notes go from the file of the index too, and from its WAL (memory.md 11.6). In slices, for the writer.

What SQLite deletes is overwritten with zeros (``secure_delete``). FTS5 keeps the words of a deleted row until the
segments that hold them are merged, and the WAL keeps old pages until it is cut; both is done here.
"""

from __future__ import annotations

import sqlite3

MERGE_PAGES = 300
"""Pages of words that are merged at a time: some hundredths of a second, during which nothing else is written."""

_DUE = "wipe"


def ask_for_wiping(connection: sqlite3.Connection) -> None:
    """Remember, in the transaction that deletes notes, that their words are to be wiped out."""
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, '1')", (_DUE,))


def wiping_is_due(connection: sqlite3.Connection) -> bool:
    """Whether notes were deleted since the last time; also in a run before this one."""
    return connection.execute("SELECT 1 FROM facts WHERE name = ?", (_DUE,)).fetchone() is not None


def wiping_is_done(connection: sqlite3.Connection) -> None:
    """Nothing of what was deleted is left."""
    connection.execute("DELETE FROM facts WHERE name = ?", (_DUE,))


def merge_words(connection: sqlite3.Connection, *, first: bool) -> bool:
    """Merge a part of the words, all segments into one; ``first`` begins. True while there is more to do."""
    before = connection.total_changes
    pages = -MERGE_PAGES if first else MERGE_PAGES
    connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes - before >= 2  # as FTS5 tells that it found nothing to merge
