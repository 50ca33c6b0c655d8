"""Deterministic stand-ins for an embedding model and a reranker: both only compare character n-grams."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator, Sequence
from zlib import crc32

DEFAULT_DIMENSIONS = 256
MAX_GRAM = 3
"""Longest n-gram, in characters."""


def embed(text: str, dimensions: int) -> list[float]:
    """A vector of length one: hashed counts of the text's n-grams of one to three characters.

    Texts that share words or characters point in similar directions, in any script; meaning plays no part.
    """
    sums = [0.0] * dimensions
    for gram in _grams(text):
        mark = crc32(gram.encode("utf-8", "replace"))
        # The top bit is the sign, so that grams which share a place do not only add up.
        sums[(mark & 0x7FFFFFFF) % dimensions] += 1.0 if mark >> 31 else -1.0
    length = math.sqrt(sum(value * value for value in sums))
    if length == 0.0:
        return [1.0] + [0.0] * (dimensions - 1)
    return [value / length for value in sums]


def packed(vector: Sequence[float]) -> str:
    """A vector as base64 of little-endian 32-bit floats, as ``encoding_format: base64`` asks for."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")


def relevance(query: str, document: str) -> float:
    """The share of the query's n-grams that the document has, 0..1; longer n-grams weigh more."""
    wanted = set(_grams(query))
    found = set(_grams(document))
    total = sum(len(gram) for gram in wanted)
    return round(sum(len(gram) for gram in wanted & found) / total, 6) if total else 0.0


def _grams(text: str) -> Iterator[str]:
    words = " ".join(text.casefold().split())
    for size in range(1, MAX_GRAM + 1):
        for at in range(len(words) - size + 1):
            gram = words[at : at + size]
            if gram != " ":
                yield gram
