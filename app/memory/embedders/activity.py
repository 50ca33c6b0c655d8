"""What an embedder has done since it was made (memory.md 11.31)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Activity:
    """Counts that only grow. ``seconds`` is the time that models worked or were waited for; without limits' pauses."""

    queries: int = 0
    passages: int = 0
    failures: int = 0
    requests: int = 0
    restarts: int = 0
    seconds: float = 0.0

    @property
    def texts_per_second(self) -> float:
        """Throughput while it worked; 0 before the first text."""
        return (self.queries + self.passages) / self.seconds if self.seconds > 0 else 0.0
