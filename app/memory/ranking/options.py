"""What the settings decide about ranking; asked for at each use, so that a reload counts at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Part = Literal["adaptive", "duplicates", "neighbours", "recency"]
"""What the retriever does besides fusing two searches: weights by the question, no repetition, smoothing inside a note,
new notes first."""


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """``dense_only``, ``raw_gate`` and ``n2025_tags`` are the switches of compatibility (memory.md, introduction).

    ``without`` are parts that are left out, so that it can be measured what each is worth.
    """

    dense_only: bool = False  # MemoryRetrieval=n2025: cosines alone, no smoothing, priors or diversity
    raw_gate: bool = False  # MemoryGate=n2025: the plain cosine is the gate's value
    n2025_tags: bool = False  # MemoryTagBoost=n2025: the six steps of 5.3 bend the question
    rerank_multiplier: float = 2.0
    tag_expand: int = 30
    without: frozenset[Part] = frozenset()

    def uses(self, part: Part) -> bool:
        """Whether a part takes part; none does with cosines alone."""
        return not self.dense_only and part not in self.without
