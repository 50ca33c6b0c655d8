"""Time words in Chinese and English: text and a moment in, ranges of days out (memory.md 4)."""

from __future__ import annotations

from app.memory.time_words.finder import find_time_spans
from app.memory.time_words.phrase_table import find_time_spans_n2025
from app.memory.time_words.spans import MAX_CANDIDATES, MAX_SPANS, Granularity, TimeSpan, WeekStart

__all__ = [
    "MAX_CANDIDATES",
    "MAX_SPANS",
    "Granularity",
    "TimeSpan",
    "WeekStart",
    "find_time_spans",
    "find_time_spans_n2025",
]
