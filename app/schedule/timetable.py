"""Which task is due when. Pure: it knows no files and no clock."""

from __future__ import annotations

import heapq


class Timetable:
    """Names with the moment they are due; each is given out once, whatever the clock does.

    A clock that steps back gives nothing out a second time, one that steps forward skips nothing.
    """

    _SLACK = 64

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def __contains__(self, name: object) -> bool:
        return name in self._due

    def __len__(self) -> int:
        return len(self._due)

    def names(self) -> frozenset[str]:
        """All names that wait."""
        return frozenset(self._due)

    def moments(self) -> dict[str, float]:
        """All names that wait and the moment of each, the next first."""
        return dict(sorted(self._due.items(), key=lambda item: item[1]))

    def add(self, name: str, due: float) -> bool:
        """Wait for ``due``; false when the name waits already, and then its moment stays."""
        if name in self._due:
            return False
        self._due[name] = due
        heapq.heappush(self._heap, (due, name))
        return True

    def cancel(self, name: str) -> bool:
        """Wait no longer; false when the name did not wait."""
        if self._due.pop(name, None) is None:
            return False
        if len(self._heap) > 2 * len(self._due) + self._SLACK:
            self._heap = [(due, kept) for kept, due in self._due.items()]
            heapq.heapify(self._heap)
        return True

    def due(self, now: float) -> list[str]:
        """The names whose moment has come, earliest first; they wait no longer."""
        given = []
        while self._heap and self._heap[0][0] <= now:
            due, name = heapq.heappop(self._heap)
            if self._due.get(name) == due:
                del self._due[name]
                given.append(name)
        return given

    def next_due(self) -> float | None:
        """The earliest moment that is waited for."""
        while self._heap:
            due, name = self._heap[0]
            if self._due.get(name) == due:
                return due
            heapq.heappop(self._heap)
        return None
