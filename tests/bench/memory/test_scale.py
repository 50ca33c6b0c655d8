"""Search in many vectors is measured as a server has them, and a home for such a server is made whole."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from app.memory.embedders.choice import OFF, Choice
from app.memory.embedders.hashing import HashingEmbedder
from app.memory.embedders.query_cache import QueryCache
from app.memory.embedders.roster import Embedders
from app.memory.index.memory_index import INDEX_FILE, MemoryIndex
from app.memory.vectors.sets import VectorSets
from bench.memory.million import fill_index, fill_vectors
from bench.memory.scale import Clusters, make, measure_sets


def test_the_sets_of_a_server_are_measured_without_what_other_engines_leave(tmp_path: Path) -> None:
    make(tmp_path, 1000)
    figures = asyncio.run(measure_sets(tmp_path, 1000))
    assert (figures["count"], figures["recall@10"]) == (1000, 1.0)


def test_a_home_of_many_chunks_has_a_vector_for_each(tmp_path: Path) -> None:
    count = 200
    path, matrix = tmp_path / INDEX_FILE, tmp_path / "matrix.f32"
    matrix.write_bytes(b"".join(block.tobytes() for block in Clusters().blocks(count)))

    async def test() -> None:
        await fill_index(path, count)
        await fill_vectors(path.parent, matrix, count)
        index = MemoryIndex(path)
        await index.open()
        embedders = Embedders(lambda: Choice(OFF), lambda _: HashingEmbedder())
        queries = QueryCache(max_size=lambda: 0, ttl=lambda: 0.0, timer=time.monotonic)
        sets = VectorSets(path.parent, index, embedders, queries)
        await sets.open()
        assert sum(book.chunks for book in index.notebooks().values()) == count
        assert len(sets.with_vectors()) == sets.places() == count
        assert not len(sets.missing)
        assert sets.serving is not None
        found = await sets.nearest(sets.serving.rows[7].copy(), None, 1)
        assert [chunk for chunk, _ in found] == [8]
        await sets.stop()
        await index.stop()

    asyncio.run(test())
