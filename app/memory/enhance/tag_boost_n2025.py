"""The six steps by which tags bend the question in the reference (memory.md 5.3, ``MemoryTagBoost=n2025``); pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.memory.embedders.embedder import Vector
from app.memory.ranking.query_vector import unit_vector

DIRECT_TAGS = 10
EXPONENT = 2.5
FALLBACK_STRENGTH = 10.0
FALLBACK_FILES = 100


@dataclass(frozen=True, slots=True)
class RelatedTag:
    """A tag of R: its strength c and the number f of files that carry it."""

    name: str
    strength: float
    files: int

    @property
    def weight(self) -> float:
        """w = c^2.5 / ln(f + 2); 0 where that is no finite number, as for negative c."""
        if not math.isfinite(self.strength) or self.strength < 0:
            return 0.0
        try:
            weight = self.strength**EXPONENT / math.log(self.files + 2)
        except OverflowError:
            return 0.0
        return weight if math.isfinite(weight) else 0.0


@dataclass(frozen=True, slots=True)
class BentQuery:
    """q' of length 1 (or q unchanged), the tags that took part, and Σ w."""

    vector: Vector
    tags: tuple[RelatedTag, ...]
    total: float


def direct_score(cosine: float) -> float:
    """s = 1 - d² of unit vectors, which is 2·cos - 1 (3.6)."""
    return 2.0 * cosine - 1.0


def related_tags(
    direct: Sequence[tuple[str, float]], tag_notes: Mapping[str, frozenset[int]], expand: int
) -> tuple[RelatedTag, ...]:
    """Steps 2 and 3: tags that share files with direct ones (tag, s), by c = Σ M·s, the ``expand`` greatest.

    When nothing is left to expand: the direct tags themselves with c = 10 and f = 100.
    """
    seeds = dict(direct)
    strengths: dict[str, float] = {}
    for tag, files in tag_notes.items():
        if tag in seeds:
            continue
        shared = [(len(files & tag_notes.get(seed, frozenset())), score) for seed, score in direct]
        if any(count for count, _ in shared):
            strengths[tag] = sum(count * score for count, score in shared)
    if not strengths:
        return tuple(RelatedTag(tag, FALLBACK_STRENGTH, FALLBACK_FILES) for tag in seeds)
    best = sorted(strengths, key=lambda tag: (-strengths[tag], tag))[: max(0, expand)]
    return tuple(RelatedTag(tag, strengths[tag], len(tag_notes[tag])) for tag in best)


def bent_query(
    query: Vector, related: Sequence[RelatedTag], vectors: Mapping[str, Vector | None], beta: float
) -> BentQuery:
    """Steps 4 to 6: p = unit(Σ w·t / Σ w), q' = unit((1-β)·q + β·p). Tags without a vector do not count."""
    pulls = [(tag.weight, vector) for tag in related if (vector := vectors.get(tag.name)) is not None]
    total = sum(weight for weight, _ in pulls)
    if total <= 0:
        return BentQuery(query, tuple(related), 0.0)
    mean = sum((weight / total * np.asarray(vector, dtype=np.float64) for weight, vector in pulls), np.float64(0))
    pulled = unit_vector(mean)
    if pulled is None:
        return BentQuery(query, tuple(related), total)
    share = min(1.0, max(0.0, beta))
    exact = np.asarray(mean, dtype=np.float64) / float(np.linalg.norm(mean))
    bent = unit_vector((1.0 - share) * np.asarray(query, dtype=np.float64) + share * exact)
    return BentQuery(query if bent is None else bent, tuple(related), total)
