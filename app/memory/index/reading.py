"""What is asked of the tables (memory.md 3.5). Every function reads inside one ``Database.read``."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from app.memory.index.chunks import Chunk, embedded_text
from app.memory.index.records import ChunkRecord
from app.memory.index.rows import day_of
from app.protocol.diary_head import NoteHead

T = TypeVar("T")

_AT_ONCE = 500

_CHUNKS = """
SELECT c.id, c.note_id, b.name, n.path, c.ordinal, c.start, c.end, c.tokens, c.text, c.embed_sha,
  n.day, n.author, n.title, n.body_start, n.tag_line_start, n.has_heading
FROM chunks c JOIN notes n ON n.id = c.note_id JOIN notebooks b ON b.id = n.notebook_id WHERE c.id IN (%s)
"""


@dataclass(frozen=True, slots=True)
class NoteRecord:
    """One note, for people and for ``doctor``."""

    id: int
    notebook: str
    path: str
    size: int
    fault: str


def chunk_records(connection: sqlite3.Connection, ids: Sequence[int]) -> dict[int, ChunkRecord]:
    """Chunks by id, in the order asked for."""
    return {record.id: record for record, _ in _chunks(connection, ids)}


def embedded_texts(connection: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
    """What is to be embedded of each chunk; its SHA-256 is the chunk's ``embed_sha``."""
    texts: dict[int, str] = {}
    for record, head in _chunks(connection, ids):
        # The slice stands where it stands in its note, so what is before and behind it need not be there.
        shifted = NoteHead(
            head.day,
            head.author,
            head.title,
            max(0, head.body_start - record.start),
            head.tag_line_start - record.start,
            head.has_heading,
        )
        size = record.end - record.start
        texts[record.id] = embedded_text(shifted, record.tags, record.text, Chunk(0, 0, size, record.tokens))
    return texts


def chunks_in_days(
    connection: sqlite3.Connection, first: int, last: int, notebooks: Sequence[int] | None, limit: int
) -> list[int]:
    """Chunk ids of notes of these days, newest first, in the order of their notes."""
    where, values = _in_notebooks(notebooks)
    rows = connection.execute(
        f"SELECT c.id FROM notes n JOIN chunks c ON c.note_id = n.id WHERE n.day BETWEEN ? AND ?{where} "
        "ORDER BY n.day DESC, n.path, c.ordinal LIMIT ?",
        (first, last, *values, limit),
    )
    return [int(chunk) for (chunk,) in rows]


def chunks_by_note(connection: sqlite3.Connection, notes: Sequence[int]) -> dict[int, list[int]]:
    """Chunk ids in their order, by note."""
    found: dict[int, list[int]] = {}
    for part in parts(notes):
        marks = ",".join("?" * len(part))
        rows = connection.execute(
            f"SELECT note_id, id FROM chunks WHERE note_id IN ({marks}) ORDER BY note_id, ordinal", tuple(part)
        )
        for note, chunk in rows:
            found.setdefault(int(note), []).append(int(chunk))
    return found


def notes_by_tag(connection: sqlite3.Connection) -> dict[str, frozenset[int]]:
    """Note ids by tag as it is displayed."""
    found: dict[str, set[int]] = {}
    rows = connection.execute("SELECT t.display, n.note_id FROM note_tags n JOIN tags t ON t.id = n.tag_id")
    for display, note in rows:
        found.setdefault(str(display), set()).add(int(note))
    return {display: frozenset(notes) for display, notes in found.items()}


def faulty_notes(connection: sqlite3.Connection, limit: int) -> list[NoteRecord]:
    """Notes that could not be read, by path."""
    rows = connection.execute(
        "SELECT n.id, b.name, n.path, n.size, n.fault FROM notes n JOIN notebooks b ON b.id = n.notebook_id "
        "WHERE n.fault <> '' ORDER BY n.path LIMIT ?",
        (limit,),
    )
    return [NoteRecord(*row) for row in rows]


def parts(ids: Sequence[T]) -> Iterator[Sequence[T]]:
    """Ids, or paths, in groups that fit a statement."""
    for begin in range(0, len(ids), _AT_ONCE):
        yield ids[begin : begin + _AT_ONCE]


def _chunks(connection: sqlite3.Connection, ids: Sequence[int]) -> Iterator[tuple[ChunkRecord, NoteHead]]:
    for part in parts(ids):
        rows = connection.execute(_CHUNKS % ",".join("?" * len(part)), tuple(part)).fetchall()
        tags = _tags(connection, sorted({int(row[1]) for row in rows}))
        found = {int(row[0]): row for row in rows}
        for number in part:
            row = found.get(number)
            if row is None:
                continue
            head = NoteHead(day_of(row[10]), str(row[11]), str(row[12]), int(row[13]), int(row[14]), bool(row[15]))
            record = ChunkRecord(
                id=number,
                note_id=int(row[1]),
                notebook=str(row[2]),
                path=str(row[3]),
                ordinal=int(row[4]),
                start=int(row[5]),
                end=int(row[6]),
                tokens=int(row[7]),
                text=str(row[8]),
                embed_sha=bytes(row[9]),
                day=head.day,
                author=head.author,
                title=head.title,
                tags=tags.get(int(row[1]), ()),
            )
            yield record, head


def _tags(connection: sqlite3.Connection, notes: Sequence[int]) -> Mapping[int, tuple[str, ...]]:
    marks = ",".join("?" * len(notes))
    found: dict[int, list[str]] = {}
    rows = connection.execute(
        f"SELECT note_id, display FROM note_tags WHERE note_id IN ({marks}) ORDER BY note_id, place", tuple(notes)
    )
    for note, display in rows:
        found.setdefault(int(note), []).append(str(display))
    return {note: tuple(names) for note, names in found.items()}


def _in_notebooks(notebooks: Sequence[int] | None) -> tuple[str, tuple[int, ...]]:
    if notebooks is None:
        return "", ()
    return f" AND n.notebook_id IN ({','.join('?' * len(notebooks))})", tuple(notebooks)
