"""All chunks as columns of numbers, so that one search looks at them without asking a database (memory.md 11.25)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from app.memory.index.records import ChunkPlace
from app.memory.vectors.text_rows import NO_ROW

UNKNOWN_DAY = -1
_FIRST_CAPACITY = 1024
_COLUMNS = ("_order", "_id", "_note", "_notebook", "_ordinal", "_day", "_row")
KEPT_SEARCHES = 4
"""Choices of notebooks whose chunks are kept at hand."""

_COMPACT_SHARE = 4
"""Columns are written anew when one slot in so many belongs to a chunk that is gone."""

Slots = NDArray[np.int64]


class ChunkTable:
    """Columns with one slot for each chunk, in ascending order of chunk ids, since the index only counts upwards.

    ``row`` is where the chunk's vector lies in the matrix, ``NO_ROW`` while it has none. Not safe for threads: the
    owner holds a lock.
    """

    def __init__(self) -> None:
        self._count = 0
        self._gone = 0
        self._order = np.empty(_FIRST_CAPACITY, np.int64)  # chunk ids, of those that are gone too
        self._id = np.empty(_FIRST_CAPACITY, np.int64)
        self._note = np.empty(_FIRST_CAPACITY, np.int64)
        self._notebook = np.empty(_FIRST_CAPACITY, np.int32)
        self._ordinal = np.empty(_FIRST_CAPACITY, np.int32)
        self._day = np.empty(_FIRST_CAPACITY, np.int32)
        self._row = np.empty(_FIRST_CAPACITY, np.int64)
        self._searched: dict[tuple[int, ...] | None, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def __len__(self) -> int:
        """Chunks that are there."""
        return self._count - self._gone

    @property
    def id(self) -> NDArray[np.int64]:
        """Chunk id by slot; negative where the chunk is gone."""
        return self._id[: self._count]

    @property
    def note(self) -> NDArray[np.int64]:
        """Note id by slot."""
        return self._note[: self._count]

    @property
    def notebook(self) -> NDArray[np.int32]:
        """Notebook id by slot."""
        return self._notebook[: self._count]

    @property
    def ordinal(self) -> NDArray[np.int32]:
        """Place in the note by slot."""
        return self._ordinal[: self._count]

    @property
    def day(self) -> NDArray[np.int32]:
        """Day as a proleptic ordinal by slot; ``UNKNOWN_DAY`` where it is not known."""
        return self._day[: self._count]

    @property
    def row(self) -> NDArray[np.int64]:
        """Row in the matrix by slot."""
        return self._row[: self._count]

    def add(self, places: Sequence[ChunkPlace], rows: NDArray[np.int64]) -> None:
        """Add chunks; ``rows`` says where the vector of each lies, or ``NO_ROW``. One that is there is taken anew."""
        self._searched.clear()
        ids = np.array([place.id for place in places], np.int64)
        slots = self._slots_even_gone(ids)
        new = slots < 0
        before = self._count
        if not new.all():
            self._gone -= int(np.count_nonzero(self._id[np.unique(slots[~new])] < 0))
        self._count += int(np.count_nonzero(new))
        self._reserve(before)
        slots[new] = np.arange(before, self._count)
        self._fill(slots, ids, places, rows)
        if before < self._count and np.any(np.diff(self._order[max(0, before - 1) : self._count]) < 0):
            # commits that overtook each other: put the columns into order once
            self._keep(np.argsort(self._order[: self._count], kind="stable"))

    def remove(self, chunk_ids: Iterable[int]) -> None:
        """Forget chunks; unknown ones are passed over."""
        self._searched.clear()
        slots = self.slots_of(list(chunk_ids))
        slots = np.unique(slots[slots >= 0])
        self._id[slots] = -self._order[slots]
        self._row[slots] = NO_ROW
        self._gone += len(slots)
        if self._gone * _COMPACT_SHARE > self._count and self._count > _FIRST_CAPACITY:
            self._keep(np.flatnonzero(self.id > 0))
            self._gone = 0

    def slots_of(self, chunk_ids: Sequence[int]) -> Slots:
        """The slot of each chunk, -1 where there is none."""
        slots = self._slots_even_gone(chunk_ids)
        return np.where((slots >= 0) & (self.id[slots] > 0), slots, -1) if self._count else slots

    def _slots_even_gone(self, chunk_ids: Sequence[int] | NDArray[np.int64]) -> Slots:
        wanted = np.asarray(chunk_ids, np.int64)
        if not self._count or not len(wanted):
            return np.full(len(wanted), -1, np.int64)
        order = self._order[: self._count]
        slots = np.minimum(np.searchsorted(order, wanted), self._count - 1)
        return np.where(order[slots] == wanted, slots, -1)

    def put_rows(self, sha_rows: Mapping[bytes, int], chunk_shas: Mapping[int, bytes]) -> None:
        """Say where the vectors of these chunks lie now."""
        self._searched.clear()
        ids = [chunk_id for chunk_id, sha in chunk_shas.items() if sha in sha_rows]
        slots = self.slots_of(ids)
        rows = np.asarray([sha_rows[chunk_shas[chunk_id]] for chunk_id in ids], np.int64)
        self._row[slots[slots >= 0]] = rows[slots >= 0]

    def searched(self, notebooks: Sequence[int] | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ids and rows of the chunks of ``with_vectors``, kept for the next question until anything changes."""
        key = None if notebooks is None else tuple(sorted(set(notebooks)))
        found = self._searched.get(key)
        if found is None:
            slots = self.with_vectors(key)
            found = self.id[slots], self.row[slots]
            if len(self._searched) >= KEPT_SEARCHES:
                self._searched.clear()
            self._searched[key] = found
        return found

    def with_vectors(self, notebooks: Sequence[int] | None) -> Slots:
        """Slots of the chunks that are there and have a vector, of these notebooks or of all."""
        mask = self.row >= 0
        if notebooks is not None:
            wanted = np.zeros(1 + max([int(self.notebook.max(initial=0)), *notebooks], default=0), bool)
            wanted[list(notebooks)] = True
            mask &= wanted[self.notebook]
        return np.flatnonzero(mask)

    def _fill(
        self, slots: Slots, ids: NDArray[np.int64], places: Sequence[ChunkPlace], rows: NDArray[np.int64]
    ) -> None:
        self._order[slots] = self._id[slots] = ids
        self._note[slots] = [place.note_id for place in places]
        self._notebook[slots] = [place.notebook_id for place in places]
        self._ordinal[slots] = [place.ordinal for place in places]
        self._day[slots] = [UNKNOWN_DAY if place.day is None else place.day for place in places]
        self._row[slots] = rows

    def _reserve(self, filled: int) -> None:
        """Make room for ``_count`` slots, of which the first ``filled`` are in use."""
        if self._count <= len(self._id):
            return
        capacity = max(self._count, 2 * len(self._id))
        for name in _COLUMNS:
            old = getattr(self, name)
            grown = np.empty(capacity, old.dtype)
            grown[:filled] = old[:filled]
            setattr(self, name, grown)

    def _keep(self, slots: Slots) -> None:
        for name in _COLUMNS:
            column = getattr(self, name)
            column[: len(slots)] = column[: self._count][slots]
        self._count = len(slots)
