"""A prompt of a trace for people: runs of text by their source, sizes, colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.extend import Json
from app.protocol.json_text import pretty_json

HUES = 12
"""Colours that the style sheet has; further sources share them."""

MAX_TEXT = 20_000
"""Characters of one text that are shown."""

MAX_ALL = 120_000
MAX_MESSAGES = 200
MAX_RUNS = 400
MAX_SOURCES = 60


@dataclass(frozen=True, slots=True)
class Run:
    """A run of text; ``text`` None: it is not kept, only its length."""

    source: str
    trust: str
    hue: int
    chars: int
    text: str | None


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """One message: its runs, what else is in it as JSON, how many characters are not shown."""

    role: str
    runs: tuple[Run, ...]
    other: str
    chars: int
    hidden: int


@dataclass(frozen=True, slots=True)
class Source:
    """Who put in how much."""

    name: str
    trust: str
    hue: int
    chars: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class PromptView:
    """The messages that are shown, the sources of all, the largest first, and how many messages are not shown."""

    messages: tuple[ShownMessage, ...]
    sources: tuple[Source, ...]
    chars: int
    left_out: int


def before_view(prompt: Mapping[str, Any]) -> PromptView:
    """What the client sent."""
    shown = _Showing({})
    messages = [
        shown.message(message, {part: None for part, _ in _texts(message)})
        for message in prompt["before"][:MAX_MESSAGES]
    ]
    left_out = prompt["left_out"] + max(0, len(prompt["before"]) - MAX_MESSAGES)
    return PromptView(tuple(messages), (), sum(one.chars for one in messages), left_out)


def after_view(prompt: Mapping[str, Any]) -> PromptView:
    """What the model got, with who wrote which part."""
    totals: dict[tuple[str, str], int] = {}
    for origin in prompt["origins"]:
        for source, trust, chars in origin["runs"]:
            totals[source, trust] = totals.get((source, trust), 0) + chars
    ordered = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    hues = {key: number % HUES for number, (key, _) in enumerate(ordered)}
    shown = _Showing(hues)
    runs = {(origin["message"], origin["part"]): origin["runs"] for origin in prompt["origins"]}
    messages = [
        shown.message(message, {part: runs.get((index, part)) for part, _ in _texts(message)})
        for index, message in enumerate(prompt["after"][:MAX_MESSAGES])
    ]
    whole = max(1, sum(totals.values()))
    sources: list[Source] = []
    x = 0.0
    for (name, trust), chars in ordered[:MAX_SOURCES]:
        width = 1000.0 * chars / whole
        sources.append(Source(name, trust, hues[name, trust], chars, round(x, 2), round(width, 2)))
        x += width
    left_out = prompt["left_out"] + max(0, len(prompt["after"]) - MAX_MESSAGES)
    return PromptView(tuple(messages), tuple(sources), sum(totals.values()), left_out)


def _texts(message: Mapping[str, Any]) -> list[tuple[int | None, Json]]:
    """The texts of a message by their part."""
    content = message.get("content")
    if isinstance(content, list):
        return [
            (number, part["text"])
            for number, part in enumerate(content)
            if isinstance(part, Mapping) and part.get("type") == "text" and "text" in part
        ]
    return [] if content is None else [(None, content)]


class _Showing:
    """Cuts texts into runs, within what a page may hold."""

    def __init__(self, hues: Mapping[tuple[str, str], int]) -> None:
        self._hues = hues
        self._left = MAX_ALL

    def message(self, message: Mapping[str, Any], runs_by_part: Mapping[int | None, Any]) -> ShownMessage:
        runs: list[Run] = []
        chars = hidden = 0
        for part, text in _texts(message):
            length = len(text) if isinstance(text, str) else int((text or {}).get("chars", 0))
            found = runs_by_part.get(part) or [["message", "message", length]]
            chars += length
            hidden += self._runs(text if isinstance(text, str) else None, found, runs)
        return ShownMessage(str(message.get("role", "")), tuple(runs), _other(message), chars, hidden)

    def _runs(self, text: str | None, found: Any, runs: list[Run]) -> int:
        """Add the runs of one text; how many of its characters are not shown."""
        allowed = min(MAX_TEXT, self._left)
        place = hidden = 0
        for source, trust, chars in found:
            hue = self._hues.get((source, trust), -1)
            if text is None:
                runs.append(Run(source, trust, hue, chars, None))
                continue
            kept = max(0, min(chars, allowed - place))
            if kept and len(runs) < MAX_RUNS:
                runs.append(Run(source, trust, hue, chars, text[place : place + kept]))
                self._left -= kept
            else:
                kept = 0
            hidden += chars - kept
            place += chars
        return hidden


def _other(message: Mapping[str, Any]) -> str:
    """What is no text in a message: pictures, function calls."""
    content = message.get("content")
    rest = {name: value for name, value in message.items() if name not in ("role", "content")}
    if isinstance(content, list):
        parts = [part for part in content if not (isinstance(part, Mapping) and part.get("type") == "text")]
        rest |= {"content": parts} if parts else {}
    return pretty_json(rest)[:MAX_TEXT] if rest else ""
