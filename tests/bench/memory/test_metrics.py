"""Measures against values computed by hand."""

from __future__ import annotations

from math import isnan, log2

import pytest

from bench.memory.metrics import gate, ndcg, paired_interval, recall, reciprocal_rank, tokens

RANKED = ("d", "a", "x", "b", "y", "c")


def test_recall_is_the_share_of_answers_among_the_first() -> None:
    assert recall(RANKED, {"a", "b", "z"}, 2) == pytest.approx(1 / 3)
    assert recall(RANKED, {"a", "b", "z"}, 5) == pytest.approx(2 / 3)
    assert recall(RANKED, {"a", "b"}, 4) == 1.0
    assert recall((), {"a"}, 10) == 0.0


def test_recall_without_an_answer_is_refused() -> None:
    with pytest.raises(ValueError):
        recall(RANKED, set(), 5)


def test_reciprocal_rank_counts_to_the_first_answer() -> None:
    assert reciprocal_rank(RANKED, {"a", "d"}) == 1.0
    assert reciprocal_rank(RANKED, {"b", "c"}) == 0.25
    assert reciprocal_rank(RANKED, {"nowhere"}) == 0.0


def test_ndcg_discounts_by_rank_and_divides_by_the_best_order() -> None:
    best = 1 + 1 / log2(3)
    assert ndcg(RANKED, {"a", "b"}, 10) == pytest.approx((1 / log2(3) + 1 / log2(5)) / best)
    assert ndcg(("a", "b", "x"), {"a", "b"}, 10) == pytest.approx(1.0)
    assert ndcg(("x", "a"), {"a", "b", "c"}, 2) == pytest.approx((1 / log2(3)) / best)


def test_an_answer_that_is_listed_twice_counts_once() -> None:
    assert ndcg(("a", "a"), {"a", "b"}, 2) == pytest.approx(1 / (1 + 1 / log2(3)))
    assert recall(("a", "a"), {"a", "b"}, 2) == 0.5


def test_the_gate_is_judged_by_whom_it_lets_in() -> None:
    judged = gate([True, True, True, False, False], [True, True, False, True, False])
    assert judged.precision == pytest.approx(2 / 3)
    assert judged.recall == pytest.approx(2 / 3)
    assert judged.kept_out == 0.5


def test_a_gate_that_lets_nobody_in_has_no_precision() -> None:
    judged = gate([False], [True])
    assert isnan(judged.precision) and judged.recall == 0.0 and isnan(judged.kept_out)


def test_the_interval_is_the_same_each_time_and_holds_the_mean() -> None:
    one = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0] * 20
    other = [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0] * 20
    told = paired_interval(one, other, seed=7)
    assert told == paired_interval(one, other, seed=7)
    assert told.mean == pytest.approx(0.25)
    assert told.low < told.mean < told.high
    # The mean of 160 draws that are 1 in a quarter of all cases: deviation sqrt(.25 * .75 / 160) = .0342.
    assert told.low == pytest.approx(0.25 - 1.96 * 0.0342, abs=0.012)
    assert told.high == pytest.approx(0.25 + 1.96 * 0.0342, abs=0.012)


def test_a_difference_that_is_always_the_same_has_no_width() -> None:
    told = paired_interval([0.5, 1.0, 0.75], [0.25, 0.75, 0.5])
    assert (told.low, told.mean, told.high) == (0.25, 0.25, 0.25)


@pytest.mark.parametrize(("one", "other"), [([], []), ([1.0], [1.0, 0.0])])
def test_an_interval_needs_the_same_questions_for_both(one: list[float], other: list[float]) -> None:
    with pytest.raises(ValueError):
        paired_interval(one, other)


def test_tokens_are_estimated_as_in_vector_m7() -> None:
    assert tokens("你好world") == 5
    assert tokens("") == 0
