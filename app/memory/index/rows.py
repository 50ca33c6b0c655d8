"""Putting prepared notes into the tables and taking them out, inside one transaction (memory.md 3.5, D80)."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

from app.memory.index.chunks import embedded_sha
from app.memory.index.note_files import FileState
from app.memory.index.records import ChunkPlace, IndexChange, NotebookState

if TYPE_CHECKING:  # what prepares notes knows words, which take 30 MB: a home without notes does without
    from app.memory.index.prepared import PreparedChunk, PreparedNote

_PLACES = """
SELECT c.id, c.note_id, n.notebook_id, c.ordinal, n.day, c.embed_sha FROM chunks c JOIN notes n ON n.id = c.note_id
"""


@dataclass(slots=True)
class Writing:
    """One transaction's changes, gathered note by note; ``done`` ends it. Only for use inside ``Database.write``."""

    connection: sqlite3.Connection
    added: list[ChunkPlace] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    notebooks: dict[str, int] = field(default_factory=dict)
    tags: set[int] = field(default_factory=set)
    notes: Counter[int] = field(default_factory=Counter)
    chunks: Counter[int] = field(default_factory=Counter)

    def store(self, note: PreparedNote) -> None:
        """Put a note in the place of what is known under its path. Chunks that are as they were keep their rows."""
        connection = self.connection
        notebook = self._notebook(note.notebook)
        row = connection.execute("SELECT id FROM notes WHERE path = ?", (note.path,)).fetchone()
        head, state = note.head, note.state
        day = head.day.toordinal() if head.day is not None else None
        facts: tuple[object, ...] = (notebook, note.sha256, state.size, state.mtime_ns, day, head.author, head.title)
        facts += (head.has_heading, head.body_start, head.tag_line_start, note.fault)
        if row is None:
            cursor = connection.execute(
                "INSERT INTO notes (notebook_id, sha256, size, mtime_ns, day, author, title, has_heading, "
                "body_start, tag_line_start, fault, path) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*facts, note.path),
            )
            note_id = int(cursor.lastrowid or 0)
            self.notes[notebook] += 1
            before: list[_Row] = []
            same = False
        else:
            note_id = int(row[0])
            same = self._day_and_words(note_id) == (day, note.name_words, note.tag_words)
            connection.execute(
                "UPDATE notes SET notebook_id = ?, sha256 = ?, size = ?, mtime_ns = ?, day = ?, author = ?, title = ?, "
                "has_heading = ?, body_start = ?, tag_line_start = ?, fault = ? WHERE id = ?",
                (*facts, note_id),
            )
            before = [
                _Row(*found)
                for found in connection.execute(
                    "SELECT id, ordinal, start, text, embed_sha FROM chunks WHERE note_id = ? ORDER BY ordinal",
                    (note_id,),
                )
            ]
        self._store_tags(note_id, note.tags)
        self._store_chunks(note_id, notebook, day, note, before if same else [], () if same else before)

    def remove(self, paths: Iterable[str]) -> int:
        """Take out notes that are no longer there, and say how many; tags that no note carries go with them."""
        removed = 0
        for path in paths:
            row = self.connection.execute(
                "SELECT n.id, b.name FROM notes n JOIN notebooks b ON b.id = n.notebook_id WHERE n.path = ?", (path,)
            ).fetchone()
            if row is None:
                continue
            note_id, notebook = int(row[0]), str(row[1])
            number = self._notebook(notebook)
            chunks = self.connection.execute("SELECT id FROM chunks WHERE note_id = ?", (note_id,)).fetchall()
            self._remove_chunks(number, [int(chunk) for (chunk,) in chunks])
            self.notes[number] -= 1
            self.tags.update(tag for (tag,) in self._tags_of(note_id))
            self.connection.execute("DELETE FROM notes WHERE id = ?", (note_id,))
            removed += 1
        return removed

    def seen(self, path: str, state: FileState) -> None:
        """The file was touched and says what it said before."""
        self.connection.execute(
            "UPDATE notes SET size = ?, mtime_ns = ?, fault = '' WHERE path = ?", (state.size, state.mtime_ns, path)
        )

    def unreadable(self, path: str, fault: str) -> bool:
        """A known note cannot be read now: what is known of it stays. False when nothing is known of it."""
        changed = self.connection.execute("UPDATE notes SET mtime_ns = -1, fault = ? WHERE path = ?", (fault, path))
        return changed.rowcount > 0

    def done(self) -> IndexChange:
        """Count the commit, give the notebooks that it touched its number, and tidy the tags."""
        connection = self.connection
        self._tidy_tags()
        if self.notebooks:
            number = next_commit(connection)
            marks = ",".join("?" * len(self.notebooks))
            connection.execute(
                f"UPDATE notebooks SET generation = ? WHERE id IN ({marks})", (number, *self.notebooks.values())
            )
            connection.executemany(
                "UPDATE notebooks SET notes = notes + ?, chunks = chunks + ? WHERE id = ?",
                ((self.notes[notebook], self.chunks[notebook], notebook) for notebook in self.notebooks.values()),
            )
        return IndexChange(tuple(self.added), tuple(self.removed), frozenset(self.notebooks))

    def _notebook(self, name: str) -> int:
        found = self.notebooks.get(name)
        if found is None:
            self.connection.execute("INSERT OR IGNORE INTO notebooks (name) VALUES (?)", (name,))
            (found,) = self.connection.execute("SELECT id FROM notebooks WHERE name = ?", (name,)).fetchone()
            self.notebooks[name] = int(found)
        return int(found)

    def _day_and_words(self, note_id: int) -> tuple[int | None, str, str] | None:
        row = self.connection.execute(
            "SELECT n.day, w.names, w.tags FROM notes n JOIN chunks c ON c.note_id = n.id JOIN words w ON "
            "w.rowid = c.id WHERE n.id = ? LIMIT 1",
            (note_id,),
        ).fetchone()
        return None if row is None else (row[0], str(row[1]), str(row[2]))

    def _store_chunks(
        self,
        note_id: int,
        notebook: int,
        day: int | None,
        note: PreparedNote,
        kept: Sequence[_Row],
        gone: Sequence[_Row],
    ) -> None:
        """``kept`` rows stay where a new chunk is the same; ``gone`` ones do not in any case."""
        spare: dict[tuple[bytes, str], list[_Row]] = {}
        for row in reversed(kept):
            spare.setdefault((row.embed_sha, row.text), []).append(row)
        reused: list[_Row | None] = []
        for chunk in note.chunks:
            same = spare.get((chunk.embed_sha, chunk.text))
            reused.append(same.pop() if same else None)
        left = [row.id for rows in spare.values() for row in rows]
        self._remove_chunks(notebook, [*(row.id for row in gone), *left])
        for ordinal, (chunk, old) in enumerate(zip(note.chunks, reused, strict=True)):
            if old is None:
                self._insert_chunk(note_id, notebook, day, ordinal, note, chunk)
                continue
            if (old.ordinal, old.start) != (ordinal, chunk.start):
                self.connection.execute(
                    "UPDATE chunks SET ordinal = ?, start = ?, end = ? WHERE id = ?",
                    (ordinal, chunk.start, chunk.end, old.id),
                )
            if old.ordinal != ordinal:
                self.removed.append(old.id)
                self.added.append(ChunkPlace(old.id, note_id, notebook, ordinal, day, chunk.embed_sha))

    def _insert_chunk(
        self, note_id: int, notebook: int, day: int | None, ordinal: int, note: PreparedNote, chunk: PreparedChunk
    ) -> None:
        cursor = self.connection.execute(
            "INSERT INTO chunks (note_id, ordinal, start, end, tokens, text, embed_sha) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (note_id, ordinal, chunk.start, chunk.end, chunk.tokens, chunk.text, chunk.embed_sha),
        )
        chunk_id = int(cursor.lastrowid or 0)
        self.connection.execute(
            "INSERT INTO words (rowid, body, tags, names, place) VALUES (?, ?, ?, ?, ?)",
            (chunk_id, chunk.words, note.tag_words, note.name_words, place_word(notebook)),
        )
        self.chunks[notebook] += 1
        self.added.append(ChunkPlace(chunk_id, note_id, notebook, ordinal, day, chunk.embed_sha))

    def _remove_chunks(self, notebook: int, ids: Sequence[int]) -> None:
        self.connection.executemany("DELETE FROM words WHERE rowid = ?", ((chunk,) for chunk in ids))
        self.connection.executemany("DELETE FROM chunks WHERE id = ?", ((chunk,) for chunk in ids))
        self.removed.extend(ids)
        self.chunks[notebook] -= len(ids)

    def _tags_of(self, note_id: int) -> list[tuple[int]]:
        return self.connection.execute("SELECT tag_id FROM note_tags WHERE note_id = ?", (note_id,)).fetchall()

    def _store_tags(self, note_id: int, tags: Sequence[tuple[str, str]]) -> None:
        connection = self.connection
        before = connection.execute(
            "SELECT t.folded, n.display FROM note_tags n JOIN tags t ON t.id = n.tag_id WHERE n.note_id = ? "
            "ORDER BY n.place",
            (note_id,),
        ).fetchall()
        if [tuple(row) for row in before] == list(tags):
            return
        self.tags.update(tag for (tag,) in self._tags_of(note_id))
        connection.execute("DELETE FROM note_tags WHERE note_id = ?", (note_id,))
        for place, (folded, display) in enumerate(tags):
            connection.execute(
                "INSERT OR IGNORE INTO tags (folded, display, embed_sha) VALUES (?, ?, ?)",
                (folded, display, embedded_sha(display)),
            )
            (tag,) = connection.execute("SELECT id FROM tags WHERE folded = ?", (folded,)).fetchone()
            connection.execute("INSERT INTO note_tags VALUES (?, ?, ?, ?)", (note_id, tag, place, display))
            self.tags.add(int(tag))

    def _tidy_tags(self) -> None:
        """Tags without notes go; those with notes are shown in the least of their forms, whoever came first."""
        for tag in self.tags:
            (display,) = self.connection.execute(
                "SELECT min(display) FROM note_tags WHERE tag_id = ?", (tag,)
            ).fetchone()
            if display is None:
                self.connection.execute("DELETE FROM tags WHERE id = ?", (tag,))
            else:
                self.connection.execute(
                    "UPDATE tags SET display = ?, embed_sha = ? WHERE id = ? AND display <> ?",
                    (display, embedded_sha(display), tag, display),
                )


@dataclass(frozen=True, slots=True)
class _Row:
    """A chunk as it is in the table."""

    id: int
    ordinal: int
    start: int
    text: str
    embed_sha: bytes


def place_word(notebook_id: int) -> str:
    """The word of the column ``place`` for a notebook."""
    return f"n{notebook_id}"


def next_commit(connection: sqlite3.Connection) -> int:
    """The number of the next commit; it grows, also when the file is made anew (``count_on_from``)."""
    connection.execute(
        "INSERT INTO facts VALUES ('commits', cast(strftime('%s', 'now') AS INTEGER) * 1000) "
        "ON CONFLICT (name) DO UPDATE SET value = cast(value AS INTEGER) + 1"
    )
    (number,) = connection.execute("SELECT cast(value AS INTEGER) FROM facts WHERE name = 'commits'").fetchone()
    return int(number)


def count_on_from(connection: sqlite3.Connection, number: int) -> None:
    """No commit of this file has a number that one of the file before it had, wherever the clock went meanwhile."""
    number = max(next_commit(connection), number + 1)
    connection.execute("UPDATE facts SET value = ? WHERE name = 'commits'", (str(number),))
    connection.execute("UPDATE notebooks SET generation = ?", (number,))


def notebook_states(connection: sqlite3.Connection) -> dict[str, NotebookState]:
    """All notebooks that have notes."""
    rows = connection.execute("SELECT id, name, generation, notes, chunks FROM notebooks WHERE notes > 0")
    return {str(row[1]): NotebookState(*row) for row in rows}


def all_places(connection: sqlite3.Connection) -> list[ChunkPlace]:
    """Every chunk, by id."""
    return [ChunkPlace(*row) for row in connection.execute(f"{_PLACES} ORDER BY c.id")]


def day_of(ordinal: int | None) -> date | None:
    """A day as the tables hold it."""
    return None if ordinal is None else date.fromordinal(ordinal)
