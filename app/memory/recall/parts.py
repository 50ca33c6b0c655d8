"""What recall works with, and the settings that it asks for at each use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from app.memory.index.records import NotebookState
from app.memory.ranking.requests import RecallQuery
from app.memory.ranking.retriever import Retrieving
from app.memory.recall.answer import ChainAnswer
from app.memory.time_words import WeekStart
from app.protocol.recall_chains import ChainCall


class Thinking(Protocol):
    """Goes through thinking chains (5.5)."""

    async def walk(self, call: ChainCall, query: RecallQuery) -> ChainAnswer:
        """The chain that is asked for, or that the question chooses; a stage that fails says so."""
        ...


@dataclass(frozen=True, slots=True)
class RecallParts:
    """Made at the first declaration: they need numpy.

    ``notebooks`` are those of the index; ``version`` changes when anything else changes that bends a search: files of
    groups and tags, the vectors. ``fresh`` waits a moment for what our own tools wrote just now.
    """

    retriever: Retrieving
    thinking: Thinking
    notebooks: Callable[[], Mapping[str, NotebookState]]
    version: Callable[[], object]
    fresh: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RecallRules:
    """The settings of now. ``seconds`` is the time of one declaration, ``model_seconds`` that of one that asks a model.

    ``time_n2025`` and ``tags_n2025`` are switches of compatibility.
    """

    declaration_tokens: int = 8_000
    request_tokens: int = 24_000
    seconds: float = 20.0
    model_seconds: float = 370.0
    dates: bool = True
    week_start: WeekStart = "monday"
    time_n2025: bool = False
    tags_n2025: bool = False
    media_limit: int = 5
    cache: bool = True
