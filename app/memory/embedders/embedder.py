"""The one interface of all embedders (memory.md 8.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""One vector, shape (dimension,), float32, of length 1."""

Matrix = NDArray[np.float32]
"""Many of them, shape (rows, dimension)."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Mean and standard deviation of the cosine between texts that have nothing to do with each other (2.6, 8.2)."""

    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Signature:
    """What makes vectors comparable; two sets are of one kind only if all of it is equal (3.6, 8.5).

    ``model`` names the model and its version, ``policy`` what is done with a text before and with a vector after it,
    such as prefixes. ``dimension`` is 0 while nobody has asked the model yet.
    """

    model: str
    dimension: int
    policy: str = ""

    def key(self) -> str:
        """The signature as one line of text, for files and tables."""
        return f"{self.model}|{self.dimension}|{self.policy}"


@dataclass(frozen=True, slots=True)
class Embedded:
    """The answer for many texts, by the ids that the caller gave: a vector, or why there is none.

    ``retry_after`` is how many seconds the embedder asks to be left alone (rate or daily limit), 0 for none.
    """

    vectors: Mapping[str, Vector]
    failed: Mapping[str, str] = field(default_factory=dict)
    retry_after: float = 0.0


class Embedder(Protocol):
    """Makes vectors of length 1. One object serves queries and passages, from many tasks at once."""

    @property
    def signature(self) -> Signature:
        """Which vectors it makes; changes only with the settings."""
        ...

    @property
    def max_tokens(self) -> int:
        """Longest text, in estimated tokens; longer ones are cut at the end by the embedder."""
        ...

    @property
    def paid(self) -> bool:
        """Whether texts may cost money, so that a person confirms before all of them are embedded anew."""
        ...

    @property
    def calibration(self) -> Calibration:
        """How near unrelated texts are to each other under this model."""
        ...

    async def embed_query(self, text: str) -> Vector:
        """The vector of a question. Raises EmbeddingError; never falls back to another model by itself."""
        ...

    async def embed_passages(self, texts: Mapping[str, str]) -> Embedded:
        """Vectors of passages by id; never raises for single texts, so one bad text never costs the others (11.2)."""
        ...

    async def start(self) -> None:
        """Make it ready, without work that a first use can do."""
        ...

    async def stop(self) -> None:
        """End processes and connections of its own."""
        ...
