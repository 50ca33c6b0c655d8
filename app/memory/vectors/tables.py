"""The tables of vectors, in a file of their own: the index can be made anew without paying for vectors again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.memory.embedders.embedder import Calibration, Vector
from app.memory.index.database import Tables
from app.memory.vectors.text_rows import TextRows

SCHEMA = """
-- state: 'building' (not searched yet), 'serving' (one at most), 'old' (to be removed)
CREATE TABLE vector_sets (
  id INTEGER PRIMARY KEY AUTOINCREMENT, signature TEXT NOT NULL UNIQUE, dimension INTEGER NOT NULL,
  state TEXT NOT NULL, made_at INTEGER NOT NULL, mean REAL, deviation REAL
);
CREATE TABLE vectors (
  set_id INTEGER NOT NULL REFERENCES vector_sets(id) ON DELETE CASCADE,
  sha BLOB NOT NULL,                            -- SHA-256 of the embedded text (D80)
  row INTEGER NOT NULL,                         -- its row in the matrix of the set
  vector BLOB NOT NULL,                         -- little-endian float32
  PRIMARY KEY (set_id, sha)
);
CREATE INDEX vectors_by_row ON vectors(set_id, row, sha);  -- all rows are read from it, without the vectors
CREATE TABLE waiting (                          -- texts whose embedding failed: tried again, later each time (11.2)
  set_id INTEGER NOT NULL REFERENCES vector_sets(id) ON DELETE CASCADE,
  sha BLOB NOT NULL, tries INTEGER NOT NULL, not_before INTEGER NOT NULL, fault TEXT NOT NULL,
  PRIMARY KEY (set_id, sha)
) WITHOUT ROWID;
"""

VECTOR_TABLES = Tables("vectors", SCHEMA, 1, 0x56435056, mapped_bytes=0)  # "VCPV"
# Reading all rows at the start would leave most of the file mapped, vectors too, of which nothing is read there.

BUILDING, SERVING, OLD = "building", "serving", "old"

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class SetRow:
    """One vector set as the table has it."""

    id: int
    signature: str
    dimension: int
    state: str
    calibration: Calibration | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A text that could not be embedded."""

    tries: int
    not_before: int
    fault: str


def is_whole(connection: sqlite3.Connection) -> bool:
    """Whether SQLite finds the file sound; reads all of it."""
    return [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")] == ["ok"]


def all_sets(connection: sqlite3.Connection) -> list[SetRow]:
    """Every set, oldest first."""
    rows = connection.execute("SELECT id, signature, dimension, state, mean, deviation FROM vector_sets ORDER BY id")
    return [
        SetRow(
            int(number),
            str(signature),
            int(dimension),
            str(state),
            None if mean is None or deviation is None else Calibration(float(mean), float(deviation)),
        )
        for number, signature, dimension, state, mean, deviation in rows
    ]


def make_set(connection: sqlite3.Connection, signature: str, dimension: int, state: str, now: int) -> SetRow:
    """The set of this signature, made if it is not there; one that was old is built on again."""
    connection.execute(
        "INSERT INTO vector_sets (signature, dimension, state, made_at) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (signature) DO UPDATE SET state = CASE WHEN state = ? THEN ? ELSE state END",
        (signature, dimension, state, now, OLD, BUILDING),
    )
    return next(one for one in all_sets(connection) if one.signature == signature)


def serve(connection: sqlite3.Connection, set_id: int) -> None:
    """This set serves from now on; the one that did is old. One transaction, so there is never none or two (11.4)."""
    connection.execute("UPDATE vector_sets SET state = ? WHERE state = ? AND id <> ?", (OLD, SERVING, set_id))
    connection.execute("UPDATE vector_sets SET state = ? WHERE id = ?", (SERVING, set_id))


def drop_set(connection: sqlite3.Connection, set_id: int) -> None:
    """Remove a set with its vectors."""
    connection.execute("DELETE FROM vectors WHERE set_id = ?", (set_id,))
    connection.execute("DELETE FROM vector_sets WHERE id = ?", (set_id,))


def set_calibration(connection: sqlite3.Connection, set_id: int, found: Calibration) -> None:
    """Keep what was measured on a set (2.6)."""
    connection.execute(
        "UPDATE vector_sets SET mean = ?, deviation = ? WHERE id = ?", (found.mean, found.deviation, set_id)
    )


def known_rows(connection: sqlite3.Connection, set_id: int, shas: Iterable[bytes]) -> dict[bytes, int]:
    """The rows of those texts that have a vector in the set."""
    wanted = list(shas)
    found: dict[bytes, int] = {}
    for begin in range(0, len(wanted), _AT_ONCE):
        part = wanted[begin : begin + _AT_ONCE]
        marks = ",".join("?" * len(part))
        rows = connection.execute(
            f"SELECT sha, row FROM vectors WHERE set_id = ? AND sha IN ({marks})", (set_id, *part)
        )
        found.update((bytes(sha), int(row)) for sha, row in rows)
    return found


def all_rows(connection: sqlite3.Connection, set_id: int) -> TextRows:
    """The rows of all texts of a set."""
    return TextRows(connection.execute("SELECT sha, row FROM vectors WHERE set_id = ? ORDER BY row", (set_id,)))


def add_vectors(connection: sqlite3.Connection, set_id: int, rows: Mapping[bytes, tuple[int, Vector]]) -> None:
    """Keep vectors, which lie in their rows of the matrix already; their texts wait no longer."""
    connection.executemany(
        "INSERT OR REPLACE INTO vectors (set_id, sha, row, vector) VALUES (?, ?, ?, ?)",
        [(set_id, sha, row, vector.astype("<f4").tobytes()) for sha, (row, vector) in rows.items()],
    )
    connection.executemany("DELETE FROM waiting WHERE set_id = ? AND sha = ?", [(set_id, sha) for sha in rows])


def vectors_in_rows(connection: sqlite3.Connection, set_id: int, first: int, last: int) -> dict[int, Vector]:
    """The vectors of rows ``first`` to ``last - 1``."""
    rows = connection.execute(
        "SELECT row, vector FROM vectors WHERE set_id = ? AND row >= ? AND row < ?", (set_id, first, last)
    )
    return {int(row): np.frombuffer(vector, "<f4") for row, vector in rows}


def remove_vectors(connection: sqlite3.Connection, set_id: int, shas: Iterable[bytes]) -> None:
    """Forget vectors."""
    connection.executemany("DELETE FROM vectors WHERE set_id = ? AND sha = ?", [(set_id, sha) for sha in shas])


def waiting_of(connection: sqlite3.Connection, set_id: int) -> dict[bytes, Waiting]:
    """Texts of a set that failed."""
    rows = connection.execute("SELECT sha, tries, not_before, fault FROM waiting WHERE set_id = ?", (set_id,))
    return {bytes(sha): Waiting(int(tries), int(not_before), str(fault)) for sha, tries, not_before, fault in rows}


def put_waiting(connection: sqlite3.Connection, set_id: int, waiting: Mapping[bytes, Waiting]) -> None:
    """Keep which texts failed."""
    connection.executemany(
        "INSERT OR REPLACE INTO waiting (set_id, sha, tries, not_before, fault) VALUES (?, ?, ?, ?, ?)",
        [(set_id, sha, one.tries, one.not_before, one.fault) for sha, one in waiting.items()],
    )


def forget_waiting(connection: sqlite3.Connection, set_id: int, shas: Sequence[bytes]) -> None:
    """These texts are gone."""
    connection.executemany("DELETE FROM waiting WHERE set_id = ? AND sha = ?", [(set_id, sha) for sha in shas])
