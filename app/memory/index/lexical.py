"""Search by words: BM25 over FTS5, for candidates and for given chunks alike (memory.md 9.3, 11.7)."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence

from app.memory.index.rows import place_word
from app.memory.index.schema import WORD_WEIGHTS

MAX_WORDS = 128
MAX_NOTEBOOKS = 500
"""So many are named in one search at most."""
MAX_COUNTS = 100_000

MATCHES = 2_500
"""More chunks than this are not looked at for one question, if some of its words are rarer than others."""

CANDIDATES = 4
_AT_ONCE = 500

_K1, _B = 1.2, 0.75
"""Those of FTS5."""

_COMMON = 1e-6
"""What FTS5 takes for the weight of a word that stands in more than half of all chunks."""

_RANK = "bm25(words, " + ", ".join(map(str, WORD_WEIGHTS)) + ")"


def quoted(word: str) -> str:
    """A word as FTS5 takes it literally."""
    return '"' + word.replace('"', '""') + '"'


def expression(words: Sequence[str], places: str = "", *, tags_only: bool) -> str:
    """The search for any of the words, where ``places`` says; only ever made of quoted words."""
    found = " OR ".join(quoted(word) for word in words[:MAX_WORDS])
    column = "{tags}" if tags_only else "{body tags names}"
    return f"({column} : ({found})) {places}"


def places_of(connection: sqlite3.Connection, notebooks: Collection[int] | None) -> tuple[str, int]:
    """What limits a search to these notebooks, and how many chunks they have.

    Every place that is named costs time with every chunk that has the words: of most of all notebooks, those that are
    left out are named.
    """
    chunks = {int(notebook): int(count) for notebook, count in connection.execute("SELECT id, chunks FROM notebooks")}
    inside = set(chunks) if notebooks is None else set(notebooks) & set(chunks)
    outside = [notebook for notebook, count in chunks.items() if notebook not in inside and count]
    rather_out = len(outside) < min(len(inside), MAX_NOTEBOOKS)
    limit, named = ("NOT", outside) if rather_out else ("AND", sorted(inside)[:MAX_NOTEBOOKS])
    places = " OR ".join(quoted(place_word(notebook)) for notebook in named)
    return f"{limit} (place : ({places}))" if named else "", sum(chunks[notebook] for notebook in inside)


class Lexical:
    """Search by words in one index. One object may be used by several threads; ``changed`` after every commit."""

    def __init__(self) -> None:
        self._found: dict[str, int] = {}

    def changed(self) -> None:
        """What is known of the whole index counts no longer."""
        self._found = {}

    def search(
        self,
        connection: sqlite3.Connection,
        words: Sequence[str],
        notebooks: Sequence[int] | None,
        limit: int,
        *,
        tags_only: bool,
    ) -> list[tuple[int, float]]:
        """The best chunks, best first: (chunk id, score > 0).

        Where common words would bring very many chunks, the candidates are those with the rarer words; their scores
        count all words.
        """
        words = list(dict.fromkeys(words))[:MAX_WORDS]
        if not words or limit < 1 or (notebooks is not None and not notebooks):
            return []
        places, chunks = places_of(connection, notebooks)
        if not chunks:
            return []
        if tags_only:
            return _ranked(connection, words, places, limit, tags_only=True)
        rarer = self._rarer(connection, words, chunks)
        if len(rarer) == len(words):
            return _ranked(connection, words, places, limit, tags_only=False)
        candidates = _ranked(connection, rarer, places, CANDIDATES * limit, tags_only=False)
        if len(candidates) < limit:
            return _ranked(connection, words, places, limit, tags_only=False)
        scored = self.scores(connection, words, [chunk for chunk, _ in candidates])
        return sorted(scored.items(), key=lambda found: (-found[1], found[0]))[:limit]

    def scores(self, connection: sqlite3.Connection, words: Sequence[str], chunks: Sequence[int]) -> dict[int, float]:
        """The scores that ``search`` gives, of given chunks; those without any of the words are missing."""
        weights = self._weights(connection, list(dict.fromkeys(words))[:MAX_WORDS])
        rows, mean = _lengths(connection)
        if not rows or not weights:
            return {}
        scored: dict[int, float] = {}
        for begin in range(0, len(chunks), _AT_ONCE):
            part = chunks[begin : begin + _AT_ONCE]
            marks = ",".join("?" * len(part))
            found = connection.execute(
                f"SELECT rowid, body, tags, names FROM words WHERE rowid IN ({marks})", tuple(part)
            )
            for chunk, *columns in found:
                score = _score(columns, weights, mean)
                if score > 0:
                    scored[int(chunk)] = score
        return scored

    def _count(self, connection: sqlite3.Connection, word: str) -> int:
        """In how many chunks a word stands."""
        found = self._found
        known = found.get(word)
        if known is None:
            (known,) = connection.execute(
                "SELECT count(*) FROM words WHERE words MATCH ?", (expression([word], tags_only=False),)
            ).fetchone()
            if len(found) < MAX_COUNTS:
                found[word] = int(known)
        return int(known)

    def _weights(self, connection: sqlite3.Connection, words: Iterable[str]) -> dict[str, float]:
        rows, _ = _lengths(connection)
        counts = {word: self._count(connection, word) for word in words}
        return {
            word: weight if (weight := math.log((rows - count + 0.5) / (count + 0.5))) > 0 else _COMMON
            for word, count in counts.items()
            if count
        }

    def _rarer(self, connection: sqlite3.Connection, words: list[str], chunks: int) -> list[str]:
        """The rarest words, as many as bring at most ``MATCHES`` chunks; at least one."""
        if chunks <= MATCHES:
            return words
        counts = sorted((self._count(connection, word), word) for word in words)
        kept: list[str] = []
        matches = 0
        for count, word in counts:
            matches += count
            if kept and matches > MATCHES:
                break
            if count:
                kept.append(word)
        return words if len(kept) == sum(1 for count, _ in counts if count) else kept


def _ranked(
    connection: sqlite3.Connection,
    words: Sequence[str],
    places: str,
    limit: int,
    *,
    tags_only: bool,
) -> list[tuple[int, float]]:
    rows = connection.execute(
        f"SELECT rowid, {_RANK} AS found FROM words WHERE words MATCH ? ORDER BY found, rowid LIMIT ?",
        (expression(words, places, tags_only=tags_only), limit),
    )
    return [(int(chunk), -float(score)) for chunk, score in rows]


def _score(columns: Sequence[str], weights: Mapping[str, float], mean: float) -> float:
    """BM25 of one row as FTS5 computes it: a word counts by column, the length is that of all columns."""
    counts: dict[str, float] = {}
    length = 1  # the column ``place`` has one word
    for text, column in zip(columns, WORD_WEIGHTS[:3], strict=True):
        words = text.split()
        length += len(words)
        for word in words:
            if word in weights:
                counts[word] = counts.get(word, 0.0) + column
    norm = _K1 * (1 - _B + _B * length / mean)
    return sum(weights[word] * count * (_K1 + 1) / (count + norm) for word, count in counts.items())


def _lengths(connection: sqlite3.Connection) -> tuple[int, float]:
    """How many rows the table of words has and how many words a row on average, from FTS5's own record (block 1)."""
    row = connection.execute("SELECT block FROM words_data WHERE id = 1").fetchone()
    numbers = _varints(bytes(row[0])) if row is not None else []
    if not numbers or not numbers[0]:
        return 0, 1.0
    return numbers[0], max(1.0, sum(numbers[1:]) / numbers[0])


def _varints(data: bytes) -> list[int]:
    """SQLite's integers of variable length."""
    numbers: list[int] = []
    value = size = 0
    for byte in data:
        size += 1
        if size == 9:
            value = (value << 8) | byte
        else:
            value = (value << 7) | (byte & 0x7F)
            if byte & 0x80:
                continue
        numbers.append(value)
        value = size = 0
    return numbers
