"""The question of one turn (memory.md 2.3, 4.2)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.memory.recall.question import recall_query, untimed
from app.memory.time_words import find_time_spans

NOW = datetime(2025, 11, 27, 15, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("上周五读的是哪本书", "读的是哪本书"),
        ("上个月和昨天吃过什么", "和 吃过什么"),
        ("最近读了什么", ""),  # soft: nothing is filtered by it
        ("昨天？", ""),
        ("读了什么", ""),
    ],
)
def test_a_question_without_its_time_words_is_what_notes_of_those_days_are_asked(text: str, left: str) -> None:
    """Notes have dates, not 上周五; the word would only find notes that speak of another Friday."""
    assert untimed(text, find_time_spans(text, NOW)) == left


def test_the_question_carries_both_forms() -> None:
    query = recall_query([{"role": "user", "content": "去年夏天去过哪里"}], NOW)
    assert query.user == "去年夏天去过哪里"
    assert query.untimed == "去过哪里"
