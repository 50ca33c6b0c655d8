"""The question of one turn, made once for all declarations of its prompt (memory.md 2.3, 4, 11.18)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from app.memory.ranking.requests import DateRange, RecallQuery
from app.memory.time_words import TimeSpan, WeekStart, find_time_spans, find_time_spans_n2025
from app.protocol.recall_query import query_texts


def recall_query(
    messages: Sequence[Mapping[str, Any]], now: datetime, *, week_start: WeekStart = "monday", time_n2025: bool = False
) -> RecallQuery:
    """The texts of the conversation and the days that they name; ``now`` is in the configured zone.

    Only the user's own words are hard ranges (4.2); the table of version n2025 looks at both texts.
    """
    texts = query_texts(messages)
    if time_n2025:
        hard = find_time_spans_n2025(f"{texts.user}\n{texts.assistant}", now)
        return RecallQuery(texts.user, texts.assistant, now, texts.previous_user, _ranges(hard))
    hard = find_time_spans(texts.user, now, week_start=week_start)
    soft = find_time_spans(texts.assistant, now, week_start=week_start)
    return RecallQuery(texts.user, texts.assistant, now, texts.previous_user, _ranges(hard), _ranges(soft))


def _ranges(spans: Iterable[TimeSpan]) -> tuple[DateRange, ...]:
    return tuple(dict.fromkeys(DateRange(span.first, span.last, span.soft) for span in spans))
