"""What was heard of one request, with the times; still the events themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from app.extend import CallFinished, Event, Json, PromptExpanded, RoundFinished

MAX_EVENTS = 4_000
"""Of one request; further ones are counted, except those that end something."""


class Kind(StrEnum):
    """What a trace is about: a chat, or one call of a tool that belongs to no running chat."""

    TURN = "turn"
    CALL = "call"


@dataclass(slots=True)
class Record:
    """One request while it runs and until it is written.

    ``started`` is seconds since the epoch, ``heard`` holds events with seconds since then. ``full`` is false when no
    text of it may be kept. ``weight`` is about how many characters the events hold, ``left_out`` how many are missing.
    """

    id: str
    kind: Kind
    full: bool
    started: float
    begun: float
    parent: str = ""
    replay_of: str = ""
    heard: list[tuple[float, Event]] = field(default_factory=list)
    weight: int = 0
    left_out: int = 0
    finished: bool = False

    def add(self, event: Event, now: float, *, ends: bool = False) -> None:
        """Keep the event; ``now`` is of the clock that ``begun`` is of."""
        if len(self.heard) >= MAX_EVENTS and not ends:
            self.left_out += 1
            return
        self.heard.append((now - self.begun, event))
        self.weight += _weight(event)

    def so_far(self) -> Record:
        """A copy that does not change any more."""
        return Record(
            self.id,
            self.kind,
            self.full,
            self.started,
            self.begun,
            self.parent,
            self.replay_of,
            list(self.heard),
            self.weight,
            self.left_out,
            self.finished,
        )


def _weight(event: Event) -> int:
    match event:
        case RoundFinished():
            return len(event.text)
        case CallFinished():
            return _size(event.call.arguments) + _size(event.result.structured) + _size(event.result.parts)
        case PromptExpanded():
            texts = sum([len(piece.text) for text in event.texts for piece in text.pieces])
            return texts + sum([_size(message, 3) for message in event.before["messages"]])
        case _:
            return 200


def _size(value: Json, depth: int = 2) -> int:
    """About how many characters; what lies deeper counts little."""
    if isinstance(value, str):
        return len(value)
    if depth and isinstance(value, Mapping):
        return sum([_size(item, depth - 1) for item in value.values()])
    if depth and isinstance(value, Sequence):
        return sum([_size(item, depth - 1) for item in value])
    return 8
