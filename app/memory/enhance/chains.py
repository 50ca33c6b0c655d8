"""Thinking chains, the numbers of them: which clusters, how many of each, how a thought moves on (memory.md 5.5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.memory.embedders.calibration import calibrated
from app.memory.embedders.embedder import Calibration, Matrix, Vector
from app.memory.enhance.documents import LiveDocument, words_in
from app.memory.ranking.query_vector import unit_vector

FILE_NAME = "meta_thinking_chains.json"
DEFAULT_CHAIN = "default"
DEFAULT_CLUSTERS = ("前思维簇", "逻辑推理簇", "反思簇", "结果辩证簇", "陈词总结梳理簇")
AUTO_THRESHOLD = 0.65
STAGES_LIMIT = 20
CHAINS_LIMIT = 200
MOST_OF_A_STAGE = 50


@dataclass(frozen=True, slots=True)
class Chain:
    """A theme: clusters in their order, how many fragments of each, and what it is for."""

    name: str
    clusters: tuple[str, ...]
    counts: tuple[int, ...] = ()
    description: str = ""

    def sequence(self, asked: Sequence[int] = ()) -> tuple[int, ...]:
        """k of each stage: what the placeholder asks for, else the file, else 1; filled up with 1, cut to the chain."""
        given = tuple(asked) or self.counts
        padded = [*given[: len(self.clusters)], *[1] * (len(self.clusters) - len(given))]
        return tuple(min(MOST_OF_A_STAGE, max(1, count)) for count in padded)


@dataclass(frozen=True, slots=True)
class ChainMode:
    """How a stage's result moves the thought: v = context·(v before, or the question itself) + result·r."""

    context: float
    result: float
    recursive: bool


RECURSIVE = ChainMode(0.4, 0.6, recursive=True)
"""As documented: each stage goes on from the one before; v is brought to length 1."""

N2025 = ChainMode(0.8, 0.2, recursive=False)
"""As measured of the matched version: each stage goes on from the question; v keeps its length."""


@dataclass(frozen=True, slots=True)
class StageHit:
    """A fragment of a cluster."""

    chunk_id: int
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class StageFound:
    """What a search in a cluster gives: fragments, and the vectors of those that have one. ``fault`` for people."""

    hits: tuple[StageHit, ...]
    vectors: Matrix | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that was gone through; ``degraded`` when it found nothing and left the thought as it was."""

    cluster: str
    k: int
    hits: tuple[StageHit, ...]
    degraded: bool
    fault: str
    vector: Vector | None


def parsed_chains(document: Mapping[str, object]) -> dict[str, Chain]:
    """Both shapes: name -> clusters, or name -> ``{clusters, kSequence, description}``; default is always there.

    What is no list of names is left out; a count that is no positive integer is 1.
    """
    chains = document.get("chains")
    found: dict[str, Chain] = {}
    for name, entry in list(chains.items())[:CHAINS_LIMIT] if isinstance(chains, dict) else ():
        fields = entry if isinstance(entry, dict) else {"clusters": entry}
        clusters = _clusters(fields.get("clusters"))
        if not clusters:
            continue
        description = fields.get("description")
        found[name] = Chain(
            name, clusters, _counts(fields.get("kSequence")), description if isinstance(description, str) else ""
        )
    found.setdefault(DEFAULT_CHAIN, Chain(DEFAULT_CHAIN, DEFAULT_CLUSTERS))
    return found


def _clusters(value: object) -> tuple[str, ...]:
    """Names in their order; a cluster may stand in a chain twice."""
    if not isinstance(value, list):
        return words_in(value, STAGES_LIMIT)
    return tuple(name.strip() for name in value if isinstance(name, str) and name.strip())[:STAGES_LIMIT]


def _counts(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(
        count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 1
        for count in value[:STAGES_LIMIT]
    )


def moved(query: Vector, before: Vector, result: Vector, mode: ChainMode) -> Vector:
    """The thought after a stage (M6); length 1 when the mode is recursive, so that it does not fade on its way."""
    context = before if mode.recursive else query
    exact = mode.context * np.asarray(context, np.float64) + mode.result * np.asarray(result, np.float64)
    if not mode.recursive:
        return np.asarray(exact, dtype=np.float32)
    found = unit_vector(exact)
    return before if found is None else found


def mean_vector(rows: Matrix | None) -> Vector | None:
    """The plain mean of the finite rows, None when there are none."""
    if rows is None or rows.ndim != 2:
        return None
    usable = rows[np.all(np.isfinite(rows), axis=1)]
    return np.asarray(usable.mean(axis=0, dtype=np.float64), dtype=np.float32) if len(usable) else None


async def walk_chain(
    clusters: Sequence[str],
    counts: Sequence[int],
    query: Vector | None,
    start: Vector | None,
    search: Callable[[Vector | None, str, int], Awaitable[StageFound]],
    mode: ChainMode = RECURSIVE,
) -> list[Stage]:
    """Go through the clusters: each is searched with the thought so far, and what it gives moves the thought on.

    ``start`` is the question boosted by groups, or the question. Without vectors every stage is searched by the words
    of the question, by whatever ``search`` makes of None. A stage without a result leaves the thought as it is.
    """
    thought = query if start is None else start
    stages: list[Stage] = []
    for cluster, count in zip(clusters, counts, strict=True):
        found = await search(thought, cluster, count)
        result = mean_vector(found.vectors)
        if found.hits and result is not None and thought is not None and query is not None:
            thought = moved(query, thought, result, mode)
        stages.append(Stage(cluster, count, found.hits, not found.hits, found.fault, thought))
    return stages


def chosen_theme(
    query: Vector | None,
    themes: Mapping[str, Vector | None],
    threshold: float,
    calibration: Calibration | None,
) -> str:
    """The chain nearest to the question if it is near enough, else default (auto mode).

    With a calibration the threshold is on the scale of gates, without one (``MemoryGate=n2025``) a plain cosine.
    """
    best, nearness = DEFAULT_CHAIN, -1.0
    for name, vector in sorted(themes.items()):
        if query is None or vector is None or name == DEFAULT_CHAIN or vector.shape != query.shape:
            continue
        cosine = float(vector @ query) / (float(np.linalg.norm(query)) or 1.0)
        value = cosine if calibration is None else calibrated(cosine, calibration)
        if np.isfinite(value) and value > nearness:
            best, nearness = name, value
    return best if nearness >= threshold else DEFAULT_CHAIN


class ChainsFile:
    """The live file of chains."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._file = LiveDocument(folder / FILE_NAME, parsed_chains, clock)

    @property
    def version(self) -> int:
        """Grows when the file has changed."""
        self._file.value()
        return self._file.version

    def chains(self) -> Mapping[str, Chain]:
        """All chains by name now."""
        return self._file.value()
