"""A thread that makes documents of finished records and writes them; it never holds up a request."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from app.extend import Clock
from app.observe.traces.database import TracesUnavailableError
from app.observe.traces.document import trace_document
from app.observe.traces.record import Record
from app.observe.traces.store import Packed, TraceStore, packed
from app.observe.traces.texts import Mask

log = logging.getLogger(__name__)

MAX_WAITING = 500
"""Records that wait to be written; further ones are dropped and counted."""

MAX_WAITING_CHARS = 64 * 1024 * 1024
"""Of all that wait; beyond it a record is written without its texts."""

BATCH = 50
GATHER_SECONDS = 0.25
"""How long a first record waits for others: together they cost less than each alone, and the thread wakes once."""

BATCHES = 20
TIDY_SECONDS = 300.0
"""What is too old is looked for after so much time without a request, or after so many batches."""

STOP_SECONDS = 5.0


class TraceWriter:
    """Writes records. ``limits`` gives the seconds that traces are kept and their bytes on the disk, as they are now.

    ``kept`` counts what was written, ``dropped`` what was not: the disk refused, or records came too quickly.
    """

    def __init__(
        self, store: TraceStore, mask: Callable[[], Mask], limits: Callable[[], tuple[float, int]], clock: Clock
    ) -> None:
        self._store = store
        self._mask = mask
        self._limits = limits
        self._clock = clock
        self._waiting: deque[Record] = deque()
        self._done: deque[threading.Event] = deque()
        self._some = threading.Event()  # something waits
        self._at_once = threading.Event()  # nothing more is waited for
        self._chars = 0
        self._counting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stops = False
        self._ill = False
        self.kept = 0
        self.dropped = 0

    def start(self) -> None:
        """Begin to write."""
        self._stops = False
        self._thread = threading.Thread(target=self._work, name="traces", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, within bounded time, and close the file; blocks."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stops = True
        self._at_once.set()
        self._some.set()
        thread.join(STOP_SECONDS)
        if self._waiting:
            log.warning("traces: the disk is too slow; %d are lost", len(self._waiting))

    def write(self, record: Record) -> None:
        """Take a finished record; returns at once."""
        if self._thread is None:
            return
        with self._counting:
            if len(self._waiting) >= MAX_WAITING:
                self.dropped += 1
                return
            if self._chars + record.weight > MAX_WAITING_CHARS:
                record.full, record.weight = False, 0
            self._chars += record.weight
        self._waiting.append(record)
        if not self._some.is_set():
            self._some.set()

    def settled(self, seconds: float) -> bool:
        """Wait until all that was taken until now is on the disk; false when it takes longer. Blocks."""
        if self._thread is None:
            return True
        done = threading.Event()
        self._done.append(done)
        self._at_once.set()
        self._some.set()
        return done.wait(seconds)

    def _work(self) -> None:
        while not self._stops:
            self._keep()
            for _ in range(BATCHES):
                if self._stops or not self._some.wait(TIDY_SECONDS) or self._stops:
                    break  # looked at twice: a stop may come while the last batch is taken
                self._at_once.wait(GATHER_SECONDS)
                self._some.clear()
                self._at_once.clear()
                self._save_all()
        self._save_all()
        self._store.close()

    def _save_all(self) -> None:
        done = [self._done.popleft() for _ in range(len(self._done))]
        while self._waiting:
            self._save([self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))])
        for told in done:
            told.set()

    def _save(self, records: list[Record]) -> None:
        mask = self._mask()
        found = [one for one in [self._made(record, mask) for record in records] if one is not None]
        with self._counting:
            self._chars -= sum(record.weight for record in records)
        try:
            self._store.add_packed(found)
        except TracesUnavailableError as error:
            self._lost(len(found))
            if not self._ill:
                log.warning("traces cannot be written: %s", error)
            self._ill = True
        else:
            self.kept += len(found)
            self._ill = False

    def _made(self, record: Record, mask: Mask) -> Packed | None:
        try:
            return packed(trace_document(record, mask))
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

    def _lost(self, count: int) -> None:
        with self._counting:
            self.dropped += count
