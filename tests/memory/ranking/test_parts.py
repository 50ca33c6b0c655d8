"""Neighbours, priors, decay, budget, time path: each against values made by hand."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.ranking.budget import kept_within, shortened
from app.memory.ranking.decay import Decay
from app.memory.ranking.injection import fitting, whole_text
from app.memory.ranking.neighbours import ALONE, missing_neighbours, neighbour_gains
from app.memory.ranking.priors import in_any, recency
from app.memory.ranking.requests import DateRange, RecallQuery
from app.memory.ranking.time_path import hard_ranges, newest_first, raising_ranges, time_hits
from tests.memory.ranking.records import hit, record

TODAY = date(2025, 11, 27)


def test_a_chunk_gains_half_of_its_best_neighbour() -> None:
    """11.9."""
    gains = neighbour_gains({1: 1.0, 2: 0.2, 3: 0.6, 9: 0.5}, {7: [1, 2, 3], 8: [9]})
    assert gains == pytest.approx({1: 0.1, 2: 0.5, 3: 0.1, 9: 0.5 * ALONE * 0.5})


def test_a_note_of_one_chunk_is_not_behind_a_long_one_because_it_has_no_neighbours() -> None:
    scores = {1: 0.8, 2: 0.3, 9: 0.8}
    gains = neighbour_gains(scores, {7: [1, 2], 8: [9]})
    assert gains[9] >= gains[1]


def test_a_better_neighbour_is_not_overtaken_by_what_it_gives() -> None:
    """Smoothing does not swamp: without a score of its own a chunk has half of its neighbour's."""
    scores = {1: 1.0, 2: 0.0}
    gains = neighbour_gains(scores, {7: [1, 2]})
    assert scores[2] + gains[2] < scores[1] + gains[1]


def test_only_neighbours_that_are_not_scored_yet_are_missing() -> None:
    assert missing_neighbours({2: 1.0, 5: 1.0}, {7: [1, 2, 3], 8: [5], 9: [6, 8]}) == [1, 3]


def test_the_prior_of_a_new_note_is_five_hundredths_and_half_of_it_after_ninety_days() -> None:
    """11.15: score += 0.05·0.5^(age/90 d), off for notebooks ending in 的知识 and 簇."""
    assert recency(TODAY, TODAY, "小克") == pytest.approx(0.05)
    assert recency(date(2025, 8, 29), TODAY, "小克") == pytest.approx(0.025)
    assert recency(date(2026, 1, 1), TODAY, "小克") == pytest.approx(0.05)
    assert recency(None, TODAY, "小克") == recency(TODAY, TODAY, "小克的知识") == recency(TODAY, TODAY, "反思簇") == 0.0


def test_time_decay_halves_with_its_half_life_and_drops_what_is_too_little() -> None:
    """2.5 ``::TimeDecay30/0.5``."""
    decay = Decay.of(30, 0.5, ())
    assert decay is not None
    assert decay.factor(date(2025, 10, 28), TODAY, ()) == pytest.approx(0.5)
    assert decay.drops(0.5, 0.9)
    assert not decay.drops(0.8, 0.7)
    assert not decay.drops(1.0, 0.1)  # what has not aged is for ::Truncate to judge
    assert not decay.drops(0.5, None)
    assert decay.factor(None, TODAY, ()) == 1.0


def test_time_decay_with_tags_lets_all_other_notes_be() -> None:
    decay = Decay.of(30, 0.5, ("日常", "Work"))
    assert decay is not None
    assert decay.factor(date(2020, 1, 1), TODAY, ("旅行",)) == 1.0
    assert decay.factor(date(2025, 10, 28), TODAY, ("work",)) == pytest.approx(0.5)


@pytest.mark.parametrize("half_life", [0.0, -5.0, math.nan, math.inf])
def test_a_half_life_that_is_none_is_the_usual_one(half_life: float) -> None:
    decay = Decay.of(half_life, math.nan, ())
    assert decay == Decay(30.0, 0.0)
    assert Decay.of(None, 0.5, ()) is None


def test_the_time_path_adds_its_share_of_k_but_at_least_three() -> None:
    """2.7."""
    assert [time_hits(k, 0.2) for k in (0, 5, 15, 20, 10**9)] == [3, 3, 3, 4, 50]
    assert time_hits(10, 1.0) == 10
    assert time_hits(20, math.nan) == 4
    assert time_hits(20, 7.0) == 20


def test_only_ranges_of_the_persons_own_words_filter_and_soft_ones_never() -> None:
    """4.2: the model's text adds a soft boost only."""
    own, lately, of_model = (
        DateRange(date(2025, 11, 17), date(2025, 11, 23)),
        DateRange(date(2025, 11, 20), TODAY, soft=True),
        DateRange(date(2025, 1, 1), date(2025, 1, 31)),
    )
    upside_down = DateRange(TODAY, date(2025, 1, 1))
    query = RecallQuery("", "", datetime.now(UTC), "", (own, lately, own, upside_down), (of_model,))
    assert hard_ranges(query) == (own,)
    assert raising_ranges(query) == (own, lately, upside_down, of_model)
    assert in_any(date(2025, 11, 23), [own])
    assert not in_any(date(2025, 11, 24), [own])
    assert not in_any(None, [own])


def test_hits_of_the_time_path_come_newest_first_and_undated_ones_last() -> None:
    """2.7."""
    hits = [hit(1), hit(2, day=date(2025, 1, 1)), hit(3, day=TODAY), hit(4, day=TODAY)]
    assert [one.chunk.id for one in newest_first(hits)] == [3, 4, 2, 1]


@given(st.lists(st.integers(-3, 50), max_size=12), st.integers(-5, 120))
def test_the_budget_is_never_exceeded_and_hits_go_from_the_tail(sizes: list[int], tokens: int) -> None:
    """11.17."""
    hits = [hit(number, tokens=size) for number, size in enumerate(sizes)]
    kept = kept_within(hits, tokens)
    assert sum(max(0, one.tokens) for one in hits[:kept]) <= max(0, tokens)
    if kept < len(hits) and tokens >= 0:
        assert sum(max(0, one.tokens) for one in hits[: kept + 1]) > tokens


@given(*[st.lists(st.integers(1, 40), max_size=6)] * 3, st.integers(0, 150), st.floats(0, 1))
def test_three_lists_together_never_exceed_the_budget(
    main: list[int], timely: list[int], second: list[int], tokens: int, share: float
) -> None:
    """11.17."""
    lists = [
        [hit(at, "字" * size + "。", tokens=size) for at, size in enumerate(one)] for one in (main, timely, second)
    ]
    kept = fitting(*lists, tokens, share, len)
    assert sum(one.tokens for part in kept[:3] for one in part) <= tokens
    cut = len(kept[3])
    assert cut + sum(map(len, kept[:3])) == sum(map(len, lists))
    assert {one.reason for one in kept[3]} <= {"budget"}


def test_the_time_path_is_sure_of_its_share_and_the_second_hop_goes_first() -> None:
    main = [hit(at, tokens=30) for at in range(4)]
    kept = fitting(main, [hit(8, tokens=20)], [hit(9, tokens=30)], 100, 0.2, len)
    assert [[one.chunk.id for one in part] for part in kept[:3]] == [[0, 1], [8], []]
    assert [one.chunk_id for one in kept[3]] == [2, 3, 9]


def test_a_first_hit_that_is_too_large_keeps_its_first_whole_sentences() -> None:
    """11.17: never cut in the middle of a sentence, nor in a number."""
    long = hit(1, "圆周率是 3.14。第二句！第三句没有放下的地方。")
    cut = shortened(long, 18, len)
    assert cut is not None
    assert (cut.text, cut.tokens) == ("圆周率是 3.14。第二句！", 14)
    assert shortened(long, 3, len) is None
    english = shortened(hit(1, "It cost 3.50 euros. Then we left. Home."), 20, len)
    assert english is not None
    assert english.text == "It cost 3.50 euros."


def test_a_whole_note_is_put_together_from_overlapping_chunks() -> None:
    text = "第一段说了开头。\n第二段说了中间。\n第三段说了结尾。"
    chunks = [record(1, text[0:12], start=0), record(2, text[8:20], start=8), record(3, text[18:], start=18)]
    assert whole_text(chunks) == text
    assert whole_text(chunks[::-1]) == text
    assert whole_text([chunks[0], chunks[2]]) == f"{text[:12]}\n{text[18:]}"
