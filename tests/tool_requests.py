"""Replies with tool requests as users really met them, and the calls that are in each (pitfalls P01 to P11)."""

from __future__ import annotations

T = "<<<[TOOL_REQUEST]>>>"
E = "<<<[END_TOOL_REQUEST]>>>"
NAME = "tool_name:「始」A「末」"

PITFALLS: list[tuple[str, list[tuple[str, dict[str, str]]]]] = [
    (f"<think>{T}{NAME}{E}</think> done", []),  # pitfall P01
    (f"```\n{T}{NAME}{E}\n```", [("A", {})]),  # P02
    ("<<[TOOL_REQUEST]>>" + NAME + "<<[END_TOOL_REQUEST]>>", []),  # P04
    (f"{T}tool_name:{{始}}A{{末}}{E}", []),
    (f"text {T} {NAME}, x:「始」half", []),  # P05
    (f"unclosed {T} x:「始」1「末」 {T}{NAME},x:「始」2「末」{E}", [("A", {"x": "2"})]),
    (
        f"{T}{NAME},content:「始」write tool_name:「始」B「末」 like this{E} tail「末」{E}",
        [("A", {"content": "write tool_name:「始」B"})],
    ),  # P06
    (
        f"{T}{NAME},say:「始」hello,\nmood:「始」calm「末」{E} {T}tool_name:「始」B「末」{E}",
        [("A", {"say": "hello,\nmood:「始」calm"}), ("B", {})],
    ),  # P07
    (f"{T}{NAME}，x：「始」1「末」，y:「始」2「末」{E}", [("A", {"y": "2"})]),  # P08
    (f"{T}tool_name:「始」Echo「末」 say:「始」x「末」 // note{E}", [("Echo", {"say": "x"})]),  # P09
    (f"{T}{NAME},recursive:「始」true「末」{E}", [("A", {"recursive": "true"})]),  # P10
    (
        f"{T}{NAME}," + ",".join(f"command{n}:「始」{n}「末」" for n in range(1, 11)) + E,
        [("A", {f"command{n}": str(n) for n in range(1, 11)})],
    ),  # P11
]
