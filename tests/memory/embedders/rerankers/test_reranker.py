"""What is done with scores (memory.md 2.8, 11.11)."""

from __future__ import annotations

import math

import pytest

from app.memory.embedders.rerankers.reranker import batch_tokens, batches, order, shortened, sound_scores


def test_the_estimate_of_tokens() -> None:
    """M7: `你好world` has ceil(2·1.5 + 5·0.25) = 5."""
    assert batch_tokens("你好world") == 5
    assert batch_tokens("") == 0


def test_scored_places_are_ordered_among_themselves_and_the_others_stay() -> None:
    """2.8: never a comparison with a missing score; the order is kept for those (11.11)."""
    assert order(5, {0: 0.1, 2: 0.9, 4: 0.5}) == [2, 1, 4, 3, 0]
    assert order(3, {}) == [0, 1, 2]
    assert order(3, {0: 1.0, 1: 1.0, 2: 1.0}) == [0, 1, 2]
    assert order(0, {}) == []


def test_batches_stay_within_the_limit_with_the_question() -> None:
    documents = ["字" * 10] * 7 + ["字" * 1000] + ["short"]
    parts = list(batches("问题", documents, 63))
    assert [[place for place, _ in part] for part in parts] == [[0, 1, 2, 3], [4, 5, 6], [7], [8]]
    for part in parts:
        assert batch_tokens("问题") + sum(batch_tokens(text) for _, text in part) <= 63


@pytest.mark.parametrize("text", ["字" * 100, "word " * 100, "字a" * 100, ""])
def test_a_shortened_text_fits(text: str) -> None:
    for tokens in (1, 7, 50, 1000):
        kept = shortened(text, tokens)
        assert text.startswith(kept) and batch_tokens(kept) <= tokens


def test_scores_that_make_no_sense_are_left_out() -> None:
    entries = [
        (0, 0.5),
        (0, 0.9),
        (1, math.nan),
        (2, "x"),
        (3, True),
        (True, 1),
        (9, 1),
        (-1, 1),
        (None, 1),
        (4, 10**400),
    ]
    assert sound_scores(entries, [10, 11, 12, 13, 14]) == {10: 0.5}
