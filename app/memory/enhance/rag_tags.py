"""rag_tags.json: what notebooks are about and when their gates open (memory.md 5.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.memory.enhance.documents import LiveDocument, words_in

FILE_NAME = "rag_tags.json"
TAGS_LIMIT = 200
MOST_REPEATS = 10
"""A tag's weight is how often it is written into the text that is embedded; at most this."""


@dataclass(frozen=True, slots=True)
class NotebookTopic:
    """The tags of one notebook with their weights, and its threshold (None: the default)."""

    tags: tuple[tuple[str, float], ...]
    threshold: float | None


def parsed_topics(document: Mapping[str, object]) -> dict[str, NotebookTopic]:
    """Notebook -> topic, from ``{"tags": ["name", "name:1.5"], "threshold": 0.6}`` or a bare list of tags.

    A threshold of 0 is 0. What is no number, not finite or below 0 counts as not said; above 1 the gate never opens.
    """
    return {name.strip(): _topic(entry) for name, entry in document.items() if isinstance(entry, dict | list)}


def _topic(entry: dict[str, object] | list[object]) -> NotebookTopic:
    listed = entry.get("tags") if isinstance(entry, dict) else entry
    threshold = entry.get("threshold") if isinstance(entry, dict) else None
    return NotebookTopic(tuple(_weighted(tag) for tag in words_in(listed, TAGS_LIMIT)), _threshold(threshold))


def _weighted(tag: str) -> tuple[str, float]:
    name, colon, number = tag.rpartition(":")
    try:
        weight = float(number) if colon and name.strip() else math.nan
    except ValueError:
        weight = math.nan
    return (name.strip(), weight) if math.isfinite(weight) else (tag, 1.0)


def _threshold(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def enhanced_text(notebook: str, topic: NotebookTopic) -> str | None:
    """Name, the words for related topics, and the tags, each max(1, round(weight)) times; None without tags."""
    if not topic.tags:
        return None
    repeated = [
        tag for tag, weight in topic.tags for _ in range(min(MOST_REPEATS, max(1, math.floor(max(0.0, weight) + 0.5))))
    ]
    return f"{notebook}的相关主题：{', '.join(repeated)}"


class RagTags:
    """The live file; implements ``Topics`` of the gate."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._file = LiveDocument(folder / FILE_NAME, parsed_topics, clock)

    @property
    def version(self) -> int:
        """Grows when the file has changed; result caches carry it in their keys (3.7)."""
        self._file.value()
        return self._file.version

    def threshold(self, notebook: str) -> float | None:
        """The threshold of a notebook, None when the file says nothing usable."""
        topic = self._file.value().get(notebook)
        return topic.threshold if topic is not None else None

    def enhanced_text(self, notebook: str) -> str | None:
        """The text of name and tags that the gate embeds."""
        topic = self._file.value().get(notebook)
        return enhanced_text(notebook, topic) if topic is not None else None
