"""How calls are found in a reply and their results go back to the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.extend.tools import ToolCall, ToolResult
from app.extend.values import Body, Json


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """A call that ran, what came of it, and when it ended (seconds since the epoch)."""

    call: ToolCall
    result: ToolResult
    finished_at: float


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A call that a reply asks for; with a ``skipped_why`` it is reported and must not be run.

    One that is ``refused`` cannot be run as it was written: that result is what comes of it.
    """

    call: ToolCall
    skipped_why: str = ""
    refused: ToolResult | None = None


class NativeIntake(Protocol):
    """Takes function calls of the API out of a reply before a client sees it: ours are kept, its own pass (D3, D33)."""

    @property
    def ready(self) -> bool:
        """Whether calls of ours became complete that ``CallFormat.feed`` has not told yet."""
        ...

    def take(self, choice: int, delta: dict[str, Json]) -> bool:
        """Take ours out of the next delta of a choice; true when the delta was changed."""
        ...

    def take_whole(self, choice: int, message: dict[str, Json]) -> bool:
        """Take ours out of a whole message; true when it was changed."""
        ...

    def finish(self) -> Mapping[int, Sequence[Json]]:
        """The reply ended; by choice, pieces that were held back and are the client's. Called once."""
        ...

    def finish_reason(self, choice: int, reason: str) -> str:
        """The finish reason for the client, who knows nothing of our calls."""
        ...


class CallFormat(Protocol):
    """How a model is offered tools and asks for them: in marked text, by function calls of the API, or both.

    One object serves one round.
    """

    @property
    def native(self) -> NativeIntake | None:
        """What takes function calls out of the reply; None where none were offered and all are the client's (D3).

        Known after ``offer``.
        """
        ...

    def offer(self, body: Body) -> Body:
        """The body that goes upstream, with the tools in it where the format puts them there."""
        ...

    def feed(self, delta: Mapping[str, Json]) -> Sequence[FoundCall]:
        """Take the next piece of choice 0 (a delta, or a whole message); the calls that are complete with it."""
        ...

    def finish(self) -> Sequence[FoundCall]:
        """The reply ended; calls that are complete only now."""
        ...

    def hidden(self) -> Sequence[tuple[int, int]]:
        """Ranges (start, end) of the reply's text that are no word of the reply itself: thoughts, calls."""
        ...

    def append(self, body: Body, reply: str, outcomes: Sequence[CallOutcome]) -> Body:
        """The body of the next round: with the reply and what came of its calls, in call order.

        Calls whose result is ``silent`` are not among them; of those a model is told nothing (spec 7.6).
        """
        ...
