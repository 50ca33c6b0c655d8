"""From a record to JSON: what happened in which order, with times in seconds since the request came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.extend import (
    ApprovalAsked,
    ApprovalSettled,
    CallFinished,
    CallFound,
    CallProgress,
    CallStarted,
    DiaryWritten,
    Event,
    FirstToken,
    Json,
    Outcome,
    PhaseDone,
    PromptExpanded,
    Recalled,
    RoundFinished,
    RoundStarted,
    TurnFinished,
    TurnStarted,
    UpstreamAnswered,
)
from app.observe.traces.calls import Calls
from app.observe.traces.prompts import agent_of, prompt_document
from app.observe.traces.recalls import recall_document
from app.observe.traces.record import Kind, Record
from app.observe.traces.texts import Mask, Texts

VERSION = 1
"""Of the form of a document."""

RUNNING = "running"
"""Outcome of what has not ended yet."""

MAX_NAME = 200
MAX_ERROR = 2_000
MAX_RECALLS = 200
_TOKENS = ("prompt_tokens", "completion_tokens", "total_tokens")


def trace_document(record: Record, mask: Mask, timer: float | None = None) -> dict[str, Any]:
    """The trace of a record. ``timer`` is the time of now, for one that still runs. Takes long: not in the event loop.

    Without texts (``Record.full`` false) only their lengths are in it.
    """
    making = _Making(record, Texts(mask, full=record.full))
    for at, event in record.heard:
        making.take(round(at, 6), event)
    return making.document(None if timer is None else timer - record.begun)


@dataclass(slots=True)
class _Making:
    record: Record
    texts: Texts
    head: dict[str, Any] = field(default_factory=dict)
    phases: list[Json] = field(default_factory=list)
    rounds: dict[int, dict[str, Any]] = field(default_factory=dict)
    recalls: list[Json] = field(default_factory=list)
    diaries: list[Json] = field(default_factory=list)
    prompt: Json = None
    before: float = 0.0
    """When what came before the next phase ended."""
    calls: Calls = field(init=False)

    def __post_init__(self) -> None:
        self.calls = Calls(self.texts)

    def take(self, at: float, event: Event) -> None:
        match event:
            case TurnStarted():
                self.head |= {"model": self.texts.name(event.model), "stream": event.stream, "depth": event.depth}
                self.head["client"] = event.client_ip
            case PhaseDone():
                sizes = {"pieces_before": event.pieces_before, "pieces_after": event.pieces_after}
                self.phases.append({"name": event.name[:MAX_NAME], "start": self.before, "end": at, **sizes})
                self.before = at
            case PromptExpanded():
                self.head["agent"] = agent_of(event)[:MAX_NAME]
                self.prompt = prompt_document(event, self.texts)
            case Recalled():
                if len(self.recalls) < MAX_RECALLS:
                    self.recalls.append(recall_document(event.details, self.texts))
            case RoundStarted() | UpstreamAnswered() | FirstToken() | RoundFinished():
                self._round(at, event)
            case CallFound() | CallStarted() | CallProgress() | CallFinished() | ApprovalAsked() | ApprovalSettled():
                self.calls.take(at, event)
                self.before = at if isinstance(event, CallFinished) else self.before
            case DiaryWritten():
                self.diaries.append({"at": at, "maid": event.maid[:MAX_NAME], "date": event.date[:MAX_NAME]})
            case TurnFinished():
                self._ended(at, event)
            case _:
                pass

    def _round(self, at: float, event: RoundStarted | UpstreamAnswered | FirstToken | RoundFinished) -> None:
        number = event.round if isinstance(event, UpstreamAnswered | FirstToken) else event.number
        one = self.rounds.setdefault(number, {"number": number, "start": at, "end": None})
        match event:
            case UpstreamAnswered():
                one |= {"answered": at, "upstream": event.upstream[:MAX_NAME]}
            case FirstToken():
                one["first_token"] = at
            case RoundFinished():
                one |= {"end": at, "finish_reason": str(event.finish_reason or "")[:MAX_NAME]}
                one |= {"usage": tokens_of(event.usage), "text": self.texts.text(event.text)}
                self.before = at

    def _ended(self, at: float, event: TurnFinished) -> None:
        """``error`` may quote anything, so it counts as a text."""
        error = event.error if event.outcome is Outcome.ERROR else ""
        self.head |= {"outcome": event.outcome.value, "duration": at}
        if event.outcome is Outcome.CANCELLED:
            self.head["reason"] = event.error[:MAX_NAME]
        if error:
            self.head["error"] = self.texts.text(error[:MAX_ERROR])

    def document(self, now: float | None) -> dict[str, Any]:
        record = self.record
        calls = self.calls.documents()
        if record.kind is Kind.CALL and calls:
            (only, *_) = [call for call in calls if call["id"] == record.id] or calls
            self.head |= {"outcome": only.get("outcome", RUNNING), "client": only.get("client"), "stream": False}
            self.head["duration"] = only["end"] if only["end"] is not None else now or 0.0
        usages = [one.get("usage") or {} for one in self.rounds.values()]
        return {
            "version": VERSION,
            "id": record.id,
            "kind": record.kind.value,
            "detail": "full" if record.full else "metadata",
            "started": round(record.started, 3),
            "duration": round(now or 0.0, 6),
            "outcome": RUNNING,
            "model": "",
            "agent": "",
            "error": "",
            "parent": record.parent,
            "replay_of": record.replay_of,
            **self.head,
            "tokens": {name: sum(usage.get(name, 0) for usage in usages) for name in _TOKENS},
            "phases": self.phases,
            "rounds": list(self.rounds.values()),
            "calls": calls,
            "skipped": self.calls.skipped,
            "recall": self.recalls,
            "diaries": self.diaries,
            "prompt": self.prompt,
            "events_left_out": record.left_out,
        }


def tokens_of(usage: Mapping[str, Json] | None) -> dict[str, int]:
    """The three counts that every model API has, where they are whole numbers."""
    found = usage or {}
    return {name: value for name in _TOKENS if isinstance(value := found.get(name), int) and 0 <= value < 2**53}
