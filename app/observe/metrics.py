"""Counts and times of what happens, in the text format of Prometheus; fed by the event bus only.

Values of labels come from closed sets, or are names of installed tools and plugins, of which the first ``MAX_NAMES``
have a series of their own. What models and clients make up is never a label.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from app import __version__
from app.extend import (
    BackgroundResult,
    CallFinished,
    CallFound,
    DiaryWritten,
    Event,
    FirstToken,
    Outcome,
    Pushed,
    Reloaded,
    RoundFinished,
    RoundStarted,
    StaticRefreshed,
    TaskFinished,
    TaskScheduled,
    TurnFinished,
    TurnStarted,
)
from app.protocol.half_characters import whole

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

MAX_NAMES = 200
"""Tools and plugins with series of their own; all further ones are ``other``."""

MAX_TURNS = 10_000
"""Turns whose beginning is remembered; of more than these the oldest are not timed."""

UNKNOWN, OTHER = "unknown", "other"

OBSERVED = (
    BackgroundResult,
    CallFinished,
    CallFound,
    DiaryWritten,
    FirstToken,
    Pushed,
    Reloaded,
    RoundFinished,
    RoundStarted,
    StaticRefreshed,
    TaskFinished,
    TaskScheduled,
    TurnFinished,
    TurnStarted,
)
"""The kinds of events that are counted."""

_MODEL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
_TOOL_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_STREAM = ("true", "false", UNKNOWN)
_TOKEN_KINDS = ("prompt_tokens", "completion_tokens")

Labels = tuple[str, ...]
Reading = float | Mapping[Labels, float]
"""A number, or numbers by the values of their labels."""


class _Turn:
    __slots__ = ("began", "round_began", "stream")

    def __init__(self, began: float, stream: str) -> None:
        self.began = began
        self.round_began = began
        self.stream = stream


class Metrics:
    """All numbers of one server, in a registry of its own. ``clock`` is seconds, monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # lines that nobody reads
        self._clock = clock
        self._registry = registry = CollectorRegistry()
        self._watched = _Watched()
        registry.register(self._watched)
        ProcessCollector(registry=registry)
        self.watch("vcp_info", "The version that runs.", lambda: {(__version__,): 1}, labels=("version",))
        self._turns: OrderedDict[str, _Turn] = OrderedDict()
        self._names: set[str] = set()

        def counter(name: str, told: str, *labels: str) -> Counter:
            return Counter(name, told, labels, registry=registry)

        # What every turn and call counts is counted by hand and made into series when somebody asks: the library's own
        # counters take three times as long, which is a part of a turn that can be measured.
        self._ends: dict[Labels, float] = {(how.value, stream): 0 for how in Outcome for stream in _STREAM}
        self._rounds = 0
        self._tokens: dict[Labels, float] = {(kind,): 0 for kind in _TOKEN_KINDS}
        self.watch("vcp_turns", "Turns that ended.", lambda: self._ends, labels=("outcome", "stream"), counts=True)
        self.watch("vcp_rounds", "Rounds: requests to the model.", lambda: self._rounds, counts=True)
        self.watch(
            "vcp_tokens", "Tokens that the model API has reported.", lambda: self._tokens, labels=("kind",), counts=True
        )
        self._seconds = {stream: _Times(_MODEL_SECONDS) for stream in _STREAM[:2]}
        self._round_seconds, self._first_token = _Times(_MODEL_SECONDS), _Times(_MODEL_SECONDS)
        self._call_seconds: dict[str, _Times] = {}
        self._call_waits = _Times(_TOOL_SECONDS)
        registry.register(
            _TimesCollector(
                ("vcp_turn_seconds", "Seconds of a whole turn.", "stream", self._seconds),
                ("vcp_round_seconds", "Seconds of one answer of the model.", "", {"": self._round_seconds}),
                ("vcp_first_token_seconds", "Seconds until the first piece of an answer.", "", {"": self._first_token}),
                ("vcp_tool_call_seconds", "Seconds that a tool ran.", "tool", self._call_seconds),
                ("vcp_tool_wait_seconds", "Seconds that a call waited for a place.", "", {"": self._call_waits}),
            )
        )
        self._calls: dict[Labels, float] = {}
        self._doors: dict[Labels, float] = {}
        self.watch(
            "vcp_tool_calls", "Tool calls that ended.", lambda: self._calls, labels=("tool", "outcome"), counts=True
        )
        self.watch(
            "vcp_tool_calls_by_door",
            "Tool calls that ended, by where they came in.",
            lambda: self._doors,
            labels=("door", "outcome"),
            counts=True,
        )
        self._errors = counter("vcp_tool_errors", "Failed tool calls, by reason.", "kind")
        self._skipped = counter("vcp_tool_calls_skipped", "Calls that were found and not run.")
        self._diaries = counter("vcp_diaries_written", "Diary blocks that were stored.")
        self._results = counter("vcp_background_results", "Final results of background plugins.", "plugin")
        self._tasks = counter("vcp_scheduled_tasks", "Tool calls that were put off, and how they ended.", "state")
        self._statics = counter("vcp_static_refreshes", "Runs of static plugins.", "plugin", "outcome")
        self._pushes = counter("vcp_plugin_pushes", "Messages of plugins for connected clients.")
        self._reloads = counter("vcp_reloads", "Changed files that were put in force.", "outcome")

    def watch(
        self, name: str, told: str, read: Callable[[], Reading], *, labels: Sequence[str] = (), counts: bool = False
    ) -> None:
        """Show what ``read`` returns when the numbers are asked for; ``counts``: it only ever grows.

        ``read`` is called in the event loop and must be quick. ``labels`` are the names for the keys of a map.
        """
        self._watched.add(name, told, read, tuple(labels), counts)

    def text(self) -> bytes:
        """All numbers of now."""
        return generate_latest(self._registry)

    def observe(self, event: Event) -> None:
        """Count one event; quick, and never raises."""
        match event:
            case TurnStarted():
                self._turns[event.turn_id] = _Turn(self._clock(), "true" if event.stream else "false")
                while len(self._turns) > MAX_TURNS:
                    self._turns.popitem(last=False)
            case RoundStarted():
                self._rounds += 1
                if (turn := self._turns.get(event.turn_id)) is not None:
                    turn.round_began = self._clock()
            case FirstToken():
                self._time_round(self._first_token, event.turn_id)
            case RoundFinished():
                self._time_round(self._round_seconds, event.turn_id)
                for kind in _TOKEN_KINDS if event.usage else ():
                    self._count_tokens(kind, event.usage or {})
            case TurnFinished():
                turn = self._turns.pop(event.turn_id, None)
                stream = turn.stream if turn is not None else UNKNOWN
                self._ends[event.outcome.value, stream] += 1
                if turn is not None:
                    self._seconds[stream].observe(self._clock() - turn.began)
            case CallFound():
                if event.skipped_why:
                    self._skipped.inc()
            case CallFinished():
                self._count_call(event)
            case _:
                self._count_other(event)

    def _time_round(self, times: _Times, turn_id: str) -> None:
        turn = self._turns.get(turn_id)
        if turn is not None:
            times.observe(self._clock() - turn.round_began)

    def _count_tokens(self, kind: str, usage: Mapping[str, object]) -> None:
        tokens = usage.get(kind)
        if isinstance(tokens, int | float) and 0 <= tokens < 1e15:
            self._tokens[kind,] += tokens

    def _count_call(self, event: CallFinished) -> None:
        tool = UNKNOWN if event.spec is None else self._name(event.spec.name)
        outcome = event.outcome._value_  # the plain attribute: ``value`` is looked up in three steps
        self._calls[tool, outcome] = self._calls.get((tool, outcome), 0) + 1
        door = event.context.door._value_
        self._doors[door, outcome] = self._doors.get((door, outcome), 0) + 1
        if event.outcome is Outcome.ERROR and event.result.error_kind is not None:
            self._errors.labels(event.result.error_kind.value).inc()
        times = self._call_seconds.get(tool)
        if times is None:
            times = self._call_seconds[tool] = _Times(_TOOL_SECONDS)
        times.observe(event.ran)
        self._call_waits.observe(event.waited)

    def _count_other(self, event: Event) -> None:
        match event:
            case DiaryWritten():
                self._diaries.inc()
            case BackgroundResult():
                self._results.labels(self._name(event.plugin)).inc()
            case TaskScheduled():
                self._tasks.labels("scheduled").inc()
            case TaskFinished():
                self._tasks.labels("failed" if event.error else "done").inc()
            case StaticRefreshed():
                self._statics.labels(self._name(event.plugin), "error" if event.problem else "success").inc()
            case Pushed():
                self._pushes.inc()
            case Reloaded():
                self._reloads.labels("error" if event.problems else "success").inc()
            case _:
                pass

    def _name(self, name: str) -> str:
        if name in self._names:
            return name
        name = whole(name)  # half a character in one label would make the whole text unreadable
        if name not in self._names:
            if len(self._names) >= MAX_NAMES:
                return OTHER
            self._names.add(name)
        return name


class _Times:
    """How often which time was seen; ``bounds`` are the upper ends of the buckets, in seconds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """The end of each bucket and how many were not longer."""
        ends = (*map(floatToGoString, self.bounds), "+Inf")
        return list(zip(ends, accumulate(self.counts), strict=True))


class _TimesCollector(Collector):
    """Series of times, each with its name, its help, the name of its label if it has one, and the times by label."""

    def __init__(self, *series: tuple[str, str, str, Mapping[str, _Times]]) -> None:
        self._series = series

    def describe(self) -> Iterable[HistogramMetricFamily]:
        return ()

    def collect(self) -> Iterator[HistogramMetricFamily]:
        for name, told, label, by_label in self._series:
            family = HistogramMetricFamily(name, told, labels=(label,) if label else ())
            for value, times in by_label.items():
                family.add_metric((value,) if label else (), times.buckets(), times.total)
            yield family


class _Watched(Collector):
    """Numbers that are read when they are asked for."""

    def __init__(self) -> None:
        self._sources: list[tuple[str, str, Callable[[], Reading], Labels, bool]] = []

    def add(self, name: str, told: str, read: Callable[[], Reading], labels: Labels, counts: bool) -> None:
        self._sources.append((name, told, read, labels, counts))

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return ()  # registering must not read anything

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        for name, told, read, labels, counts in self._sources:
            family = CounterMetricFamily if counts else GaugeMetricFamily
            metric = family(name, told, labels=labels)
            reading = read()
            values = reading if isinstance(reading, Mapping) else {(): reading}
            for key, value in values.items():
                metric.add_metric(key, value)
            yield metric
