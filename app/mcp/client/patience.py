"""How long a call of an MCP server may take (MCP-53, D74, P91)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

LOOK_SECONDS = 0.25
"""While a person is asked, the clock is looked at so often."""


class Asked(Protocol):
    """A call that may be waiting for a person: ``open`` questions, and the seconds of those that are answered."""

    open: int
    answered: float


@dataclass(frozen=True, slots=True)
class Allowance:
    """The seconds that a call may take; progress extends them up to ``most``, from each of its signs on."""

    seconds: float
    most: float


class Patience:
    """Ends the block ``within`` by TimeoutError when the allowance is used up. Time in which a person is asked is free.

    ``deadline``, a time of the loop's clock, ends it in any case.
    """

    def __init__(self, allowance: Allowance, deadline: float | None = None) -> None:
        self._allowance = allowance
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._sign = self._began
        self._asked: Asked | None = None
        self._timer: asyncio.Timeout | None = None
        self._handle: asyncio.TimerHandle | None = None

    @property
    def spent(self) -> float:
        """Seconds that it has taken."""
        return self._loop.time() - self._began

    def progress(self) -> None:
        """The server gave a sign of life."""
        self._sign = self._loop.time()

    def within(self, asked: Asked | None) -> Patience:
        """To be used with ``async with``, once; the block raises TimeoutError."""
        self._asked = asked
        return self

    async def __aenter__(self) -> None:
        self._timer = asyncio.timeout_at(self._deadline)
        await self._timer.__aenter__()
        self._look()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if self._timer is not None:
            await self._timer.__aexit__(kind, error, trace)

    def _look(self) -> None:
        now = self._loop.time()
        free = self._asked.answered if self._asked is not None else 0.0
        ends = min(self._sign + self._allowance.seconds, self._began + self._allowance.most) + free
        if self._asked is not None and self._asked.open:
            ends = max(ends, now + LOOK_SECONDS)
        if ends > now:
            self._handle = self._loop.call_at(ends, self._look)
        elif self._timer is not None:
            self._timer.reschedule(now)
