"""One method on one set: what every question got, and what that says together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from bench.memory.baselines import OPENS_AT, System
from bench.memory.metrics import Gate, gate, ndcg, recall, reciprocal_rank, tokens
from bench.memory.sets import Asked, RetrievalSet

DEPTH = 20
"""So many passages are asked for, enough for ten documents of which some are two of them; MRR looks no further."""
INJECTED = 5
"""Tokens are counted over as many passages, the usual number of recalled ones."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method found for one question. Without an answer in the set the four measures are None."""

    asked: Asked
    recall_5: float | None
    recall_10: float | None
    reciprocal_rank: float | None
    ndcg_10: float | None
    milliseconds: float
    tokens: int
    gate: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """All answers of a method to the questions of a set, and how long it took to take in the passages."""

    method: str
    set_name: str
    answers: tuple[Answer, ...]
    build_seconds: float

    def mean(self, measure: str, kinds: Sequence[str] | None = None) -> float:
        """The mean of one measure over the questions that have an answer, of these kinds or of all."""
        return fmean(self.values(measure, kinds))

    def values(self, measure: str, kinds: Sequence[str] | None = None) -> list[float]:
        """One measure of each question that has an answer, in the order of the questions."""
        chosen = [one for one in self.answers if one.asked.gold and (kinds is None or one.asked.kind in kinds)]
        return [float(getattr(one, measure)) for one in chosen]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of questions that have answers, in the order of the set."""
        return tuple(dict.fromkeys(one.asked.kind for one in self.answers if one.asked.gold))

    @property
    def median_milliseconds(self) -> float:
        """Time of one search, without the call of the embedding model."""
        return median(one.milliseconds for one in self.answers)

    @property
    def mean_tokens(self) -> float:
        """Tokens of what the first passages would put into a prompt."""
        return fmean(one.tokens for one in self.answers)

    def gate(self) -> Gate | None:
        """How well the gate told questions with and without an answer apart; None for a method that has no gate."""
        if any(one.gate is None for one in self.answers) or all(one.asked.gold for one in self.answers):
            return None
        opened = [one.gate is not None and one.gate >= OPENS_AT for one in self.answers]
        return gate(opened, [bool(one.asked.gold) for one in self.answers])


def measure(system: System, measured: RetrievalSet) -> Measured:
    """Build and ask everything, one question after the other."""
    begun = time.perf_counter()
    system.build(measured.corpora)
    built = time.perf_counter() - begun
    texts = {one.id: one.text for passages in measured.corpora.values() for one in passages}
    documents = {one.id: one.document for passages in measured.corpora.values() for one in passages}
    answers = []
    for asked in measured.questions:
        begun = time.perf_counter()
        found = system.search(asked.corpus, asked.text, measured.now, DEPTH)
        spent = 1000 * (time.perf_counter() - begun)
        ids = found.ids
        if measured.by_document:
            ids = tuple(dict.fromkeys(documents[name] for name in ids))
        answers.append(
            Answer(
                asked,
                recall(ids, asked.gold, 5) if asked.gold else None,
                recall(ids, asked.gold, 10) if asked.gold else None,
                reciprocal_rank(ids, asked.gold) if asked.gold else None,
                ndcg(ids, asked.gold, 10) if asked.gold else None,
                spent,
                sum(tokens(texts[name]) for name in found.ids[:INJECTED]),
                found.gate,
            )
        )
    return Measured(system.name, measured.name, tuple(answers), built)
