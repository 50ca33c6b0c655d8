"""What the packages above give to the retriever: semantic groups and the graph of tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from app.memory.embedders.embedder import Vector
from app.memory.ranking.requests import GroupActivation


@dataclass(frozen=True, slots=True)
class GroupEffect:
    """The groups that fired, what the question's vector has become (None without one), and the words they bring."""

    activations: tuple[GroupActivation, ...]
    vector: Vector | None
    words: tuple[str, ...] = ()


class GroupBoost(Protocol):
    """Semantic groups (5.1)."""

    async def boosted(self, question: str, vector: Vector | None) -> GroupEffect:
        """The effect of the groups that the user's text activates."""
        ...


@dataclass(frozen=True, slots=True)
class TagEffect:
    """What the tags do: mass of notes (0 to 1, the greatest first), the tags at work with their weights, and which of
    them reached a note.

    ``vector`` is a bent question (compat n2025) or None; ``weight`` is the share of the mass in the score.
    """

    masses: Mapping[int, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    reached: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    vector: Vector | None = None
    weight: float = 0.0


class TagBoost(Protocol):
    """The walk over the graph of tags and notes (11.13), or the six steps of the reference (5.3)."""

    async def effect(
        self, question: str, vector: Vector | None, beta: float | None, found: Sequence[tuple[int, float]]
    ) -> TagEffect:
        """The effect for a question. ``found`` are notes that answer it already, with scores from 0 to 1.

        ``beta`` None lets the question decide (D5 of 10.1).
        """
        ...
