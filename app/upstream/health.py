"""How an upstream has fared lately, and whether it is in a pause. Pure: the time is an argument."""

from __future__ import annotations

FAILURES_BEFORE_PAUSE = 3
"""Failures in a row after which an upstream is spared."""

LONGEST_PAUSE = 600.0
"""Seconds; a longer ``Retry-After`` is cut to it, so that a wrong one does no lasting harm."""

JITTER = 0.2
"""Part of a pause by which it is longer or shorter, so that many servers do not come back at one moment."""

_ON_TRIAL = 0.001  # seconds: behind the sound ones, before those in a pause


class Health:
    """Failures in a row, the pause that follows them, and the trial after it.

    Times are seconds of one monotonic clock. A pause starts after ``FAILURES_BEFORE_PAUSE`` failures, at once when the
    failure was a time limit, and when the upstream itself names a time; each further one is twice as long as the one
    before. After it one request at a time tries the upstream, until one succeeds.
    """

    __slots__ = ("_failures", "_pauses", "_trial", "_until")

    def __init__(self) -> None:
        self._failures = 0
        self._pauses = 0
        self._until = 0.0
        self._trial = False

    @property
    def failures(self) -> int:
        """Failures since the last success; those during a pause do not count."""
        return self._failures

    def rest(self, now: float) -> float:
        """Seconds for which other upstreams are asked first; 0 while it is sound."""
        if self._until > now:
            return self._until - now
        return _ON_TRIAL if self._trial else 0.0

    def begin(self, now: float) -> bool:
        """A request begins; true when it is the trial after a pause, which has to end it with one of the others."""
        if not self._pauses or self._trial or self._until > now:
            return False
        self._trial = True
        return True

    def abandon(self) -> None:
        """The trial was cancelled; another request may be one."""
        self._trial = False

    def succeed(self) -> None:
        """An answer has begun."""
        self._failures = self._pauses = 0
        self._until = 0.0
        self._trial = False

    def fail(
        self, now: float, pause: float, chance: float, *, grave: bool = False, wanted: float | None = None
    ) -> None:
        """No answer came. ``pause``: seconds of the first one; ``chance``: a random number from 0 to 1.

        ``grave`` failures cost so much time that one is enough; ``wanted`` seconds are what the upstream asked for.
        Requests that began before a pause fail during it: they make it no longer.
        """
        self._trial = False
        if self._until > now:
            return
        self._failures += 1
        if wanted is not None:
            self._until = now + min(wanted, LONGEST_PAUSE)
        if grave or self._pauses or self._failures >= FAILURES_BEFORE_PAUSE:
            length = min(pause * 2.0 ** min(self._pauses, 30), LONGEST_PAUSE)
            self._pauses += 1
            self._until = max(self._until, now + length * (1 + JITTER * (2 * chance - 1)))
