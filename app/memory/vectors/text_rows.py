"""The rows of all texts of a set as columns: a dictionary of a million digests takes a quarter of a gigabyte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

NO_ROW = -1
_DIGEST = np.dtype("S32")
_PART = 16_384


class TextRows:
    """Which row of a matrix holds the vector of which text, by SHA-256. Nobody changes it once it is made."""

    def __init__(self, pairs: Iterable[tuple[bytes, int]] = ()) -> None:
        """From (SHA-256, row), each text once. The pairs are taken some at a time and not kept as objects."""
        shas, rows = [np.empty(0, _DIGEST)], [np.empty(0, np.int64)]
        for part in _parts(pairs):
            shas.append(np.array([sha for sha, _ in part], _DIGEST))
            rows.append(np.array([row for _, row in part], np.int64))
        unordered = np.concatenate(shas)
        del shas
        order = np.argsort(unordered)
        self._shas: NDArray[np.bytes_] = unordered[order]
        self._first = _first_eight(self._shas, ">u8")
        self.rows: NDArray[np.int64] = np.concatenate(rows)[order]
        """The row of each text, in the order of the digests."""

    def __len__(self) -> int:
        """Texts."""
        return len(self.rows)

    @property
    def marks(self) -> NDArray[np.uint64]:
        """The first eight bytes of each digest as ``approximate.mark_of`` has them, in the order of ``rows``."""
        return np.maximum(_first_eight(self._shas, "<u8"), 1)

    def of(self, shas: Sequence[bytes]) -> NDArray[np.int64]:
        """The row of each of these texts, ``NO_ROW`` for one that is not there."""
        if not len(self) or not len(shas):
            return np.full(len(shas), NO_ROW, np.int64)
        wanted = np.array(shas, _DIGEST)
        # Numbers are compared six times as quickly as digests; two digests that begin alike are looked for as a whole.
        first = _first_eight(wanted, ">u8")
        places = np.minimum(np.searchsorted(self._first, first), len(self) - 1)
        there = self._shas[places] == wanted
        alike = np.flatnonzero(~there & (self._first[places] == first))
        if len(alike):
            places[alike] = np.minimum(np.searchsorted(self._shas, wanted[alike]), len(self) - 1)
            there[alike] = self._shas[places[alike]] == wanted[alike]
        return np.where(there, self.rows[places], NO_ROW)

    def besides(self, rows: NDArray[np.int64]) -> dict[bytes, int]:
        """The texts whose rows are not among these."""
        left = np.flatnonzero(np.isin(self.rows, rows, invert=True))
        digests = (sha.ljust(_DIGEST.itemsize, b"\0") for sha in self._shas[left].tolist())
        return dict(zip(digests, self.rows[left].tolist(), strict=True))


def _parts(pairs: Iterable[tuple[bytes, int]]) -> Iterator[list[tuple[bytes, int]]]:
    left = iter(pairs)
    while part := list(islice(left, _PART)):
        yield part


def _first_eight(shas: NDArray[np.bytes_], order: str) -> NDArray[np.uint64]:
    first: NDArray[np.uint64] = shas.view(order).reshape(-1, 4)[:, 0].astype(np.uint64)
    return first


NO_TEXTS = TextRows()
"""Of a set without any."""
