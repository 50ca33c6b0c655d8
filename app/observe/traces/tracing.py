"""Traces of an installation: heard, written, looked at, while the settings want them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from app.errors import NotFoundError, both
from app.extend import CallFinished, Clock, Event, TurnStarted
from app.observe.bus import EventBus
from app.observe.traces.collector import HEARD, Collector
from app.observe.traces.document import trace_document
from app.observe.traces.record import Record
from app.observe.traces.rows import TraceRow, row_of
from app.observe.traces.store import Choices, Page, TraceStore, Wanted, written
from app.observe.traces.texts import Mask
from app.observe.traces.writer import TraceWriter

log = logging.getLogger(__name__)

Detail = Literal["off", "metadata", "full"]

SETTLE_SECONDS = 2.0
MAX_LIVE = 50
"""Requests that run now and are shown above the list."""


@dataclass(frozen=True, slots=True)
class TraceRules:
    """What is kept, for how many seconds, and in how many bytes."""

    detail: Detail
    seconds: float
    most_bytes: int


class Tracing:
    """A ``Lifecycle``. ``rules`` are asked at each use. While they say ``off`` nothing is heard and nothing costs.

    ``mask`` gives what takes the installation's secrets of now out of values; ``clock`` gives seconds since the epoch,
    ``timer`` those of any steady clock. Without ``writes`` (a process that does not own the home) nothing is kept.
    """

    def __init__(
        self,
        events: EventBus,
        path: Path,
        rules: Callable[[], TraceRules],
        mask: Callable[[], Mask],
        *,
        writes: bool,
        clock: Clock,
        timer: Clock,
    ) -> None:
        self._events = events
        self._rules = rules
        self._mask = mask
        self._writes = writes
        self._clock = clock
        self._timer = timer
        self._hears = False
        self._store = TraceStore(path)
        self._writer = TraceWriter(self._store, mask, self._limits, clock)
        self._collector = Collector(self._writer.write, lambda: rules().detail == "full", clock, timer)

    @property
    def detail(self) -> Detail:
        """What is kept now."""
        return self._rules().detail

    @property
    def dropped(self) -> int:
        """Requests that left no trace although one was wanted."""
        return self._writer.dropped + self._collector.unfollowed

    @property
    def kept(self) -> int:
        """Traces written since the start."""
        return self._writer.kept

    async def start(self) -> None:
        """Begin to hear, if the settings want it."""
        if self._writes:
            self._writer.start()
            self._events.listen(self._look, TurnStarted, CallFinished)
            self._look(None)

    async def stop(self) -> None:
        """Write what has ended."""
        self._events.unlisten(self._look)
        self._events.unlisten(self._hear)
        await asyncio.to_thread(self._writer.stop)

    def health(self) -> str:
        """Nothing: without traces everything works."""
        return ""

    async def settled(self) -> None:
        """Wait until all that has ended is on the disk, within bounds."""
        await asyncio.to_thread(self._writer.settled, SETTLE_SECONDS)

    async def page(self, wanted: Wanted) -> Page:
        """Traces that fit; see ``TraceStore.page``. None is older than the settings allow."""
        await self.settled()
        oldest = self._clock() - self._rules().seconds
        since = oldest if wanted.since is None else max(oldest, wanted.since)
        return await asyncio.to_thread(self._store.page, replace(wanted, since=since))

    async def running(self) -> list[TraceRow]:
        """What runs now, the newest first."""
        records, now = self._collector.running()[:MAX_LIVE], self._timer()
        return await asyncio.to_thread(
            lambda: [row_of(trace_document(replace(record, full=False), self._mask(), now)) for record in records]
        )

    async def one(self, id: str) -> dict[str, Any]:
        """The document of a trace, also of one that still runs; raises NotFoundError."""
        record, now = self._collector.one(id), self._timer()
        if record is not None:
            return await asyncio.to_thread(self._of_now, record, now)
        document = await asyncio.to_thread(self._store.one, id)
        if document is None:
            await self.settled()  # it may have ended a moment ago
            document = await asyncio.to_thread(self._store.one, id)
        if document is None:
            raise NotFoundError(
                both("没有这条追踪，可能已过期删除", "there is no such trace; it may have been deleted")
            )
        return document

    def add(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Keep traces that were made elsewhere; blocks."""
        self._store.add(documents)

    async def related(self, id: str) -> tuple[TraceRow, ...]:
        """Traces that belong to this one."""
        return await asyncio.to_thread(self._store.related, id)

    async def choices(self) -> Choices:
        """What there is to filter by."""
        return await asyncio.to_thread(self._store.choices)

    async def delete(self, id: str | None = None) -> int:
        """Delete one trace, or all; how many were there."""
        return await asyncio.to_thread(self._store.delete, id)

    def replays(self, id: str, of: str) -> None:
        """The chat that will be called ``id`` repeats the one of another trace."""
        self._collector.replays(id, of)

    def _of_now(self, record: Record, now: float) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(written(trace_document(record, self._mask(), now)))
        return document

    def _hear(self, event: Event) -> None:
        if self._hears:  # the event that ended the hearing still comes here
            self._collector.hear(event)

    def _limits(self) -> tuple[float, int]:
        rules = self._rules()
        return rules.seconds, rules.most_bytes

    def _look(self, event: Event | None) -> None:
        """Begin or cease to hear as the settings of now say; the event that showed it is not lost."""
        wanted = self._rules().detail != "off"
        if wanted == self._hears:
            return
        self._hears = wanted
        if wanted:
            self._events.listen(self._hear, *HEARD)
            if event is not None:
                self._collector.hear(event)
        else:
            self._events.unlisten(self._hear)
            self._collector.forget()
