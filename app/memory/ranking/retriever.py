"""The interface of retrieval, for recall and for search tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.memory.ranking.requests import GateValue, RecallQuery, Retrieval, Retrieved


class Retrieving(Protocol):
    """Finds what answers a question; never raises for a model that is away, it then works by words alone."""

    async def retrieve(self, query: RecallQuery, retrieval: Retrieval) -> Retrieved:
        """The fragments for one declaration."""
        ...

    async def gate(self, query: RecallQuery, notebooks: Sequence[str]) -> list[GateValue]:
        """The gate of each notebook, for the gated forms (2.6)."""
        ...
