"""What ranking sees of the vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from app.memory.embedders.embedder import Calibration, Matrix, Vector


class VectorSearch(Protocol):
    """The serving vector set. Answers are empty while there is none, so that recall goes on by words alone.

    Coroutines compute in threads. ``notebooks`` None means all.
    """

    def ready(self) -> bool:
        """Whether a set is serving and the embedder of the settings made it."""
        ...

    def calibration(self) -> Calibration:
        """Of the serving set: measured where it is large enough, else the embedder's own."""
        ...

    async def embed_query(self, text: str) -> Vector | None:
        """The vector of a question by the model of the serving set, from a cache where it is there.

        None when it cannot be had now; the reason is logged and shown in the state.
        """
        ...

    async def nearest(
        self, query: Vector, notebooks: Iterable[str] | None, limit: int, *, among: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """The nearest chunks, best first: (chunk id, cosine). ``among`` restricts them to these chunk ids."""
        ...

    async def cosines(self, query: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Exact cosines of given chunks; those without a vector are missing."""
        ...

    async def of_chunks(self, chunk_ids: Sequence[int]) -> tuple[list[int], Matrix]:
        """The vectors of given chunks: the ids that have one, and a matrix with a row for each of them."""
        ...

    async def of_notebook(self, notebook: str, limit: int) -> Matrix:
        """At most ``limit`` vectors of a notebook, evenly taken; for centroids (2.6)."""
        ...

    async def of_texts(self, texts: Sequence[str]) -> list[Vector | None]:
        """Vectors of short texts of ours (names, tags, themes) as passages, kept in the set by their SHA-256."""
        ...

    async def nearest_tags(self, query: Vector, limit: int) -> list[tuple[str, float]]:
        """The nearest tags: (tag as displayed, cosine), best first."""
        ...
