"""Vectors of questions that were asked a moment ago (memory.md 3.7)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

from app.memory.embedders.embedder import Embedder, Vector

Key = tuple[str, bytes]


class QueryCache:
    """Keeps ``max_size`` vectors for ``ttl`` seconds each, the least used ones go first; 0 keeps none.

    Of several that ask for one text at a time, one asks the model. Vectors of different signatures never meet.
    """

    def __init__(self, *, max_size: Callable[[], int], ttl: Callable[[], float], timer: Callable[[], float]) -> None:
        self._max_size = max_size
        self._ttl = ttl
        self._timer = timer
        self._kept: OrderedDict[Key, tuple[float, Vector]] = OrderedDict()
        self._asking: dict[Key, asyncio.Task[Vector]] = {}
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._kept)

    async def vector(self, embedder: Embedder, text: str) -> Vector:
        """The vector of this question, not to be changed. Raises EmbeddingError, which is not kept."""
        text = text.strip()
        signature = embedder.signature
        key = f"{signature.model}|{signature.policy}", sha256(text.encode("utf-8", "replace")).digest()
        kept = self._kept.get(key)
        if kept is not None and self._timer() < kept[0] + self._ttl():
            self._kept.move_to_end(key)
            self.hits += 1
            return kept[1]
        self.misses += 1
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._asked(key, embedder, text))
            task.add_done_callback(lambda done: self._forget(key, done))
        # Whoever goes away leaves the question to the others, and its vector to the next.
        return await asyncio.shield(task)

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()

    async def stop(self) -> None:
        """End what is being asked."""
        for task in list(self._asking.values()):
            task.cancel()
        if self._asking:
            await asyncio.wait(list(self._asking.values()))

    async def _asked(self, key: Key, embedder: Embedder, text: str) -> Vector:
        vector = await embedder.embed_query(text)
        vector.setflags(write=False)
        self._kept[key] = self._timer(), vector
        self._kept.move_to_end(key)
        while len(self._kept) > max(0, self._max_size()):
            self._kept.popitem(last=False)
        return vector

    def _forget(self, key: Key, done: asyncio.Task[Vector]) -> None:
        self._asking.pop(key, None)
        if not done.cancelled():
            done.exception()  # if nobody is left to hear it
