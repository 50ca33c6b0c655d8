"""A trace as bars: where each begins and ends, in thousandths of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.web.panel.numbers import duration

WIDTH = 1000.0
"""Of the whole, in the units of the drawing."""

THINNEST = 3.0
MAX_BARS = 400
TICKS = 4


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a bar; ``kind`` says what was done (``wait``, ``work``, ``ok``, ``bad``, ``stopped``, ``ask``)."""

    x: float
    width: float
    kind: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One line. ``kind`` is phase, round or call; ``start`` and ``seconds`` are None while it has not begun or ended.

    ``target`` is the id of the element that tells more, empty where there is none; ``inner`` stands below another.
    """

    kind: str
    label: str
    note: str
    start: float | None
    seconds: float | None
    segments: tuple[Segment, ...]
    target: str = ""
    inner: bool = False


@dataclass(frozen=True, slots=True)
class Waterfall:
    """All bars in the order of their beginning, the times of the ticks in seconds, and how many bars are left out."""

    bars: tuple[Bar, ...]
    ticks: tuple[float, ...]
    left_out: int


def span(seconds: float | None) -> str:
    """A short span of time, finer than other pages need it: ``40 µs``, ``0.4 ms``."""
    if seconds is not None and 0 < seconds < 0.0001:
        return f"{1_000_000 * seconds:.0f} µs"
    if seconds is not None and 0 < seconds < 0.01:
        return f"{1000 * seconds:.1f} ms"
    return duration(seconds)


def waterfall(document: Mapping[str, Any]) -> Waterfall:
    """The bars of a trace."""
    total = _total(document)
    scale = _Scale(total)
    found: list[tuple[float, int, Bar]] = []
    for phase in document["phases"]:
        segments = (scale.segment(phase["start"], phase["end"], "work"),)
        before, after = phase["pieces_before"], phase["pieces_after"]
        note = "" if before == after else f"{before} → {after}"
        seconds = phase["end"] - phase["start"]
        found.append((phase["start"], 0, Bar("phase", phase["name"], note, phase["start"], seconds, segments)))
    for one in document["rounds"]:
        found.append((one["start"], 1, _round(one, scale, document)))
    for number, call in enumerate(document["calls"]):
        found.append((call["found"], 2, _call(call, number, scale, document)))
    found.sort(key=lambda item: item[:2])
    bars = [bar for _, _, bar in found]
    ticks = tuple(total * step / TICKS for step in range(TICKS + 1))
    return Waterfall(tuple(bars[:MAX_BARS]), ticks, max(0, len(bars) - MAX_BARS))


class _Scale:
    def __init__(self, total: float) -> None:
        self.total = total

    def segment(self, start: float, end: float, kind: str) -> Segment:
        x = min(WIDTH - THINNEST, max(0.0, WIDTH * start / self.total))
        width = max(THINNEST, WIDTH * (end - start) / self.total)
        return Segment(round(x, 2), round(min(width, WIDTH - x), 2), kind)


def _total(document: Mapping[str, Any]) -> float:
    ends: list[float] = [document["duration"]]
    ends += [item["end"] for name in ("phases", "rounds", "calls") for item in document[name] if item["end"]]
    return max(max(ends), 1e-6)


def _round(one: Mapping[str, Any], scale: _Scale, document: Mapping[str, Any]) -> Bar:
    start, end = one["start"], one["end"]
    stop = end if end is not None else max(start, document["duration"])
    first = one.get("first_token")
    answered = one.get("answered")
    segments = [scale.segment(start, answered if answered is not None else stop, "wait")]
    if answered is not None and first is not None and first > answered:
        segments.append(scale.segment(answered, first, "ask"))
    if answered is not None:
        segments.append(scale.segment(first if first is not None else answered, stop, "work"))
    note = one.get("upstream") or ""
    seconds = None if end is None else end - start
    return Bar("round", str(one["number"]), note, start, seconds, tuple(segments), f"round-{one['number']}")


def _call(call: Mapping[str, Any], number: int, scale: _Scale, document: Mapping[str, Any]) -> Bar:
    found, start, end = call["found"], call["start"], call["end"]
    stop = end if end is not None else max(found, document["duration"])
    segments: list[Segment] = []
    if start is None or start > found:
        segments.append(scale.segment(found, start if start is not None else stop, "wait"))
    approval = call.get("approval")
    if approval:
        settled = approval["settled"]
        segments.append(scale.segment(approval["asked"], settled if settled is not None else stop, "ask"))
    if start is not None:
        kinds = {"success": "ok", "error": "bad", "cancelled": "stopped"}
        segments.append(scale.segment(start, stop, kinds.get(call.get("outcome", ""), "work")))
    label = f"{call['tool']}.{call['command']}" if call.get("command") else call["tool"]
    seconds = None if end is None else end - found
    inner = bool(call.get("parent_call"))
    return Bar("call", label, where(call), found, seconds, tuple(segments), f"call-{number}", inner)


def where(call: Mapping[str, Any]) -> str:
    """Where a call ran, in words that are the same in all languages."""
    place = call.get("place") or {}
    match place.get("kind"):
        case "node":
            return f"node {place['node']}"
        case "mcp":
            return f"MCP {place['server']}"
        case "process":
            return f"pid {place['pid']}"
        case _:
            return ""
