"""What is measured, in which order, and what the figures become."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from bench.load import Measured
from bench.replies import Shape
from bench.sides import Side, Stage

SHORT, LONG = Shape(10), Shape(60)
"""Two lengths: what a chunk costs is the difference."""

WHOLE = Shape(60, whole=True)
TOOL = Shape(10, tool=True)
TOOL_CONNECTIONS = 4
PLACEHOLDERS = "It is {{Date}} {{Time}}, {{Today}}, {{Festival}}. Say something of middling length, please."
PACED_CHUNKS = 5
SHORTEST_GAP = 1_000
PACED_RATE = 300
"""Requests a second while the time to the first token is measured, at every number of connections: far from the limit
of either side, where the time would only tell how long the queue is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured. ``repeats`` are pairs: pass-through, server, pass-through, server …"""

    connections: tuple[int, ...] = (1, 32, 256)
    seconds: float = 0.45
    repeats: int = 3
    paced_seconds: float = 0.7
    paced_repeats: int = 2
    full: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result: medians of both sides, and the median of the ratios of neighbouring measurements.

    ``better`` says which direction is good. Figures are None where the system cannot tell.
    """

    case: str
    what: str
    unit: str
    connections: int
    baseline: float | None
    server: float | None
    ratio: float | None
    better: str


async def compare(stage: Stage, plan: Plan, tell: Callable[[str], None] = lambda _text: None) -> list[Row]:
    """Run the whole plan."""
    rows: list[Row] = []
    for connections in plan.connections:
        tell(f"{connections} connection(s)")
        for side in (stage.direct, stage.baseline, stage.server):
            await stage.driver.measure(side, SHORT, connections, 0, stream=True)  # opens the connections
        measured = {
            case: await _pairs(stage, plan, shape, connections, stream=stream)
            for case, shape, stream in (("plain", SHORT, False), ("stream", SHORT, True), ("long", LONG, True))
        }
        rows += _saturated("plain", connections, measured["plain"])
        rows += _saturated("stream", connections, measured["stream"])
        rows.append(_per_chunk("a chunk of its own", connections, measured["stream"], measured["long"]))
        if plan.full:
            whole = await _pairs(stage, plan, WHOLE, connections, stream=True)
            rows.append(_per_chunk("many chunks at once", connections, measured["stream"], whole))
            filled = await _pairs(stage, plan, SHORT, connections, stream=True, prompt=PLACEHOLDERS)
            rows += _saturated("placeholders", connections, filled)
        rows.append(await _first_token(stage, plan, connections))
    if plan.full:
        tell("tool calls")
        rows += await _tool_rounds(stage, plan)
    return rows


Pair = tuple[Measured, Measured]


async def _pairs(
    stage: Stage, plan: Plan, shape: Shape, connections: int, *, stream: bool, **how: str | float
) -> list[Pair]:
    pairs = []
    for _ in range(plan.repeats):
        first, second = [
            await stage.driver.measure(side, shape, connections, plan.seconds, stream=stream, **how)
            for side in (stage.baseline, stage.server)
        ]
        pairs.append((first, second))
    return pairs


def _saturated(case: str, connections: int, pairs: list[Pair]) -> Iterator[Row]:
    rates = [(one.rate, other.rate) for one, other in pairs]
    yield row_of(case, "requests", "1/s", connections, rates, "higher")
    costs = [(_micros(one.cpu_each), _micros(other.cpu_each)) for one, other in pairs]
    yield row_of(case, "CPU per request", "us", connections, costs, "lower")


def _per_chunk(case: str, connections: int, short: list[Pair], long: list[Pair]) -> Row:
    more = LONG.chunks - SHORT.chunks

    def cost(brief: Measured, lengthy: Measured) -> float | None:
        if brief.cpu_each is None or lengthy.cpu_each is None:
            return None
        return (lengthy.cpu_each - brief.cpu_each) * 1e6 / more

    costs = [(cost(a, c), cost(b, d)) for (a, b), (c, d) in zip(short, long, strict=True)]
    return row_of(case, "CPU per chunk", "us", connections, costs, "lower")


async def _first_token(stage: Stage, plan: Plan, connections: int) -> Row:
    """The time to the first token beyond what the model itself takes, while replies come at an even pace."""
    lasting = connections / PACED_RATE  # seconds of one reply
    shape = Shape(PACED_CHUNKS, max(SHORTEST_GAP, round(lasting * 1e6 / PACED_CHUNKS)))
    stagger = lasting if connections > 1 else 0.0

    async def first(side: Side) -> float:
        measured = await stage.driver.measure(
            side, shape, connections, plan.paced_seconds, stream=True, stagger=stagger
        )
        return measured.first * 1e3

    added: list[tuple[float | None, float | None]] = []
    for _ in range(plan.paced_repeats):
        direct, passing, server = [await first(side) for side in (stage.direct, stage.baseline, stage.server)]
        added.append((passing - direct, server - direct))
    return row_of("paced stream", "added time to first token, p50", "ms", connections, added, "lower")


async def _tool_rounds(stage: Stage, plan: Plan) -> list[Row]:
    """Replies that need a tool: two requests to the model and a process of the calculator. No pass-through does it."""
    measured = [
        await stage.driver.measure(stage.server, TOOL, TOOL_CONNECTIONS, plan.seconds * 5, stream=True)
        for _ in range(plan.repeats)
    ]
    rates: list[tuple[float | None, float | None]] = [(None, one.rate) for one in measured]
    costs: list[tuple[float | None, float | None]] = [(None, _micros(one.cpu_each)) for one in measured]
    return [
        row_of("tool call", "requests", "1/s", TOOL_CONNECTIONS, rates, "higher"),
        row_of("tool call", "CPU per request", "us", TOOL_CONNECTIONS, costs, "lower"),
    ]


def _micros(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def row_of(
    case: str,
    what: str,
    unit: str,
    connections: int,
    pairs: list[tuple[float, float]] | list[tuple[float | None, float | None]],
    better: str,
) -> Row:
    """One measurement; ``pairs`` are the figures of pass-through and server that were taken in turn."""
    passing = _middle([one for one, _ in pairs if one is not None])
    server = _middle([other for _, other in pairs if other is not None])
    ratio = _middle([other / one for one, other in pairs if one is not None and other is not None and one > 0])
    if passing is None or server is None or passing <= 0 or server <= 0:
        ratio = None  # a difference that is lost in the noise
    return Row(case, what, unit, connections, passing, server, ratio, better)


def _middle(values: list[float]) -> float | None:
    return median(values) if values else None
