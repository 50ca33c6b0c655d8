"""Measures of a ranking: pure functions over ids, and the interval of a difference between two methods."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import ceil, log2

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95


def recall(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Which share of ``gold`` is among the first ``k``."""
    if not gold:
        raise ValueError("recall needs an answer to look for")
    return len(set(ranked[:k]) & set(gold)) / len(set(gold))


def reciprocal_rank(ranked: Sequence[str], gold: Collection[str]) -> float:
    """One divided by the rank of the first answer; 0 without one. Its mean is the MRR."""
    return next((1 / rank for rank, name in enumerate(ranked, 1) if name in gold), 0.0)


def ndcg(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Normalised discounted cumulative gain of the first ``k``; each answer counts 1, however often it is listed."""
    left = set(gold)
    gain = 0.0
    for rank, name in enumerate(ranked[:k], 1):
        if name in left:
            left.discard(name)
            gain += 1 / log2(rank + 1)
    return gain / sum(1 / log2(rank + 1) for rank in range(1, min(len(set(gold)), k) + 1))


@dataclass(frozen=True, slots=True)
class Gate:
    """How well it was told whether there is an answer at all.

    ``precision``: of the questions let in, the share with an answer; ``recall``: of those with an answer, the share let
    in; ``kept_out``: of those without one, the share kept out. NaN where there was nothing to judge.
    """

    precision: float
    recall: float
    kept_out: float


def gate(opened: Sequence[bool], answerable: Sequence[bool]) -> Gate:
    """Judge the decisions of a gate."""
    pairs = list(zip(opened, answerable, strict=True))
    right = sum(let_in and there for let_in, there in pairs)
    let_in_wrongly = sum(let_in and not there for let_in, there in pairs)
    absent = sum(not there for _, there in pairs)
    return Gate(
        precision=_share(right, right + let_in_wrongly),
        recall=_share(right, len(pairs) - absent),
        kept_out=_share(absent - let_in_wrongly, absent),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


@dataclass(frozen=True, slots=True)
class Interval:
    """The mean of a difference and the bounds within which it lies with the confidence asked for."""

    mean: float
    low: float
    high: float


def paired_interval(ours: Sequence[float], theirs: Sequence[float], *, seed: int = 0) -> Interval:
    """Bootstrap of ``ours`` - ``theirs`` over the same questions: percentiles of 2,000 resamples, always the same."""
    if len(ours) != len(theirs) or not ours:
        raise ValueError("a paired interval needs the same questions for both, and at least one")
    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    chance = np.random.default_rng(seed)
    means = np.empty(RESAMPLES)
    for place in range(RESAMPLES):
        means[place] = differences[chance.integers(0, len(differences), len(differences))].mean()
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(differences.mean()), float(low), float(high))


def tokens(text: str) -> int:
    """The estimate by which budgets are kept: 1.5 for each CJK character, 0.25 for each other one, rounded up (M7)."""
    wide = sum("\u4e00" <= character <= "\u9fff" for character in text)
    return ceil(wide * 1.5 + (len(text) - wide) * 0.25)
