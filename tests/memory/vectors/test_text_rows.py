"""The rows of texts as columns answer what a dictionary would, also for digests that begin or end alike."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.memory.vectors.approximate import mark_of
from app.memory.vectors.text_rows import NO_ROW, TextRows

BYTES = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])
BEGINNINGS = st.sampled_from([bytes(8), b"\x80" + bytes(7), bytes(7) + b"\x01", b"\xff" * 8])
DIGESTS = st.tuples(BEGINNINGS, st.lists(BYTES, min_size=2, max_size=2)).map(
    lambda parts: parts[0] + bytes(11) + bytes(parts[1][:1]) + bytes(11) + bytes(parts[1][1:])
)


@given(st.dictionaries(DIGESTS, st.integers(0, 10_000), max_size=40), st.lists(DIGESTS, max_size=40))
def test_each_text_has_the_row_that_a_dictionary_says(known: dict[bytes, int], asked: list[bytes]) -> None:
    rows = TextRows(known.items())
    assert len(rows) == len(known)
    assert rows.of(asked).tolist() == [known.get(sha, NO_ROW) for sha in asked]
    assert sorted(rows.rows.tolist()) == sorted(known.values())


@given(st.dictionaries(DIGESTS, st.integers(0, 60), max_size=40), st.sets(st.integers(-1, 60)))
def test_what_is_left_besides_some_rows_is_told_with_whole_digests(known: dict[bytes, int], used: set[int]) -> None:
    left = TextRows(known.items()).besides(np.array(sorted(used), np.int64))
    assert left == {sha: row for sha, row in known.items() if row not in used}


@given(st.lists(DIGESTS, unique=True, max_size=40))
def test_marks_are_those_of_the_approximate_index(shas: list[bytes]) -> None:
    rows = TextRows((sha, row) for row, sha in enumerate(shas))
    assert {row: int(mark) for row, mark in zip(rows.rows.tolist(), rows.marks, strict=True)} == {
        row: mark_of(sha) for row, sha in enumerate(shas)
    }
