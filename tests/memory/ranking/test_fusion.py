"""Fusion of meaning and words (memory.md 8.3, 11.7, 11.8), and of ranks (2.8)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.ranking.fusion import (
    DENSE_WEIGHT,
    LEAST_DENSE_WEIGHT,
    MOST_DENSE_WEIGHT,
    Fusion,
    dense_weight,
    fused,
    reciprocal_ranks,
)
from app.memory.ranking.reranking import rank_fused, rerank_depth, reranked

SCORES = st.dictionaries(st.integers(0, 30), st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=12)


def test_both_sides_are_placed_between_their_least_and_greatest_and_weighted_six_to_four() -> None:
    """11.7: w·norm(dense) + (1-w)·norm(BM25), w = 0.6, over the union of two lists."""
    found = fused({1: 0.9, 2: 0.8, 3: 0.7}, {1: 2.0, 3: 8.0}, 0.6)
    assert found[1] == pytest.approx(0.6 * 1.0 + 0.4 * 0.25)
    assert found[2] == pytest.approx(0.6 * 0.5 + 0.0)
    assert found[3] == pytest.approx(0.0 + 0.4 * 1.0)


def test_words_that_all_chunks_have_are_placed_above_the_least_of_them() -> None:
    assert fused({1: 0.9, 2: 0.8}, {1: 2.0, 2: 4.0}, 0.5) == pytest.approx({1: 0.5, 2: 0.5})


def test_without_vectors_words_alone_decide() -> None:
    assert fused(None, {1: 3.0, 2: 1.0, 3: 2.0}, 0.6) == pytest.approx({1: 1.0, 2: 0.0, 3: 0.5})


def test_without_words_meaning_alone_decides() -> None:
    assert fused({1: 0.9, 2: 0.7}, {}, 0.6) == pytest.approx({1: 1.0, 2: 0.0})


def test_a_chunk_whose_vector_is_not_made_yet_is_found_by_its_words() -> None:
    found = fused({1: 0.9, 2: 0.8}, {7: 5.0, 1: 1.0}, 0.6)
    assert found[7] == pytest.approx(1.0)
    assert found[7] > found[1]


def test_a_single_chunk_is_worth_everything() -> None:
    assert fused({1: 0.3}, {1: 0.1}, 0.6) == pytest.approx({1: 1.0})


@given(SCORES, SCORES, st.floats(allow_nan=True, allow_infinity=True))
def test_fused_scores_lie_between_zero_and_one_whatever_comes(
    dense: dict[int, float], lexical: dict[int, float], weight: float
) -> None:
    found = fused(dense, lexical, weight)
    assert set(found) == set(dense) | set(lexical)
    assert all(0.0 <= score <= 1.0 for score in found.values())


@given(SCORES, SCORES, st.randoms())
def test_the_order_of_the_lists_does_not_matter(
    dense: dict[int, float], lexical: dict[int, float], dice: object
) -> None:
    def shuffled(scores: dict[int, float]) -> dict[int, float]:
        pairs = list(scores.items())
        dice.shuffle(pairs)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
        return dict(pairs)

    assert fused(shuffled(dense), shuffled(lexical), 0.6) == fused(dense, lexical, 0.6)


def test_a_neighbour_outside_of_the_list_is_placed_at_the_border() -> None:
    fusion = Fusion.over({1: 0.9, 2: 0.7}, {1: 4.0}, 0.6)
    assert fusion.score(0.5, None) == 0.0
    assert fusion.score(0.95, 9.0) == 1.0
    assert fusion.score(math.nan, math.inf) == 0.0


@pytest.mark.parametrize("question", ["RX-7900 的驱动", "3.14 是什么", "“老地方” 在哪里", "the VPN of Q3"])
def test_digits_identifiers_and_quoted_text_give_words_more_weight(question: str) -> None:
    """11.8."""
    assert LEAST_DENSE_WEIGHT <= dense_weight(question, 300) < DENSE_WEIGHT


def test_where_notes_are_as_short_as_the_question_meaning_has_more_weight() -> None:
    """11.8."""
    assert dense_weight("和朋友吃饭", 10) == MOST_DENSE_WEIGHT > DENSE_WEIGHT
    assert dense_weight("和朋友吃饭", 11) == DENSE_WEIGHT
    assert DENSE_WEIGHT < dense_weight("和 2 个朋友吃饭", 10) < MOST_DENSE_WEIGHT  # digits count there too


def test_where_words_find_nothing_meaning_has_more_weight() -> None:
    """11.8: scores are placed between the least and the greatest, so chance looks like a find."""
    question = "那次爬斜面时发动机停了"
    weights = [dense_weight(question, 300, cover) for cover in (0.0, 0.1, 0.2, 0.3, 1.0)]
    assert weights == pytest.approx([0.75, 0.75, 0.625, 0.5, 0.5])


def test_reciprocal_ranks_begin_at_rank_one() -> None:
    assert reciprocal_ranks([5, 9]) == {5: 1 / 61, 9: 1 / 62}


def test_the_depth_of_reranking_is_k_times_the_multiplier_and_at_least_one() -> None:
    """2.4."""
    assert [rerank_depth(k, 2.0) for k in (0, 1, 5)] == [1, 2, 10]
    assert rerank_depth(3, 1.5) == 5
    assert rerank_depth(10**9, 10.0**9) == 200
    assert rerank_depth(4, math.nan) == 4


def test_a_text_that_could_not_be_scored_keeps_its_place_and_is_never_sorted_on_a_missing_value() -> None:
    """2.8, 11.11: a failed batch keeps its documents where they were."""
    assert reranked([1, 2, 3, 4, 5], {1: 0.1, 3: 0.9, 5: 0.5}) == [3, 2, 5, 4, 1]
    assert reranked([1, 2, 3], {}) == [1, 2, 3]
    assert reranked([1, 2, 3], {1: math.nan, 2: 0.1, 3: 0.2}) == [1, 3, 2]


def test_rerank_plus_fuses_both_orders_by_rank_with_the_weight_of_the_reranker() -> None:
    """2.5 ``::Rerank+0.7``: RRF; 0 is the order before, 1 the reranker's."""
    scores = {1: 0.1, 2: 0.2, 3: 0.9}
    assert rank_fused([1, 2, 3], scores, 0.0) == [1, 2, 3]
    assert rank_fused([1, 2, 3], scores, 1.0) == [3, 2, 1]
    # ranks before 1, 2, 3, after 3, 2, 1: 0.3/61 + 0.7/63 = .01603, 1/62 = .01613, 0.3/63 + 0.7/61 = .01624
    assert rank_fused([1, 2, 3], scores, 0.7) == [3, 2, 1]
