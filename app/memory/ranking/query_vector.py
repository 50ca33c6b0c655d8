"""The vector of a question (memory.md 2.3, 11.18)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from app.memory.embedders.embedder import Vector

USER_WEIGHT = 0.7
ASSISTANT_WEIGHT = 0.3
CONTEXT_WEIGHT = 0.1
"""Of the user turn before, where there is one; at most .15 (11.18)."""


def weighted_mean(parts: Iterable[tuple[Vector | None, float]], *, unit: bool = True) -> Vector | None:
    """The mean of the vectors that are there, their weights normalised by their sum; None when there is none.

    ``unit``: brought back to length 1. Version n2025 leaves the mean as it is (2.3). Vectors that are not finite or of
    another dimension than the first are as if they were not there.
    """
    usable: list[tuple[Vector, float]] = []
    for vector, weight in parts:
        if vector is None or weight <= 0 or not bool(np.all(np.isfinite(vector))):
            continue
        if usable and usable[0][0].shape != vector.shape:
            continue
        usable.append((vector, weight))
    if not usable:
        return None
    total = sum(weight for _, weight in usable)
    mean = sum((np.asarray(vector, dtype=np.float64) * (weight / total) for vector, weight in usable), np.float64(0))
    return unit_vector(mean) if unit else np.asarray(mean, dtype=np.float32)


def unit_vector(vector: object) -> Vector | None:
    """The vector with length 1 as float32; None when it has no direction or is not finite."""
    exact = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(exact))
    if not np.isfinite(length) or length < 1e-12:
        return None
    return np.asarray(exact / length, dtype=np.float32)
