"""A thread that makes documents of finished records and writes them; it never holds up a request."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from app.extend import Clock
from app.observe.traces.database import TracesUnavailableError
from app.observe.traces.document import trace_document
from app.observe.traces.record import Record
from app.observe.traces.store import TraceStore
from app.observe.traces.texts import Mask

log = logging.getLogger(__name__)

MAX_WAITING = 500
"""Records that wait to be written; further ones are dropped and counted."""

MAX_WAITING_CHARS = 64 * 1024 * 1024
"""Of all that wait; beyond it a record is written without its texts."""

BATCH = 50
GATHER_SECONDS = 0.25
"""How long a first record waits for others: together they cost less than each alone."""

TIDY_SECONDS = 300.0
"""How often what is too old is looked for."""

STOP_SECONDS = 5.0


class TraceWriter:
    """Writes records. ``limits`` gives the seconds that traces are kept and their bytes on the disk, as they are now.

    ``kept`` counts what was written, ``dropped`` what was not: the disk refused, or records came too quickly.
    """

    def __init__(
        self,
        store: TraceStore,
        mask: Callable[[], Mask],
        limits: Callable[[], tuple[float, int]],
        clock: Clock,
        timer: Clock,
    ) -> None:
        self._store = store
        self._mask = mask
        self._limits = limits
        self._clock = clock
        self._timer = timer
        self._waiting: queue.Queue[Record | threading.Event | None] = queue.Queue(MAX_WAITING)
        self._chars = 0
        self._counting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ill = False
        self.kept = 0
        self.dropped = 0

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._work, name="traces", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, within bounded time, and close the file; blocks."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            self._waiting.put(None, timeout=STOP_SECONDS)
        except queue.Full:
            log.warning("traces: the disk is too slow; %d are lost", self._waiting.qsize())
            return
        thread.join(STOP_SECONDS)

    def write(self, record: Record) -> None:
        """Take a finished record; returns at once."""
        if self._thread is None:
            return
        with self._counting:
            if self._chars + record.weight > MAX_WAITING_CHARS:
                record.full, record.weight = False, 0
            self._chars += record.weight
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._lost(1)
            self._written(record)

    def settled(self, seconds: float) -> bool:
        """Wait until all that was taken until now is on the disk; false when it takes longer. Blocks."""
        if self._thread is None:
            return True
        done = threading.Event()
        try:
            self._waiting.put(done, timeout=seconds)
        except queue.Full:
            return False
        return done.wait(seconds)

    def _work(self) -> None:
        stopped = False
        while not stopped:
            self._keep()
            stopped = self._until_tidy()
        self._store.close()

    def _until_tidy(self) -> bool:
        """Write until it is time to look for old traces; true when it is time to stop."""
        written = 0
        while written < 10 * BATCH:
            try:
                batch: list[Record | threading.Event | None] = [self._waiting.get(timeout=TIDY_SECONDS)]
            except queue.Empty:
                return False
            until = self._timer() + GATHER_SECONDS
            while len(batch) < BATCH and isinstance(batch[-1], Record) and (left := until - self._timer()) > 0:
                with suppress(queue.Empty):
                    batch.append(self._waiting.get(timeout=left))
            records = [one for one in batch if isinstance(one, Record)]
            self._save(records)
            written += len(records)
            for one in batch:
                if isinstance(one, threading.Event):
                    one.set()
            if None in batch:
                return True
        return False

    def _save(self, records: list[Record]) -> None:
        documents: list[dict[str, Any]] = []
        for record in records:
            document = self._made(record)
            if document is not None:
                documents.append(document)
            self._written(record)
        if not documents:
            return
        try:
            self._store.add(documents)
        except TracesUnavailableError as error:
            self._lost(len(documents))
            if not self._ill:
                log.warning("traces cannot be written: %s", error)
            self._ill = True
        else:
            self.kept += len(documents)
            self._ill = False

    def _made(self, record: Record) -> dict[str, Any] | None:
        try:
            return trace_document(record, self._mask())
        except Exception:  # a turn's boundary: whatever a tool or a plugin put into an event must not end this thread
            log.exception("no trace of %s", record.id)
            self._lost(1)
            return None

    def _keep(self) -> None:
        seconds, most = self._limits()
        try:
            self._store.keep(self._clock() - seconds, most)
        except TracesUnavailableError as error:
            log.debug("old traces cannot be deleted: %s", error)

    def _written(self, record: Record) -> None:
        with self._counting:
            self._chars -= record.weight

    def _lost(self, count: int) -> None:
        with self._counting:
            self.dropped += count
