"""A rerank service: ``POST <RerankUrl>/v1/rerank`` (memory.md 2.8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import httpx
import orjson

from app.memory.embedders.rerankers.reranker import batch_tokens, batches, shortened, sound_scores

_log = logging.getLogger(__name__)

RERANK_PATH = "/v1/rerank"
ANSWER_BYTES = 4 * 1024 * 1024
BATCH_SECONDS = 20.0
RUNNING = 4
"""Batches at a time."""
MAX_BATCHES = 64
"""Of one call; documents beyond them are not scored."""


@dataclass(frozen=True, slots=True)
class RerankService:
    """Where the service is, its key and model, and the most tokens of a batch."""

    url: str
    key: str = field(repr=False)
    model: str
    batch_tokens: int = 30_000


class RemoteReranker:
    """Asks the service of now; ``http`` is a client that follows no redirects."""

    def __init__(self, service: Callable[[], RerankService], http: httpx.AsyncClient) -> None:
        self._service = service
        self._http = http
        self._places = asyncio.Semaphore(RUNNING)

    async def rerank(self, query: str, documents: Sequence[str]) -> Mapping[int, float]:
        """Scores by place. The documents of a batch that fails have none."""
        service = self._service()
        # A question that fills the batch by itself would leave no room for what is to be compared with it.
        query = shortened(query, service.batch_tokens // 2)
        parts = list(batches(query, documents, service.batch_tokens))
        if len(parts) > MAX_BATCHES:
            _log.warning("rerank: %d documents are too many, the last ones stay as they are", len(documents))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._batch(service, query, part)) for part in parts[:MAX_BATCHES]]
        scores: dict[int, float] = {}
        for task in tasks:
            scores.update(task.result())
        return scores

    async def _batch(self, service: RerankService, query: str, batch: Sequence[tuple[int, str]]) -> dict[int, float]:
        body = {"model": service.model, "query": query, "documents": [text for _, text in batch], "top_n": len(batch)}
        try:
            data = orjson.dumps(body)
        except orjson.JSONEncodeError:  # half surrogates have no UTF-8
            body = {**body, "query": _whole(query), "documents": [_whole(text) for _, text in batch]}
            data = orjson.dumps(body)
        try:
            async with self._places, asyncio.timeout(BATCH_SECONDS):
                answer = await self._answer(service, data)
            results = orjson.loads(answer)["results"]
            entries = [(one["index"], one["relevance_score"]) for one in results if _is_result(one)]
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, KeyError, TypeError) as error:
            # Never the words of the error: they may hold the address, and the address a key.
            _log.warning(
                "rerank: a batch of %d documents (about %d tokens) was not scored: %s",
                len(batch),
                sum(batch_tokens(text) for _, text in batch),
                _reason(error),
            )
            return {}
        return sound_scores(entries, [place for place, _ in batch])

    async def _answer(self, service: RerankService, data: bytes) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if service.key:
            headers["Authorization"] = f"Bearer {service.key}"
        url = service.url.rstrip("/").removesuffix("/v1") + RERANK_PATH
        async with self._http.stream("POST", url, content=data, headers=headers) as response:
            if response.status_code != 200:
                raise _StatusError(response.status_code)
            blocks = bytearray()
            async for block in response.aiter_bytes():
                blocks += block
                if len(blocks) > ANSWER_BYTES:
                    raise ValueError("the answer is too large")
            return bytes(blocks)


class _StatusError(ValueError):
    """The service answered with another status than 200."""


def _reason(error: Exception) -> str:
    return f"status {error}" if isinstance(error, _StatusError) else type(error).__name__


def _is_result(one: object) -> bool:
    return isinstance(one, dict) and "index" in one and "relevance_score" in one


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
