"""Numbers over time: the last hour in steps of five seconds, the last seven days in steps of one minute.

Rings of a fixed size hold them. What happens is counted from the event bus; the state of the process is sampled. One
small file keeps them over a restart.
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan

from app.extend import CallFinished, Event, Outcome, RoundFinished, TurnFinished, TurnStarted

OBSERVED = (CallFinished, RoundFinished, TurnFinished, TurnStarted)
"""The kinds of events that are counted."""

COUNTED = ("turns", "failed_turns", "rounds", "prompt_tokens", "completion_tokens", "calls", "failed_calls")
"""What is counted: a point holds how many there were in its step."""

MEASURED = ("processor", "memory", "delay")
"""What is measured: percent of one processor, bytes, longest delay of the event loop in seconds.

A point holds the mean of its step, and of the delay the longest.
"""

SERIES = (*MEASURED, *COUNTED)

SAMPLE_SECONDS = 5
FINE_STEP, FINE_SIZE = SAMPLE_SECONDS, 720
COARSE_STEP, COARSE_SIZE = 60, 7 * 24 * 60

MAX_TOKENS = 1e9
"""Most tokens of one round that are believed."""

MAX_FILE_BYTES = 8 * 1024 * 1024
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Range:
    """A span of time that can be asked for: steps of a ring, ``together`` of them in one point."""

    fine: bool
    steps: int
    together: int


@dataclass(frozen=True, slots=True)
class Told:
    """Points of a range: each lasts ``seconds`` and begins at its time, in seconds since the epoch; None is a gap."""

    range: str
    seconds: int
    times: Sequence[int]
    series: Mapping[str, Sequence[float | None]]


RANGES: Mapping[str, Range] = {
    "hour": Range(True, FINE_SIZE, 4),
    "day": Range(False, 24 * 60, 5),
    "week": Range(False, COARSE_SIZE, 30),
}


class Ring:
    """Numbers of steps of equal length; the newest ``size`` are kept. A step that nobody sampled has none."""

    def __init__(self, step: int, size: int) -> None:
        self.step = step
        self.size = size
        self.last = -1  # the number of the newest step, counted from the epoch
        self.samples = array("L", bytes(array("L").itemsize * size))
        self.values = [array("d", [nan]) * size for _ in SERIES]

    def add(self, now: float, measured: Sequence[float], counted: Sequence[float]) -> None:
        """One sample. A clock that was set back takes the steps behind it away."""
        number = int(now // self.step)
        if number != self.last:
            self._move(number)
        place = number % self.size
        self.samples[place] += 1
        share = 1 / self.samples[place]
        for series, value in enumerate(measured):
            kept = self.values[series]
            before = kept[place]
            if isnan(before):
                kept[place] = value
            elif MEASURED[series] == "delay":
                kept[place] = max(before, value)
            else:
                kept[place] = before + (value - before) * share
        for series, value in enumerate(counted, len(measured)):
            before = self.values[series][place]
            self.values[series][place] = value if isnan(before) else before + value

    def points(self, now: float, steps: int, together: int) -> tuple[list[int], dict[str, list[float | None]]]:
        """Times, in seconds since the epoch, and the points of each series from the oldest to the newest."""
        newest = int(now // self.step)
        first = (newest // together - steps // together + 1) * together
        times: list[int] = []
        told: dict[str, list[float | None]] = {name: [] for name in SERIES}
        for begin in range(first, newest + 1, together):
            times.append(begin * self.step)
            places = [
                number % self.size
                for number in range(begin, min(begin + together, newest + 1))
                if self.last - self.size < number <= self.last
            ]
            for name, kept in zip(SERIES, self.values, strict=True):
                told[name].append(_together(name, [kept[place] for place in places if not isnan(kept[place])]))
        return times, told

    def _move(self, number: int) -> None:
        if number > self.last:
            gone = range(max(self.last + 1, number - self.size + 1), number + 1)
        else:
            gone = range(number, min(self.last, number + self.size - 1) + 1)
        for old in gone:
            place = old % self.size
            self.samples[place] = 0
            for kept in self.values:
                kept[place] = nan
        self.last = number


class History:
    """Counts events and takes samples. ``clock`` tells seconds since the epoch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._fine, self._coarse = Ring(FINE_STEP, FINE_SIZE), Ring(COARSE_STEP, COARSE_SIZE)
        self._counts = dict.fromkeys(COUNTED, 0.0)

    def observe(self, event: Event) -> None:
        """Count one event; quick, and never raises."""
        counts = self._counts
        match event:
            case TurnStarted():
                counts["turns"] += 1
            case TurnFinished():
                counts["failed_turns"] += event.outcome is Outcome.ERROR
            case RoundFinished():
                counts["rounds"] += 1
                for kind in ("prompt_tokens", "completion_tokens") if event.usage else ():
                    tokens = (event.usage or {}).get(kind)
                    if isinstance(tokens, int | float) and 0 <= tokens <= MAX_TOKENS:
                        counts[kind] += tokens
            case CallFinished():
                counts["calls"] += 1
                counts["failed_calls"] += event.outcome is Outcome.ERROR
            case _:
                pass

    def sample(self, processor: float, memory: float, delay: float) -> None:
        """Put what was measured, and what was counted since the last sample, into the rings."""
        now, counted = self._clock(), tuple(self._counts.values())
        for ring in (self._fine, self._coarse):
            ring.add(now, (processor, memory, delay), counted)
        self._counts = dict.fromkeys(COUNTED, 0.0)

    def told(self, name: str) -> Told:
        """The points of a range of ``RANGES``; KeyError for another name."""
        span = RANGES[name]
        ring = self._fine if span.fine else self._coarse
        times, series = ring.points(self._clock(), span.steps, span.together)
        return Told(name, ring.step * span.together, times, series)

    def kept(self) -> bytes:
        """All numbers, for a file. Not compressed yet: that may be done elsewhere."""
        head = {"version": _VERSION, "series": SERIES, "last": [self._fine.last, self._coarse.last]}
        blocks = [json.dumps(head).encode() + b"\n"]
        for ring in (self._fine, self._coarse):
            blocks += [array("d", ring.samples).tobytes(), *(kept.tobytes() for kept in ring.values)]
        return b"".join(blocks)

    def take_over(self, data: bytes) -> None:
        """Put in what ``kept`` gave; ValueError when it is anything else, and then nothing has changed."""
        head, _, rest = data.partition(b"\n")
        told = json.loads(head)
        wanted = {"version": _VERSION, "series": list(SERIES)}
        if not isinstance(told, dict) or {name: told.get(name) for name in wanted} != wanted:
            raise ValueError("these are other numbers")
        lasts = told.get("last")
        rings = (Ring(FINE_STEP, FINE_SIZE), Ring(COARSE_STEP, COARSE_SIZE))
        width = array("d").itemsize
        if len(rest) != sum(ring.size * width * (len(SERIES) + 1) for ring in rings):
            raise ValueError("a part is missing")
        if not isinstance(lasts, list) or len(lasts) != len(rings):
            raise ValueError("the last steps are missing")
        begin = 0
        for ring, last in zip(rings, lasts, strict=True):
            if type(last) is not int or not -1 <= last < 1e11:
                raise ValueError("a last step is none")
            blocks = []
            for _ in range(len(SERIES) + 1):
                blocks.append(array("d", rest[begin : begin + ring.size * width]))
                begin += ring.size * width
            if not all(0 <= number < 1e9 for number in blocks[0]):
                raise ValueError("a number of samples is none")
            if not all(isnan(number) or (isfinite(number) and number >= 0) for block in blocks[1:] for number in block):
                raise ValueError("a number is none")
            ring.last, ring.samples, ring.values = last, array("L", map(int, blocks[0])), blocks[1:]
        self._fine, self._coarse = rings


def packed(data: bytes) -> bytes:
    """As it stands in the file."""
    return zlib.compress(data, 1)


def unpacked(data: bytes) -> bytes:
    """What was ``packed``; ValueError when it is damaged, or holds more than there can be."""
    unpacking = zlib.decompressobj()
    try:
        whole = unpacking.decompress(data, MAX_FILE_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacking.eof:
        raise ValueError("it is cut off, or too large")
    return whole


def _together(name: str, values: Sequence[float]) -> float | None:
    if not values:
        return None
    if name in COUNTED:
        return sum(values)
    return round(max(values) if name == "delay" else sum(values) / len(values), 6)
