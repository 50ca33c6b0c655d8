"""Vectors without any model: what two texts share in characters (memory.md 8.5). For bare installations and tests."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from app.memory.embedders.cutting import cut
from app.memory.embedders.embedder import Calibration, Embedded, Matrix, Signature, Vector

DIMENSION = 512
MAX_GRAM = 3
"""Longest n-gram, in characters."""
MAX_TOKENS = 4096
THREAD_CHARS = 20_000
"""From this many characters on, the work is done beside the event loop."""

CALIBRATION = Calibration(0.048, 0.056)
"""Measured on 1,073 questions and 848 passages of a Chinese reading set, the right passages left out."""

# Odd constants of 64 bits with well mixed digits; part of the signature: other ones make other vectors.
_GRAM = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(31)


def hashed(text: str) -> Vector:
    """The vector of one text, of length 1: signed sums of its n-grams of one to three characters.

    The same in every process and on every machine. Capitals, widths and white space make no difference. A text without
    any character has a vector too, which is like no other's.
    """
    words = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    points = np.frombuffer(words.encode("utf-32-le", "replace"), dtype="<u4").astype(np.uint64)
    sums = np.zeros(DIMENSION, dtype=np.float64)
    for size in range(1, MAX_GRAM + 1):
        if len(points) >= size:
            marks = _marks(points, size)
            signs = np.where(marks >> np.uint64(63), 1.0, -1.0)
            sums += np.bincount((marks % np.uint64(DIMENSION)).astype(np.intp), weights=signs, minlength=DIMENSION)
    length = float(np.linalg.norm(sums))
    if length == 0.0:
        sums[0], length = 1.0, 1.0
    return (sums / length).astype(np.float32)


def _marks(points: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """A well mixed number for each n-gram of this size that is not only a space."""
    count = len(points) - size + 1
    marks = np.full(count, size, dtype=np.uint64)
    for place in range(size):
        marks = (marks ^ points[place : place + count]) * _GRAM
        marks ^= marks >> _SHIFT
        marks *= _MIX
        marks ^= marks >> _SHIFT
    return marks[points[:count] != 32] if size == 1 else marks


class HashingEmbedder:
    """The embedder over ``hashed``. It has nothing to start or to stop, and never fails."""

    signature = Signature("hashing-1", DIMENSION, "nfkc casefold 1-3-grams")
    max_tokens = MAX_TOKENS
    paid = False
    calibration = CALIBRATION

    async def embed_query(self, text: str) -> Vector:
        """The vector of a question."""
        vector: Vector = (await self._rows([text]))[0]
        return vector

    async def embed_passages(self, texts: Mapping[str, str]) -> Embedded:
        """The vectors of passages; none fails."""
        rows = await self._rows(list(texts.values()))
        return Embedded(dict(zip(texts, rows, strict=True)))

    async def start(self) -> None:
        """Nothing to do."""

    async def stop(self) -> None:
        """Nothing to do."""

    async def _rows(self, texts: Sequence[str]) -> Matrix:
        if sum(map(len, texts)) < THREAD_CHARS:
            return _matrix(texts)
        return await asyncio.to_thread(_matrix, texts)


def _matrix(texts: Sequence[str]) -> Matrix:
    rows = np.empty((len(texts), DIMENSION), dtype=np.float32)
    for place, text in enumerate(texts):
        rows[place] = hashed(cut(text, MAX_TOKENS))
    return rows
