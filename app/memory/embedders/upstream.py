"""The embedding model of the upstream (memory.md 3.4, 8.5, 11.2): batches, retries, one bad text costs only itself."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from app.errors import EmbeddingError, UpstreamBrokenError, UpstreamStatusError, VcpError, both
from app.memory.embedders.activity import Activity
from app.memory.embedders.calibration import NEUTRAL
from app.memory.embedders.cutting import cut
from app.memory.embedders.embedder import Calibration, Embedded, Signature, Vector
from app.memory.embedders.use_limits import UseLimits
from app.protocol.token_estimate import estimated_tokens
from app.upstream.embeddings import read_vectors
from app.upstream.retry import RetryPolicy

_log = logging.getLogger(__name__)

BATCH_TEXTS = 100
SAFE_SHARE = 0.85
"""Of ``WhitelistEmbeddingModelMaxToken``: tokens are estimated."""
EXTRA_REQUESTS = 40
"""Most requests for the parts of one batch that failed, until its bad texts are found."""
QUERY_SECONDS = 30.0
LONGEST_QUERY_WAIT = 5.0
"""Seconds that a query waits for a limit; a turn is waiting for it."""

PASSAGE_RETRIES = RetryPolicy(attempts=4, delay_ms=2000)
QUERY_RETRIES = RetryPolicy(attempts=3, delay_ms=500)

_SPLIT_STATUSES = frozenset({400, 413, 422})
"""What an API says when one of the texts does not please it."""
REFUSED_SECONDS = 60.0
"""How long an API is left alone that refused or did not answer, where it names no time itself."""


class Asking(Protocol):
    """One request for vectors, such as ``Embeddings.answer``; raises the upstream's errors."""

    def __call__(self, texts: Sequence[str], model: str, /) -> Awaitable[bytes]: ...


@dataclass(frozen=True, slots=True)
class UpstreamRules:
    """What the settings say: tokens of the longest text, batches at a time, the dimension that was announced or 0."""

    max_tokens: int = 8000
    concurrency: int = 5
    dimension: int = 0


class UpstreamEmbedder:
    """Asks the upstream. ``limits`` are counted before each request; ``paid`` tells whether somebody has to pay."""

    def __init__(
        self,
        model: str,
        ask: Asking,
        *,
        rules: Callable[[], UpstreamRules],
        limits: UseLimits,
        paid: Callable[[], bool] = lambda: True,
        calibration: Calibration = NEUTRAL,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._name = model
        self._ask = ask
        self._rules = rules
        self._limits = limits
        self._paid = paid
        self._sleep = sleep
        self._dimension = 0
        self._warned = 0
        self.calibration = calibration
        self.activity = Activity()

    @property
    def signature(self) -> Signature:
        """The model, and its dimension as soon as it has answered once."""
        return Signature(f"upstream:{self._name}", self._dimension, "unit")

    @property
    def max_tokens(self) -> int:
        """The safe part of what the settings name."""
        return max(1, int(SAFE_SHARE * self._rules().max_tokens))

    @property
    def paid(self) -> bool:
        """Whether somebody has to pay."""
        return self._paid()

    async def start(self) -> None:
        """Nothing: the connection is the upstream client's."""

    async def stop(self) -> None:
        """Nothing."""

    async def embed_query(self, text: str) -> Vector:
        """The vector of a question. Raises EmbeddingError."""
        try:
            text = cut(text.strip(), self.max_tokens)
            if not text:
                raise EmbeddingError(_empty())
            async with asyncio.timeout(QUERY_SECONDS):
                vectors, faults = await self._sent([text], QUERY_RETRIES, LONGEST_QUERY_WAIT)
            if 0 not in vectors:
                raise EmbeddingError(faults[0])
            self.activity.queries += 1
            return vectors[0]
        except TimeoutError as error:
            self.activity.failures += 1
            raise EmbeddingError(
                both("向量请求超时", f"no vector within {QUERY_SECONDS:g} s"), retry_after=REFUSED_SECONDS
            ) from error
        except EmbeddingError:
            self.activity.failures += 1
            raise
        except VcpError as error:
            self.activity.failures += 1
            raise EmbeddingError(error.message, retry_after=_retry_after(error)) from error

    async def embed_passages(self, texts: Mapping[str, str]) -> Embedded:
        """Vectors of passages, in batches, several at a time."""
        vectors: dict[str, Vector] = {}
        failed: dict[str, str] = {}
        pauses: list[float] = []
        batches = self._batches(texts, failed)

        async def work() -> None:
            for batch in batches:  # all workers draw from the one iterator
                if pauses:
                    failed.update(dict.fromkeys(batch, _left_alone()))
                else:
                    await self._batch(batch, vectors, failed, pauses)

        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, self._rules().concurrency)):
                group.create_task(work())
        self.activity.passages += len(vectors)
        self.activity.failures += len(failed)
        return Embedded(vectors, failed, max(pauses, default=0.0))

    def _batches(self, texts: Mapping[str, str], failed: dict[str, str]) -> Iterator[dict[str, str]]:
        batch: dict[str, str] = {}
        limit = self.max_tokens
        used = 0
        for name, whole in texts.items():
            text = cut(whole.strip(), limit)
            if not text:
                failed[name] = _empty()
                continue
            tokens = estimated_tokens(text)
            if batch and (len(batch) >= BATCH_TEXTS or used + tokens > limit):
                yield batch
                batch, used = {}, 0
            batch[name] = text
            used += tokens
        if batch:
            yield batch

    async def _batch(
        self, batch: Mapping[str, str], vectors: dict[str, Vector], failed: dict[str, str], pauses: list[float]
    ) -> None:
        """Embed a batch; what fails is asked again in halves until the bad texts stand alone."""
        parts, budget = [list(batch)], EXTRA_REQUESTS
        while parts:
            names = parts.pop()
            try:
                found, faults = await self._sent([batch[name] for name in names], PASSAGE_RETRIES, None)
            except VcpError as error:
                if not _blames_a_text(error):
                    pauses.append(_retry_after(error))
                    for part in (names, *parts):
                        failed.update(dict.fromkeys(part, error.message))
                    return
                found, faults = {}, dict.fromkeys(range(len(names)), error.message)
            vectors.update({names[place]: vector for place, vector in found.items()})
            bad = [names[place] for place in sorted(faults)]
            if len(names) > 1 and bad and budget >= 2:
                budget -= 2
                middle = (len(bad) + 1) // 2
                parts += [part for part in (bad[:middle], bad[middle:]) if part]
            else:
                failed.update({names[place]: fault for place, fault in faults.items()})

    async def _sent(
        self, texts: Sequence[str], retries: RetryPolicy, longest_wait: float | None
    ) -> tuple[dict[int, Vector], dict[int, str]]:
        """Vectors and faults by place. Raises VcpError when there was no answer after all attempts."""
        tokens = sum(map(estimated_tokens, texts))
        attempt = 1
        while True:
            await self._admitted(tokens, longest_wait)
            began = time.monotonic()
            try:
                self.activity.requests += 1
                data = await self._ask(texts, self._name)
                break
            except UpstreamStatusError as error:
                decision = retries.after_status(attempt, error.upstream_status, error.retry_after)
                too_long = longest_wait is not None and (decision.wait or 0.0) > longest_wait
                if decision.wait is None or too_long:
                    raise
                await self._sleep(decision.wait)
                attempt += 1
            finally:
                self.activity.seconds += time.monotonic() - began
        rows, faults = await asyncio.to_thread(_rows, data, len(texts))
        return self._checked(rows, faults), faults

    async def _admitted(self, tokens: int, longest_wait: float | None) -> None:
        while (wait := await self._limits.admit(tokens)) > 0:
            if longest_wait is not None and wait > longest_wait:
                raise EmbeddingError(
                    both("已达到每分钟的向量限额", "the limit of embeddings in a minute is reached"), retry_after=wait
                )
            await self._sleep(wait)

    def _checked(self, rows: dict[int, Vector], faults: dict[int, str]) -> dict[int, Vector]:
        """The rows of the right dimension, which the first answer tells; the others become faults."""
        if rows and not self._dimension:
            self._dimension = Counter(len(row) for row in rows.values()).most_common(1)[0][0]
        announced = self._rules().dimension
        if rows and announced and announced not in (self._dimension, self._warned):
            self._warned = announced
            _log.warning(
                "VECTORDB_DIMENSION is %d, but the model %s makes vectors of %d numbers; these are what counts",
                announced,
                self._name,
                self._dimension,
            )
        for place in [place for place, row in rows.items() if len(row) != self._dimension]:
            faults[place] = both(
                f"向量有 {len(rows[place])} 维，应为 {self._dimension} 维",
                f"the vector has {len(rows[place])} numbers and not {self._dimension}",
            )
            del rows[place]
        return rows


def _rows(data: bytes, count: int) -> tuple[dict[int, Vector], dict[int, str]]:
    """The vectors of an answer, of length 1. Raises UpstreamBrokenError. Takes its time: not for the event loop."""
    found, faults = read_vectors(data, count)
    rows: dict[int, Vector] = {}
    for place, numbers in found.items():
        values = np.array(numbers, dtype=np.float64)
        largest = float(np.abs(values).max())
        if largest == 0.0:
            faults[place] = both("向量全为零", "all numbers of the vector are zero")
            continue
        values /= largest  # squares of huge or tiny numbers have no room
        rows[place] = (values / np.linalg.norm(values)).astype(np.float32)
    return rows, faults


def _blames_a_text(error: VcpError) -> bool:
    if isinstance(error, UpstreamStatusError):
        return error.upstream_status in _SPLIT_STATUSES
    return isinstance(error, UpstreamBrokenError)


def _retry_after(error: VcpError) -> float:
    """How long to leave the API alone; at least a moment, so that nobody asks in a loop."""
    asked = error.retry_after if isinstance(error, UpstreamStatusError | EmbeddingError) else None
    return asked or REFUSED_SECONDS


def _empty() -> str:
    return both("文本为空", "the text is empty")


def _left_alone() -> str:
    return both("上游要求暂停", "the upstream wants a pause")
