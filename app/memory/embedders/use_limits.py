"""How much may be asked of a paid embedding model: in a minute, and on a day (memory.md 8.5, part 4)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

from app.config.durable import write_atomic
from app.errors import EmbeddingError, both

_log = logging.getLogger(__name__)

USE_FILE = Path(".vcp/memory/embedding_use.json")
MINUTE = 60.0
FILE_BYTES = 4096
KEPT_ADMISSIONS = 100_000
"""Requests of the last minute that are remembered; nobody makes more."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that may be asked; 0 is no limit. Tokens are estimated."""

    minute_requests: int = 0
    minute_tokens: int = 0
    day_requests: int = 0
    day_tokens: int = 0


@dataclass(frozen=True, slots=True)
class DayUse:
    """What was asked on a day (``YYYY-MM-DD``)."""

    day: str
    requests: int = 0
    tokens: int = 0


class UseLimits:
    """Counts requests before they are made. ``file`` keeps the day's counts over a restart, while there is a day limit.

    ``timer`` gives seconds that only grow, ``clock`` the time of day in ``zone``, in which a day ends at midnight.
    """

    def __init__(
        self,
        limits: Callable[[], Limits],
        file: Path,
        *,
        timer: Callable[[], float],
        clock: Callable[[], float],
        zone: Callable[[], tzinfo],
    ) -> None:
        self._limits = limits
        self._file = file
        self._timer = timer
        self._clock = clock
        self._zone = zone
        self._minute: deque[tuple[float, int]] = deque(maxlen=KEPT_ADMISSIONS)
        self._use: DayUse | None = None
        self._counting = asyncio.Lock()

    @property
    def use(self) -> DayUse | None:
        """What was asked today; None while nobody has asked since the start."""
        return self._use

    async def admit(self, tokens: int) -> float:
        """Count one request with so many tokens, or give the seconds after which to ask again; 0 when it was counted.

        Raises EmbeddingError when the day's limit is used up, with the seconds to midnight.
        """
        async with self._counting:
            limits, now = self._limits(), self._timer()
            await self._refuse_beyond_day(limits, tokens)
            wait = self._minute_wait(limits, tokens, now)
            if wait > 0:
                return wait
            if limits.minute_requests or limits.minute_tokens:
                self._minute.append((now, tokens))
            assert self._use is not None
            self._use = DayUse(self._use.day, self._use.requests + 1, self._use.tokens + tokens)
            if limits.day_requests or limits.day_tokens:
                await asyncio.to_thread(self._save, self._use)
            return 0.0

    def _minute_wait(self, limits: Limits, tokens: int, now: float) -> float:
        while self._minute and self._minute[0][0] <= now - MINUTE:
            self._minute.popleft()
        if not self._minute:
            return 0.0  # one request that alone is above the limit is made in a minute of its own
        requests, used = len(self._minute), sum(count for _, count in self._minute)
        wait = 0.0
        for at, count in self._minute:
            many = limits.minute_requests and requests + 1 > limits.minute_requests
            if not many and not (limits.minute_tokens and used + tokens > limits.minute_tokens):
                break
            requests, used, wait = requests - 1, used - count, max(0.001, at + MINUTE - now)
        return wait

    async def _refuse_beyond_day(self, limits: Limits, tokens: int) -> None:
        moment = datetime.fromtimestamp(self._clock(), self._zone())
        day = moment.date().isoformat()
        if self._use is None:
            self._use = await asyncio.to_thread(self._read)
        if self._use is None or self._use.day != day:
            self._use = DayUse(day)
        requests = limits.day_requests and self._use.requests + 1 > limits.day_requests
        # The last request of a day may go beyond the limit of tokens: its size is an estimate.
        if requests or (limits.day_tokens and self._use.tokens >= limits.day_tokens):
            midnight = (moment + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
            raise EmbeddingError(
                both("今天的向量用量已达上限", "the daily limit of embeddings is used up"),
                retry_after=max(1.0, midnight.timestamp() - moment.timestamp()),
            )

    def _read(self) -> DayUse | None:
        """The counts of the file; None when there is none, or none that can be read."""
        try:
            with self._file.open("rb") as file:
                value = json.loads(file.read(FILE_BYTES))
            use = DayUse(value["day"], value["requests"], value["tokens"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            _log.warning("the count of embeddings cannot be read and begins anew: %s", type(error).__name__)
            return None
        counts = (use.requests, use.tokens)
        if not isinstance(use.day, str) or not all(type(count) is int and count >= 0 for count in counts):
            return None
        return use

    def _save(self, use: DayUse) -> None:
        data = json.dumps({"day": use.day, "requests": use.requests, "tokens": use.tokens}).encode()
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self._file, data)
        except OSError as error:
            _log.warning("the count of embeddings is not saved: %s", error)
