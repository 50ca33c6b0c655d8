"""Vectors of questions that were asked a moment ago (memory.md 3.7)."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from app.errors import EmbeddingError
from app.memory.embedders.embedder import Signature, Vector
from app.memory.embedders.hashing import HashingEmbedder, hashed
from app.memory.embedders.query_cache import QueryCache
from tests.server import run


class Asked(HashingEmbedder):
    """The hashing embedder, which remembers what it was asked and can be told to wait or to fail."""

    def __init__(self, model: str = "hashing-1") -> None:
        self.signature = Signature(model, 512)
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = False

    async def embed_query(self, text: str) -> Vector:
        self.asked.append(text)
        await self.gate.wait()
        if self.fails:
            raise EmbeddingError("坏了 / broken")
        return await super().embed_query(text)


class Bench:
    def __init__(self, size: int = 3, ttl: float = 10.0) -> None:
        self.now, self.size = 0.0, size
        self.cache = QueryCache(max_size=lambda: self.size, ttl=lambda: ttl, timer=lambda: self.now)


def test_the_same_question_is_asked_once_until_its_time_is_over() -> None:
    async def main() -> None:
        bench, embedder = Bench(), Asked()
        first = await bench.cache.vector(embedder, "天气？")
        again = await bench.cache.vector(embedder, "  天气？\n")
        assert np.array_equal(first, hashed("天气？")) and again is first and embedder.asked == ["天气？"]
        with pytest.raises(ValueError, match="read-only"):
            first[0] = 1
        bench.now = 10.0
        await bench.cache.vector(embedder, "天气？")
        assert len(embedder.asked) == 2 and (bench.cache.hits, bench.cache.misses) == (1, 2)

    run(main())


def test_models_never_share_vectors() -> None:
    async def main() -> None:
        bench, one, other = Bench(), Asked(), Asked("another")
        await bench.cache.vector(one, "a")
        await bench.cache.vector(other, "a")
        assert other.asked == ["a"]

    run(main())


def test_it_keeps_no_more_than_its_size_and_the_used_ones_longest() -> None:
    async def main() -> None:
        bench, embedder = Bench(size=2), Asked()
        for text in ("a", "b", "a", "c", "a", "b"):
            await bench.cache.vector(embedder, text)
        assert embedder.asked == ["a", "b", "c", "b"] and len(bench.cache) == 2
        bench.size = 0
        await bench.cache.vector(embedder, "d")
        assert len(bench.cache) == 0

    run(main())


def test_of_many_that_ask_at_a_time_one_asks_the_model_and_leaving_harms_nobody() -> None:
    async def main() -> None:
        bench, embedder = Bench(), Asked()
        embedder.gate.clear()
        asking = [asyncio.create_task(bench.cache.vector(embedder, "a")) for _ in range(5)]
        await asyncio.sleep(0)
        asking[0].cancel()
        await asyncio.sleep(0)
        embedder.gate.set()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert all(isinstance(one, np.ndarray) for one in found[1:]) and embedder.asked == ["a"]

    run(main())


def test_a_failure_is_told_to_all_and_not_kept() -> None:
    async def main() -> None:
        bench, embedder = Bench(), Asked()
        embedder.fails = True
        found = await asyncio.gather(*(bench.cache.vector(embedder, "a") for _ in range(2)), return_exceptions=True)
        assert [type(one) for one in found] == [EmbeddingError] * 2
        embedder.fails = False
        await bench.cache.vector(embedder, "a")
        assert embedder.asked == ["a", "a"]

    run(main())


def test_a_stop_ends_what_is_being_asked() -> None:
    async def main() -> None:
        bench, embedder = Bench(), Asked()
        embedder.gate.clear()
        asking = asyncio.create_task(bench.cache.vector(embedder, "a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await bench.cache.stop()
        with pytest.raises(asyncio.CancelledError):
            await asking

    run(main())
