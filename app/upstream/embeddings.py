"""Vectors of texts, from the embedding model of the upstream (spec 3.9)."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from app.errors import BadRequestError, UpstreamBrokenError, UpstreamStatusError, both
from app.upstream.client import UpstreamClient
from app.upstream.retry import parse_retry_after

EMBEDDINGS_PATH = "/v1/embeddings"
ANSWER_BYTES = 256 * 1024 * 1024
"""Largest answer: some thousands of vectors written as decimals."""
TEXTS_LIMIT = 2048
"""Most texts of one request, which is also what the usual services take."""
ERROR_BYTES = 64 * 1024


class Embeddings:
    """Asks for vectors. Callables give what holds now: the client, and the model's name, empty when none is set."""

    def __init__(self, upstream: Callable[[], UpstreamClient], default_model: Callable[[], str]) -> None:
        self._upstream = upstream
        self._default_model = default_model

    async def __call__(self, texts: Sequence[str], *, model: str | None = None) -> list[list[float]]:
        """One vector for each text, in their order.

        Raises BadRequestError when there is no model or too many texts, and the upstream's errors.
        """
        name = model or self._default_model()
        if not name:
            raise BadRequestError(
                both("未设置向量模型（WhitelistEmbeddingModel）", "no embedding model is set (WhitelistEmbeddingModel)")
            )
        listed = list(texts)
        if not all(isinstance(text, str) for text in listed) or len(listed) > TEXTS_LIMIT:
            raise BadRequestError(
                both(f"最多 {TEXTS_LIMIT} 个文本，且必须是字符串", f"at most {TEXTS_LIMIT} texts, and all strings")
            )
        if not listed:
            return []
        vectors, faults = read_vectors(await self.answer(listed, name), len(listed))
        if faults:
            place, fault = min(faults.items())
            raise UpstreamBrokenError(both(f"第 {place + 1} 个文本：{fault}", f"text {place + 1}: {fault}"))
        return [vectors[place] for place in range(len(listed))]

    async def answer(self, texts: Sequence[str], model: str) -> bytes:
        """The body of the answer for these texts, for ``read_vectors``. One attempt; raises the upstream's errors."""
        body = orjson.dumps({"model": model, "input": [_sendable(text) for text in texts]})
        async with await self._upstream().request("POST", EMBEDDINGS_PATH, body=body, headers={}, model=model) as reply:
            if reply.status != 200:
                raise UpstreamStatusError(
                    reply.status,
                    await reply.read_all(ERROR_BYTES),
                    content_type=reply.content_type,
                    retry_after=parse_retry_after(reply.headers.get("Retry-After"), time.time()),
                )
            return await reply.read_all(ANSWER_BYTES)


def _sendable(text: str) -> str:
    """Half surrogates have no UTF-8."""
    return text.encode("utf-8", "replace").decode()


def read_vectors(data: bytes, count: int) -> tuple[dict[int, list[float]], dict[int, str]]:
    """What an answer says of ``count`` texts: vectors by place, and what is wrong with the others.

    Vectors belong to the text that their ``index`` names, whatever their order; where no entry has one and none is
    missing, the order is the texts'. A place that is named twice has no vector: nobody knows which is its own. Raises
    UpstreamBrokenError for what is no answer at all.
    """
    try:
        entries = _json(data)["data"]
        if not isinstance(entries, list):
            raise TypeError("data is no list")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UpstreamBrokenError(
            both(f"上游的向量回答无法读取：{error!r}", f"the upstream's answer holds no vectors: {error!r}")
        ) from error
    placed = len(entries) == count and not any(isinstance(entry, dict) and "index" in entry for entry in entries)
    found: dict[int, list[float]] = {}
    faults: dict[int, str] = {}
    for number, entry in enumerate(entries):
        place = number if placed else entry.get("index") if isinstance(entry, dict) else None
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < count:
            continue
        if place in found or place in faults:
            found.pop(place, None)
            faults[place] = both("有多个向量", "there are several vectors")
            continue
        vector = _numbers(entry)
        if isinstance(vector, str):
            faults[place] = vector
        else:
            found[place] = vector
    for place in range(count):
        if place not in found and place not in faults:
            faults[place] = both("没有向量", "there is no vector")
    return found, faults


def _json(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(data)  # takes NaN and numbers without end, which then are faults of one text only


def _numbers(entry: object) -> list[float] | str:
    """The vector of an entry, or what is wrong with it."""
    try:
        vector = [float(number) for number in entry["embedding"]]  # type: ignore[index]
    except (ValueError, KeyError, TypeError, OverflowError):
        return both("向量无法读取", "the vector cannot be read")
    if not vector or not all(map(math.isfinite, vector)):
        return both("向量含有无效数值", "the vector holds what is no number")
    return vector
