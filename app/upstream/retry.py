"""When a request to a model API is repeated, and after which wait (spec 4.10, P27, P28, P30). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from app.errors import UpstreamError

RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504, 529})

LONGEST_RETRY_AFTER = 60.0
"""Seconds: an upstream that wants a longer pause is not waited for; its answer goes to the client at once."""

_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Fault:
    """An attempt that brought no answer.

    ``error`` is what the caller gets when there is no further attempt. ``retried`` is false where another attempt
    cannot help or must not be made (a certificate, a first-byte time-out). ``stale`` is true when a kept connection
    turned out to be closed by the peer: that says nothing about the upstream's health.
    """

    error: UpstreamError
    retried: bool
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """``wait`` seconds before the next attempt, or None: no further one.

    ``exhausted`` is true when further attempts would have been right but are used up.
    """

    wait: float | None
    exhausted: bool = False


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """``attempts`` at an upstream (``ApiRetries``), after attempt *i* a wait of ``delay_ms`` × *i* (``ApiRetryDelay``).

    ``pause`` are the seconds for which an upstream that keeps failing is spared at first (``UpstreamPauseSeconds``).
    """

    attempts: int = 3
    delay_ms: float = 1000.0
    pause: float = 15.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"at least one attempt must be made, not {self.attempts}")
        if not 0 <= self.delay_ms < float("inf"):
            raise ValueError(f"the delay must be a number of milliseconds from 0, not {self.delay_ms}")

    def after_status(self, attempt: int, status: int, retry_after: float | None) -> Decision:
        """What follows an answer with an error status to attempt number ``attempt`` (from 1)."""
        if status not in RETRIED_STATUSES:
            return Decision(None)
        if attempt >= self.attempts:
            return Decision(None, exhausted=True)
        if retry_after is None:
            return Decision(self._pause(attempt))
        if retry_after > LONGEST_RETRY_AFTER:
            return Decision(None)
        return Decision(max(self._pause(attempt), retry_after))

    def after_fault(self, attempt: int, fault: Fault) -> Decision:
        """What follows attempt number ``attempt`` (from 1) that brought no answer."""
        if not fault.retried:
            return Decision(None)
        if attempt >= self.attempts:
            return Decision(None, exhausted=True)
        return Decision(self._pause(attempt))

    def _pause(self, attempt: int) -> float:
        return self.delay_ms * attempt / 1000.0


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Seconds from ``now`` (seconds since the epoch) that a ``Retry-After`` header asks for.

    Understands seconds and HTTP dates; a date in the past is 0. None when there is no header or it makes no sense.
    """
    if value is None:
        return None
    text = value.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
