"""Semantic groups: words that belong together pull the question towards their theme (memory.md 5.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.memory.embedders.embedder import Vector
from app.memory.enhance.documents import LiveDocument, words_in
from app.memory.ranking.query_vector import unit_vector
from app.memory.ranking.requests import GroupActivation
from app.memory.ranking.steps import GroupEffect
from app.memory.vectors.search import VectorSearch

FILE_NAME = "semantic_groups.json"
EDIT_FILE_NAME = "semantic_groups.edit.json"

WORDS_LIMIT = 500
"""Words of a group; further ones are not read."""

GROUPS_LIMIT = 500
ACTIVE_LIMIT = 20
"""Groups that may act on one question, the strongest."""

MOST_WEIGHT = 100.0


@dataclass(frozen=True, slots=True)
class SemanticGroup:
    """A theme: its words, those learned later, and its weight."""

    name: str
    words: tuple[str, ...]
    learned: tuple[str, ...]
    weight: float

    @property
    def all_words(self) -> tuple[str, ...]:
        """Words and learned words, each once."""
        return tuple(dict.fromkeys([*self.words, *self.learned]))

    @property
    def theme(self) -> str:
        """The text whose vector stands for the group."""
        return f"{self.name}相关主题：{', '.join(self.all_words)}"


def parsed_groups(document: Mapping[str, object]) -> dict[str, SemanticGroup] | None:
    """The groups of a file, None when it has no ``groups`` at all. What cannot be understood of one is left out."""
    groups = document.get("groups")
    if not isinstance(groups, dict):
        return None
    found: dict[str, SemanticGroup] = {}
    for name, entry in list(groups.items())[:GROUPS_LIMIT]:
        if not name.strip() or not isinstance(entry, dict | list):
            continue
        fields = entry if isinstance(entry, dict) else {"words": entry}
        words = words_in(fields.get("words"), WORDS_LIMIT)
        found[name] = SemanticGroup(
            name, words, words_in(fields.get("auto_learned"), WORDS_LIMIT), _weight(fields.get("weight", 1.0))
        )
    return found


def _weight(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 1.0
    return float(min(MOST_WEIGHT, max(0, value))) if not isinstance(value, float) or math.isfinite(value) else 1.0


def activated(groups: Mapping[str, SemanticGroup], question: str) -> list[tuple[SemanticGroup, GroupActivation]]:
    """The groups of which at least one word occurs in the text, without regard to case; the strongest first.

    Strength is matched words / all words (5.1).
    """
    text = question.casefold()
    found = []
    for group in groups.values():
        words = group.all_words
        matched = tuple(word for word in words if word.casefold() in text)
        if matched:
            found.append((group, GroupActivation(group.name, len(matched) / len(words), matched)))
    found.sort(key=lambda pair: -pair[1].strength)
    return found[:ACTIVE_LIMIT]


def boosted_vector(query: Vector, pulls: Sequence[tuple[float, Vector]]) -> Vector:
    """q' = (q + Σ p·v) / (1 + Σ p), p being weight times strength of each group (5.1, M5). Not brought to length 1."""
    total = 1.0 + sum(pull for pull, _ in pulls)
    mean = np.asarray(query, dtype=np.float64) / total
    for pull, vector in pulls:
        mean = mean + np.asarray(vector, dtype=np.float64) * (pull / total)
    return np.asarray(mean, dtype=np.float32)


class SemanticGroups:
    """The groups in force: those of the edit file where there is one, else those of the live file.

    In the reference the edit file decides which groups exist, and their words and weights, from the next start on; here
    at once. Neither file is written. Vectors are kept with the vector set by their text, so they are made anew when the
    words change. Implements ``GroupBoost``.
    """

    def __init__(self, folder: Path, vectors: VectorSearch, clock: Callable[[], float]) -> None:
        self._live = LiveDocument(folder / FILE_NAME, parsed_groups, clock)
        self._edited = LiveDocument(folder / EDIT_FILE_NAME, parsed_groups, clock)
        self._vectors = vectors

    @property
    def version(self) -> tuple[int, int]:
        """Changes when one of the files has; result caches carry it in their keys."""
        self.groups()
        return self._live.version, self._edited.version

    def groups(self) -> Mapping[str, SemanticGroup]:
        """All groups now."""
        live, edited = self._live.value(), self._edited.value()
        return (live or {}) if edited is None else edited

    async def boosted(self, question: str, vector: Vector | None) -> GroupEffect:
        """The activations, the vector they make of the question's, and their words for a search without vectors."""
        active = activated(self.groups(), question)
        if not active:
            return GroupEffect((), vector)
        activations = tuple(activation for _, activation in active)
        words = tuple(dict.fromkeys(word for group, _ in active for word in group.all_words))
        if vector is None:
            return GroupEffect(activations, None, words)
        themes = await self._vectors.of_texts([group.theme for group, _ in active])
        pulls = [
            (group.weight * activation.strength, theme)
            for (group, activation), theme in zip(active, themes, strict=True)
            if theme is not None and theme.shape == vector.shape and bool(np.all(np.isfinite(theme)))
        ]
        pulled = unit_vector(boosted_vector(vector, pulls))
        return GroupEffect(activations, vector if pulled is None else pulled, words)
