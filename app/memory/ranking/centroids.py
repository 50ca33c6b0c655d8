"""What a notebook is about, in up to eight vectors: k-means over its chunks (memory.md 2.6)."""

from __future__ import annotations

import numpy as np

from app.memory.embedders.embedder import Matrix

MOST_CENTROIDS = 8
CHUNKS_PER_CENTROID = 8
ROUNDS = 12
SEED = 20_251_127


def centroids(rows: Matrix, seed: int = SEED) -> Matrix:
    """The means of the clusters, shape (1 to 8, dimension), **not** brought to length 1; empty for no rows.

    A question's product with such a mean is its mean cosine with the chunks of the cluster, so it can be judged by the
    same calibration as a single chunk. Rows that are not finite do not count. The same rows give the same result.
    """
    dimension = rows.shape[1] if rows.ndim == 2 else 0
    usable = rows[np.all(np.isfinite(rows), axis=1)].astype(np.float64) if rows.ndim == 2 else np.zeros((0, 0))
    if not len(usable):
        return np.zeros((0, dimension), dtype=np.float32)
    wanted = min(MOST_CENTROIDS, max(1, len(usable) // CHUNKS_PER_CENTROID))
    means = _seeds(usable, wanted, np.random.default_rng(seed))
    owner = np.full(len(usable), -1)
    for _ in range(ROUNDS):
        # for rows of one length the nearest mean by Euclid; half of the squared length of the mean is all that differs
        nearest = np.argmax(usable @ means.T - 0.5 * np.sum(means * means, axis=1), axis=1)
        if np.array_equal(nearest, owner):
            break
        owner = nearest
        for cluster in range(len(means)):
            members = usable[owner == cluster]
            if len(members):
                means[cluster] = members.mean(axis=0)
    return np.asarray(means[np.unique(owner)], dtype=np.float32)


def _seeds(
    rows: np.ndarray[tuple[int, ...], np.dtype[np.float64]], wanted: int, random: np.random.Generator
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Rows far from each other (k-means++)."""
    chosen = [int(random.integers(len(rows)))]
    distance = np.sum((rows - rows[chosen[0]]) ** 2, axis=1)
    while len(chosen) < wanted and float(distance.sum()) > 1e-12:
        chosen.append(int(random.choice(len(rows), p=distance / distance.sum())))
        distance = np.minimum(distance, np.sum((rows - rows[chosen[-1]]) ** 2, axis=1))
    return rows[chosen].copy()
