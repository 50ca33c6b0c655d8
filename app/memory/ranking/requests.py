"""What is asked of the retriever, and what it answers with its reasons (memory.md 2.5, 11.29)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime

from app.memory.index.records import ChunkRecord


@dataclass(frozen=True, slots=True)
class DateRange:
    """Whole days, both ends included. ``soft`` only raises what lies inside (4.2)."""

    first: date
    last: date
    soft: bool = False


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """The question of one turn (2.3, 11.18); made once, used by all declarations. Texts are cleaned.

    ``ranges`` are the time words of the user's text, ``soft_ranges`` those of the model's.
    """

    user: str
    assistant: str
    now: datetime
    previous_user: str = ""
    ranges: tuple[DateRange, ...] = ()
    soft_ranges: tuple[DateRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The modifiers of one declaration as far as they are about ranking (2.5).

    ``k`` is final (dynamic k times multiplier). None switches a step off where nothing else is said; ``tag_boost`` None
    with ``tags`` True means a weight chosen by the query (D5 of memory.md 10.1). ``truncate`` is a least similarity
    (calibrated like gates), ``max_tokens`` the budget of this declaration.
    """

    notebooks: tuple[str, ...]
    k: int
    max_tokens: int
    time: bool = False
    time_share: float = 0.2
    group: bool = False
    tags: bool = False
    tag_boost: float | None = None
    tag_rerank: float | None = None
    rerank: bool = False
    rerank_fusion: float | None = None  # weight of the reranker in RRF (::Rerank+0.7)
    bm25: float | None = None
    bm25_bodies: bool = True
    decay_half_life: float | None = None  # days
    decay_minimum: float = 0.5
    decay_tags: tuple[str, ...] = ()
    truncate: float | None = None
    expand: bool = False
    associate: bool = False
    authors: tuple[str, ...] = ()  # filters of the search tools (6.2)
    tags_all: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """One remembered fragment. ``score`` orders hits of one answer; ``parts`` says what it is made of.

    ``source`` is ``rag`` (meaning and words), ``time`` (found by a time word) or ``associate``. ``text`` is what is
    injected: the chunk, or the whole note with ``::Expand``. ``similarity`` is the cosine calibrated like gate values
    (plain with ``MemoryGate=n2025``), None without vectors.
    """

    chunk: ChunkRecord
    text: str
    tokens: int
    score: float
    source: str
    similarity: float | None
    parts: Mapping[str, float] = field(default_factory=dict)
    matched_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that is not among the hits, and why: ``budget``, ``duplicate``, ``truncate``, ``decay``, ``k`` …"""

    chunk_id: int
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class GroupActivation:
    """A semantic group that fired (5.1); ``strength`` is 0 to 1."""

    name: str
    strength: float
    matched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The answer, best first; the time path's hits come in ``hits`` with source ``time``, newest first (2.7)."""

    hits: tuple[Hit, ...]
    dropped: tuple[Dropped, ...] = ()
    groups: tuple[GroupActivation, ...] = ()
    tags: Mapping[str, float] = field(default_factory=dict)
    lexical_only: bool = False
    notes: tuple[str, ...] = ()  # what a person should know, English


@dataclass(frozen=True, slots=True)
class GateValue:
    """How near a notebook is to the question (2.6): 0 to 1 where 0.6 means three deviations above chance.

    ``by`` says which signal was the strongest: ``name``, ``tags``, ``centroid``, ``chunk`` (the nearest one, and the
    words that are found together); ``raw`` is its cosine. Without vectors it is ``words``, and ``raw`` the part of
    the question's words that one chunk has.
    """

    notebook: str
    value: float
    raw: float
    by: str
    threshold: float

    @property
    def open(self) -> bool:
        """Whether gated declarations are filled."""
        return self.value >= self.threshold
