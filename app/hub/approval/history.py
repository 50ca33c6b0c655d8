"""What came of the last calls that waited for a person's word, for people to look at; in memory, bounded."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass

from app.extend import ApprovalAsked, ApprovalSettled, Clock, Event

MAX_KEPT = 200
MAX_WAITING = 512
"""Calls whose beginning is remembered; more cannot wait at a time."""

MAX_CHARS = 200


@dataclass(frozen=True, slots=True)
class Decided:
    """One call that waits no longer; ``approved`` is None when nobody answered. Times are seconds since the epoch."""

    id: str
    tool: str
    door: str
    maid: str
    asked_at: float
    settled_at: float
    approved: bool | None
    by: str
    reason: str


class ApprovalHistory:
    """Hears ``ApprovalAsked`` and ``ApprovalSettled``. Arguments are not kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: OrderedDict[str, ApprovalAsked] = OrderedDict()
        self._decided: deque[Decided] = deque(maxlen=MAX_KEPT)

    def heard(self, event: Event) -> None:
        """Take a note; quick, and never raises."""
        if isinstance(event, ApprovalAsked):
            self._asked[event.request_id] = event
            while len(self._asked) > MAX_WAITING:
                self._asked.popitem(last=False)
        elif isinstance(event, ApprovalSettled):
            asked = self._asked.pop(event.request_id, None)
            now = self._clock()
            self._decided.append(
                Decided(
                    event.request_id,
                    event.tool[:MAX_CHARS],
                    asked.context.door.value if asked is not None else "",
                    ((asked.call.maid or "") if asked is not None else "")[:MAX_CHARS],
                    asked.asked_at if asked is not None else now,
                    now,
                    event.approved,
                    event.by[:MAX_CHARS],
                    event.reason,
                )
            )

    def last(self, count: int = MAX_KEPT) -> tuple[Decided, ...]:
        """The last of them, the latest first."""
        return tuple(reversed(self._decided))[:count]
