"""Hears events and sorts them by request. All of it happens in the event loop and is short."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from app.extend import (
    ApprovalAsked,
    ApprovalSettled,
    CallFinished,
    CallFound,
    CallProgress,
    CallStarted,
    Clock,
    DiaryWritten,
    Event,
    FirstToken,
    PhaseDone,
    PromptExpanded,
    Recalled,
    RoundFinished,
    RoundStarted,
    TurnFinished,
    TurnStarted,
    UpstreamAnswered,
)
from app.observe.traces.record import Kind, Record

MAX_RUNNING = 2_000
"""Chats that are followed at a time; further ones leave no trace and are counted."""

MAX_LOOSE = 2_000
"""Calls outside of chats, and questions to people, that are remembered until they end; the oldest are forgotten."""

OF_TURNS = (
    PhaseDone,
    PromptExpanded,
    Recalled,
    RoundStarted,
    UpstreamAnswered,
    FirstToken,
    RoundFinished,
    CallFound,
    CallProgress,
    DiaryWritten,
)
"""Kinds that belong to a chat and need nothing else."""

HEARD = (*OF_TURNS, TurnStarted, TurnFinished, CallStarted, CallFinished, ApprovalAsked, ApprovalSettled)
"""All kinds of which traces are made."""


class Collector:
    """Follows what runs. ``ended`` gets each record when its request is over; ``full`` says whether texts are kept.

    ``clock`` gives seconds since the epoch, ``timer`` seconds of any steady clock. A chat that began before its events
    were heard leaves no trace.
    """

    def __init__(self, ended: Callable[[Record], None], full: Callable[[], bool], clock: Clock, timer: Clock) -> None:
        self._ended = ended
        self._full = full
        self._clock = clock
        self._timer = timer
        self._turns: dict[str, Record] = {}
        self._calls: dict[str, Record] = {}
        self._asked: dict[str, Record] = {}
        self._replays: dict[str, str] = {}
        self.unfollowed = 0

    def running(self) -> list[Record]:
        """What runs now, as it is at this moment; the newest first."""
        return [record.so_far() for record in reversed((*self._turns.values(), *self._calls.values()))]

    def one(self, id: str) -> Record | None:
        """A request that runs now."""
        record = self._turns.get(id) or self._calls.get(id)
        return None if record is None else record.so_far()

    def replays(self, id: str, of: str) -> None:
        """The chat that will be called ``id`` repeats the one of another trace."""
        _bounded(self._replays)
        self._replays[id] = of

    def forget(self) -> None:
        """Follow none of what runs now any further."""
        self._turns.clear()
        self._calls.clear()
        self._asked.clear()

    def hear(self, event: Event) -> None:
        """Take an event of one of the kinds ``HEARD``."""
        now = self._timer()
        match event:
            case TurnStarted():
                self._turn_started(event, now)
            case TurnFinished():
                record = self._turns.pop(event.turn_id, None)
                if record is not None:
                    self._end(record, event, now)
            case CallStarted():
                record = self._turns.get(event.turn_id) or self._loose(event.call_id, event.turn_id, now)
                record.add(event, now)
            case CallFinished():
                self._call_finished(event, now)
            case ApprovalAsked():
                record = self._turns.get(event.context.turn_id)
                record = record or self._loose(event.call.id, event.context.turn_id, now)
                record.add(event, now)
                _bounded(self._asked)
                self._asked[event.request_id] = record
            case ApprovalSettled():
                record = self._asked.pop(event.request_id, None)
                if record is not None and not record.finished:
                    record.add(event, now)
            case CallProgress() if event.call_id in self._calls:
                self._calls[event.call_id].add(event, now)
            case _:
                record = self._turns.get(getattr(event, "turn_id", ""))
                if record is not None:
                    record.add(event, now)

    def _turn_started(self, event: TurnStarted, now: float) -> None:
        if len(self._turns) >= MAX_RUNNING:
            self.unfollowed += 1
            return
        replay_of = self._replays.pop(event.turn_id, "")
        record = Record(
            event.turn_id, Kind.TURN, self._full(), self._clock(), now, event.parent_turn_id, replay_of=replay_of
        )
        record.add(event, now)
        self._turns[event.turn_id] = record

    def _call_finished(self, event: CallFinished, now: float) -> None:
        record = self._turns.get(event.turn_id)
        if record is not None and event.call.id not in self._calls:
            record.add(event, now, ends=True)
            return
        loose = self._calls.pop(event.call.id, None)
        if loose is None:  # it never began; its waiting is all there is
            loose = self._new_loose(event.call.id, event.turn_id, now - event.waited - event.ran, now)
        self._end(loose, event, now)

    def _loose(self, call_id: str, turn_id: str, now: float) -> Record:
        """The record of a call that belongs to no running chat."""
        record = self._calls.get(call_id)
        if record is None:
            _bounded(self._calls)
            record = self._calls[call_id] = self._new_loose(call_id, turn_id, now, now)
        return record

    def _new_loose(self, call_id: str, turn_id: str, begun: float, now: float) -> Record:
        parent = "" if turn_id == call_id else turn_id
        return Record(call_id, Kind.CALL, self._full(), self._clock() - (now - begun), begun, parent)

    def _end(self, record: Record, event: Event, now: float) -> None:
        record.add(event, now, ends=True)
        record.finished = True
        self._ended(record)


def _bounded(kept: dict[str, Record] | dict[str, str]) -> None:
    """Make room for one more."""
    for oldest in list(islice(kept, max(0, len(kept) - MAX_LOOSE + 1))):
        del kept[oldest]
