"""A clock that stands still until a test moves it."""

from __future__ import annotations


class SetClock:
    """Seconds; ``now`` may be set."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
