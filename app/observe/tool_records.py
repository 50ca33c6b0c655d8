"""How the calls of each tool went: counts, times and the last faults, for people; bounded, fed by events."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from app.extend import CallFinished, Clock, ErrorKind, Event, Outcome

MAX_TOOLS = 2000
"""Tools that are remembered; of more than these the one that was called longest ago is forgotten."""

MAX_FAULTS = 5
"""Faults of one tool."""

MAX_MESSAGE_CHARS = 2000
MAX_TAIL_CHARS = 4000

_DECIDED = frozenset({ErrorKind.REJECTED, ErrorKind.UNANSWERED})


@dataclass(frozen=True, slots=True)
class ToolFault:
    """A call that failed: when (seconds since the epoch), why, and the end of what its process wrote to stderr."""

    at: float
    kind: str
    message: str
    stderr: str = ""
    door: str = ""


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """What is known of one tool since the start; ``mean`` and ``last`` are seconds of work, None before any."""

    calls: int = 0
    failures: int = 0
    mean: float | None = None
    last: float | None = None
    last_at: float | None = None
    faults: tuple[ToolFault, ...] = ()


NO_RECORD = ToolRecord()


@dataclass(slots=True)
class _Counts:
    calls: int = 0
    failures: int = 0
    begun: int = 0
    ran: float = 0.0
    last: float | None = None
    last_at: float = 0.0
    faults: deque[ToolFault] = field(default_factory=lambda: deque(maxlen=MAX_FAULTS))


class ToolRecords:
    """The records of all tools. ``clean`` takes secrets out of messages; ``clock`` gives seconds since the epoch."""

    def __init__(self, clock: Clock, clean: Callable[[str], str]) -> None:
        self._clock = clock
        self._clean = clean
        self._tools: OrderedDict[str, _Counts] = OrderedDict()

    def observe(self, event: Event) -> None:
        """Count a call that ended; quick, and never raises.

        A call that its caller gave up, or that a person did not allow, is no failure of the tool.
        """
        if not isinstance(event, CallFinished) or event.spec is None:
            return
        name = event.spec.name
        counts = self._tools.get(name)
        if counts is None:
            counts = self._tools[name] = _Counts()
            if len(self._tools) > MAX_TOOLS:
                self._tools.popitem(last=False)
        else:
            self._tools.move_to_end(name)
        counts.calls += 1
        counts.last_at = self._clock()
        if event.begun:
            counts.begun += 1
            counts.ran += event.ran
            counts.last = event.ran
        if event.outcome is Outcome.ERROR and event.result.error_kind not in _DECIDED:
            counts.failures += 1
            counts.faults.append(self._fault(event, counts.last_at))

    def _fault(self, event: CallFinished, at: float) -> ToolFault:
        result = event.result
        kind = result.error_kind.value if result.error_kind is not None else ""
        message = self._clean(result.message[: 2 * MAX_MESSAGE_CHARS])[:MAX_MESSAGE_CHARS]
        tail = self._clean(result.stderr_tail[-2 * MAX_TAIL_CHARS :])[-MAX_TAIL_CHARS:]
        return ToolFault(at, kind, message, tail, event.context.door.value)

    def of(self, tool: str) -> ToolRecord:
        """What is known of a tool; the latest fault first."""
        counts = self._tools.get(tool)
        if counts is None:
            return NO_RECORD
        mean = counts.ran / counts.begun if counts.begun else None
        return ToolRecord(
            counts.calls, counts.failures, mean, counts.last, counts.last_at, tuple(reversed(counts.faults))
        )
