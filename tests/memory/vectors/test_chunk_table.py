"""The columns of chunks: what comes, goes and comes late (memory.md 11.25)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.memory.index.records import ChunkPlace
from app.memory.vectors.chunk_table import UNKNOWN_DAY, ChunkTable
from app.memory.vectors.missing import MissingVectors, add_places
from app.memory.vectors.text_rows import NO_ROW, TextRows


def place(number: int, *, notebook: int = 1, day: int | None = 7) -> ChunkPlace:
    return ChunkPlace(number, number * 10, notebook, number % 3, day, number.to_bytes(32, "big"))


def nowhere(count: int) -> NDArray[np.int64]:
    return np.full(count, NO_ROW)


def test_a_chunk_is_found_with_what_is_known_of_it() -> None:
    table = ChunkTable()
    table.add([place(5, notebook=2), place(9, day=None)], np.array([105, NO_ROW]))
    five, nine, none = table.slots_of([5, 9, 6])
    assert none == -1
    assert (table.note[five], table.notebook[five], table.ordinal[five], table.day[five]) == (50, 2, 2, 7)
    assert table.row[five] == 105
    assert table.row[nine] == NO_ROW
    assert table.day[nine] == UNKNOWN_DAY
    assert table.id[table.with_vectors(None)].tolist() == [5]
    assert table.with_vectors([1]).tolist() == []


def test_a_vector_that_comes_later_is_known_from_then_on() -> None:
    table = ChunkTable()
    table.add([place(1), place(2)], nowhere(2))
    table.put_rows({b"a": 4}, {2: b"a", 1: b"b", 77: b"a"})
    assert table.row[table.slots_of([1, 2])].tolist() == [NO_ROW, 4]


def test_many_removals_write_the_columns_anew() -> None:
    table = ChunkTable()
    table.add([place(number) for number in range(1, 3001)], nowhere(3000))
    table.remove(range(1, 2001))
    assert len(table) == 1000
    assert len(table.id) == 1000
    assert table.slots_of([2001, 3000, 1]).tolist() == [0, 999, -1]


@given(
    st.lists(
        st.one_of(
            st.lists(st.integers(1, 60), max_size=8, unique=True).map(lambda ids: ("add", ids)),
            st.lists(st.integers(1, 60), max_size=8).map(lambda ids: ("remove", ids)),
        ),
        max_size=30,
    )
)
def test_the_columns_say_what_a_dictionary_would(steps: list[tuple[str, list[int]]]) -> None:
    table, wanted = ChunkTable(), set[int]()
    for kind, ids in steps:
        if kind == "add":
            table.add([place(number) for number in ids], nowhere(len(ids)))
            wanted |= set(ids)
        else:
            table.remove(ids)
            wanted -= set(ids)
        assert len(table) == len(wanted)
        assert set(table.id[table.id > 0].tolist()) == wanted
        assert all(slot >= 0 for slot in table.slots_of(sorted(wanted)))
        assert np.all(np.diff(np.abs(table.id)) >= 0)


@given(
    st.lists(st.integers(1, 40), unique=True, max_size=30),
    st.dictionaries(st.integers(1, 40), st.integers(0, 99), max_size=30),
    st.integers(1, 7),
)
def test_chunks_in_parts_of_any_size_make_the_columns_that_dictionaries_would(
    ids: list[int], vectors: dict[int, int], size: int
) -> None:
    rows = TextRows((place(number).embed_sha, row) for number, row in vectors.items())
    table, missing = ChunkTable(), MissingVectors()
    for begin in range(0, len(ids), size):
        add_places(table, missing, [place(number) for number in ids[begin : begin + size]], rows)
    assert dict(zip(table.id.tolist(), table.row.tolist(), strict=True)) == {
        number: vectors.get(number, NO_ROW) for number in ids
    }
    assert table.id.tolist() == sorted(ids)
    assert table.note.tolist() == [number * 10 for number in sorted(ids)]
    assert table.ordinal.tolist() == [number % 3 for number in sorted(ids)]
    assert dict(missing.newest()) == {number: place(number).embed_sha for number in ids if number not in vectors}
