"""From exact scores on both sides to one order with reasons (memory.md 11.7 to 11.15); pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date

from app.memory.index.records import ChunkRecord
from app.memory.ranking.candidates import Pool
from app.memory.ranking.decay import Decay
from app.memory.ranking.fusion import Fusion
from app.memory.ranking.neighbours import neighbour_gains
from app.memory.ranking.priors import SOFT_RANGE_WEIGHT, in_any, recency
from app.memory.ranking.requests import DateRange, Dropped
from app.memory.ranking.steps import TagEffect

HARD_RANGE_WEIGHT = 1.0
"""What a note gains with ``::Time`` whose day is one that the person named: as much as meaning and words together, so
that notes of other days come behind."""


@dataclass(slots=True)
class Candidate:
    """A chunk on its way: its score until now, what that is made of, and its similarity (calibrated, None unknown)."""

    record: ChunkRecord
    score: float
    similarity: float | None
    parts: dict[str, float] = field(default_factory=dict)
    matched_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """What one declaration wants of the scores."""

    today: date
    dense_weight: float
    smoothing: bool = True
    priors: bool = True
    hard: tuple[DateRange, ...] = ()
    soft: tuple[DateRange, ...] = ()
    decay: Decay | None = None
    truncate: float | None = None


def place(record: ChunkRecord) -> tuple[int, str, int, int]:
    """What decides between equal scores: the newer day, then path and place in the note."""
    return (-(record.day.toordinal() if record.day else 0), record.path, record.ordinal, record.id)


def ordered(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Best first. Scores are compared to nine digits, so that the order of sums does not decide."""
    return sorted(candidates, key=lambda one: (-round(one.score, 9), *place(one.record)))


def fusion_of(pool: Pool, dense_weight: float) -> Fusion:
    """The combination over what was found itself; neighbours are placed by the same bounds."""
    cosines = None if pool.cosines is None else {c: s for c, s in pool.cosines.items() if c in pool.listed}
    return Fusion.over(cosines, {c: s for c, s in pool.bm25.items() if c in pool.listed}, dense_weight)


def base_scores(pool: Pool, fusion: Fusion) -> dict[int, float]:
    """The fused score of every chunk of the pool."""
    cosines = pool.cosines or {}
    return {chunk: fusion.score(cosines.get(chunk), pool.bm25.get(chunk)) for chunk in pool.records}


def scored(
    pool: Pool,
    fusion: Fusion,
    terms: Terms,
    tags: TagEffect | None,
    similarity: Callable[[float], float] | None,
) -> list[Candidate]:
    """All chunks of the pool with their scores, best first."""
    base = base_scores(pool, fusion)
    gains = neighbour_gains(base, pool.notes) if terms.smoothing else {}
    cosines = pool.cosines or {}
    found: list[Candidate] = []
    for chunk, record in pool.records.items():
        cosine, bm25 = cosines.get(chunk), pool.bm25.get(chunk)
        meaning, words = fusion.parts(cosine, bm25)
        parts = {"fused": base[chunk], "dense": meaning, "lexical": words}
        if cosine is not None:
            parts["cosine"] = cosine
        if bm25 is not None:
            parts["bm25"] = bm25
        extra = {
            "neighbour": gains.get(chunk, 0.0),
            "recency": recency(record.day, terms.today, record.notebook) if terms.priors else 0.0,
            "range": _range_gain(record.day, terms),
            "tags": tags.weight * tags.masses.get(record.note_id, 0.0) if tags is not None else 0.0,
        }
        parts.update({name: gain for name, gain in extra.items() if gain})
        found.append(
            Candidate(
                record,
                base[chunk] + sum(extra.values()),
                similarity(cosine) if similarity is not None and cosine is not None else None,
                parts,
                tags.reached.get(record.note_id, ()) if tags is not None else (),
            )
        )
    return ordered(found)


def _range_gain(day: date | None, terms: Terms) -> float:
    if in_any(day, terms.hard):
        return HARD_RANGE_WEIGHT
    return SOFT_RANGE_WEIGHT if in_any(day, terms.soft) else 0.0


def thinned(candidates: Iterable[Candidate], terms: Terms) -> tuple[list[Candidate], list[Dropped]]:
    """What ``::TimeDecay`` and ``::Truncate`` leave, in its new order, and what they take."""
    kept: list[Candidate] = []
    dropped: list[Dropped] = []
    for one in candidates:
        if terms.truncate is not None and one.similarity is not None and one.similarity < terms.truncate:
            dropped.append(Dropped(one.record.id, one.score, "truncate"))
            continue
        if terms.decay is not None:
            factor = terms.decay.factor(one.record.day, terms.today, one.record.tags)
            one.parts["decay"] = factor
            one.score *= factor
            if terms.decay.drops(factor, one.similarity):
                dropped.append(Dropped(one.record.id, one.score, "decay"))
                continue
        kept.append(one)
    return ordered(kept), dropped
