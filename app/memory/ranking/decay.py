"""``::TimeDecay``: what is old counts less, and too little is nothing (memory.md 2.5)."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date

from app.memory.ranking.priors import age_in_days

DEFAULT_HALF_LIFE = 30.0


@dataclass(frozen=True, slots=True)
class Decay:
    """A half-life in days, the least similarity that stays after decay, and tags to which it is limited.

    The factor multiplies the score that orders hits. The minimum is a similarity on the scale of gates and of
    ``::Truncate``, because the ordering score only compares candidates of one question with each other.
    """

    half_life: float
    minimum: float
    tags: frozenset[str] = frozenset()

    @classmethod
    def of(cls, half_life: float | None, minimum: float, tags: Collection[str]) -> Decay | None:
        """The decay of a declaration, None without one. A half-life that is no positive number is the usual one."""
        if half_life is None:
            return None
        days = half_life if math.isfinite(half_life) and half_life > 0 else DEFAULT_HALF_LIFE
        least = minimum if math.isfinite(minimum) else 0.0
        return cls(days, least, frozenset(tag.casefold() for tag in tags))

    def factor(self, day: date | None, today: date, tags: Collection[str]) -> float:
        """0.5^(age/half-life); 1 for notes without a date, and for those without one of the given tags."""
        if self.tags and self.tags.isdisjoint(tag.casefold() for tag in tags):
            return 1.0
        age = age_in_days(day, today)
        return 1.0 if age is None else float(0.5 ** (age / self.half_life))

    def drops(self, factor: float, similarity: float | None) -> bool:
        """Whether a hit is too little after its decay; without vectors its similarity counts as 1."""
        return factor < 1.0 and factor * (1.0 if similarity is None else similarity) < self.minimum
