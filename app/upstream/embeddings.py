"""Vectors of texts, from the embedding model of the upstream (spec 3.9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import orjson

from app.errors import BadRequestError, UpstreamBrokenError, UpstreamStatusError, both
from app.upstream.client import UpstreamClient

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
        body = orjson.dumps({"model": name, "input": [_sendable(text) for text in listed]})
        async with await self._upstream().request("POST", EMBEDDINGS_PATH, body=body, headers={}, model=name) as reply:
            if reply.status != 200:
                raise UpstreamStatusError(
                    reply.status, await reply.read_all(ERROR_BYTES), content_type=reply.content_type
                )
            return _vectors(await reply.read_all(ANSWER_BYTES), len(listed))


def _sendable(text: str) -> str:
    """Half surrogates have no UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _vectors(data: bytes, count: int) -> list[list[float]]:
    try:
        entries = orjson.loads(data)["data"]
        vectors: dict[int, list[float]] = {}
        for place, entry in enumerate(entries):
            vectors[entry.get("index", place)] = [float(number) for number in entry["embedding"]]
        ordered = [vectors[place] for place in range(count)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UpstreamBrokenError(
            both(f"上游的向量回答无法读取：{error!r}", f"the upstream's answer holds no {count} vectors: {error!r}")
        ) from error
    if any(not math.isfinite(number) for vector in ordered for number in vector):
        raise UpstreamBrokenError(both("上游的向量含有无效数值", "the upstream's vectors hold what is no number"))
    return ordered
