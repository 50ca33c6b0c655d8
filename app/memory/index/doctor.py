"""Whether the tables of the index agree with each other, and what they hold as lines of text (11.3)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from app.memory.index.chunks import embedded_sha
from app.memory.index.reading import embedded_texts

SAMPLE = 500
"""Chunks whose hash is computed again."""

_COUNTS = (
    (
        "notebooks with wrong counts",
        """
SELECT count(*) FROM notebooks b WHERE
  b.notes <> (SELECT count(*) FROM notes n WHERE n.notebook_id = b.id) OR
  b.chunks <> (SELECT count(*) FROM chunks c JOIN notes n ON n.id = c.note_id WHERE n.notebook_id = b.id)""",
    ),
    ("chunks without words", "SELECT count(*) FROM chunks WHERE id NOT IN (SELECT id FROM words_content)"),
    ("words without a chunk", "SELECT count(*) FROM words_content WHERE id NOT IN (SELECT id FROM chunks)"),
    ("tags without a note", "SELECT count(*) FROM tags WHERE id NOT IN (SELECT tag_id FROM note_tags)"),
    (
        "notes whose chunks are not numbered in order",
        """
SELECT count(*) FROM (SELECT note_id FROM chunks GROUP BY note_id HAVING max(ordinal) <> count(*) - 1)""",
    ),
)

_DUMP = (
    ("notebook", "SELECT name, notes, chunks FROM notebooks WHERE notes > 0 ORDER BY name"),
    (
        "note",
        """
SELECT n.path, b.name, n.sha256, n.size, n.day, n.author, n.title, n.body_start, n.tag_line_start, n.fault
FROM notes n JOIN notebooks b ON b.id = n.notebook_id ORDER BY n.path""",
    ),
    (
        "tag",
        """
SELECT n.path, g.place, t.folded, t.display, g.display, t.embed_sha
FROM note_tags g JOIN notes n ON n.id = g.note_id JOIN tags t ON t.id = g.tag_id ORDER BY n.path, g.place""",
    ),
    (
        "chunk",
        """
SELECT n.path, c.ordinal, c.start, c.end, c.tokens, c.text, c.embed_sha, w.body, w.tags, w.names,
  (SELECT 'n' || b.id FROM notebooks b WHERE b.id = n.notebook_id) = w.place
FROM chunks c JOIN notes n ON n.id = c.note_id LEFT JOIN words w ON w.rowid = c.id ORDER BY n.path, c.ordinal""",
    ),
)


def faults_of(connection: sqlite3.Connection) -> list[str]:
    """What is wrong with the tables, in words; empty when they agree. Reads all of them."""
    faults = [str(row[0]) for row in connection.execute("PRAGMA quick_check(20)") if row[0] != "ok"]
    for name, question in _COUNTS:
        (count,) = connection.execute(question).fetchone()
        if count:
            faults.append(f"{count} {name}")
    if orphans := connection.execute("PRAGMA foreign_key_check").fetchall():
        faults.append(f"{len(orphans)} rows whose note or set is gone")
    ids = [int(row[0]) for row in connection.execute("SELECT id FROM chunks ORDER BY random() LIMIT ?", (SAMPLE,))]
    texts = embedded_texts(connection, ids)
    for chunk, text in texts.items():
        (sha,) = connection.execute("SELECT embed_sha FROM chunks WHERE id = ?", (chunk,)).fetchone()
        if bytes(sha) != embedded_sha(text):
            faults.append(f"the hash of chunk {chunk} is not that of its text")
            break
    return faults


def words_are_whole(connection: sqlite3.Connection) -> None:
    """Let FTS5 compare its index with its rows; writes nothing, but only a writer may ask. Raises DatabaseError."""
    connection.execute("INSERT INTO words(words) VALUES ('integrity-check')")


def dump(connection: sqlite3.Connection) -> Iterator[str]:
    """All that follows from the files, one line for each row, without numbers that depend on the order of things.

    Two indexes of the same files give the same lines.
    """
    for name, question in _DUMP:
        for row in connection.execute(question):
            yield f"{name} {row!r}"
