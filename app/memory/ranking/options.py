"""What the settings decide about ranking; asked for at each use, so that a reload counts at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """``dense_only``, ``raw_gate`` and ``n2025_tags`` are the switches of compatibility (memory.md, introduction)."""

    dense_only: bool = False  # MemoryRetrieval=n2025: cosines alone, no smoothing, priors or diversity
    raw_gate: bool = False  # MemoryGate=n2025: the plain cosine is the gate's value
    n2025_tags: bool = False  # MemoryTagBoost=n2025: the six steps of 5.3 bend the question
    rerank_multiplier: float = 2.0
    tag_expand: int = 30
