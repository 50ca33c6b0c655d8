"""k fragments are k different memories (memory.md 11.12), and centroids of a notebook (2.6)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.embedders.embedder import Calibration
from app.memory.ranking.centroids import centroids
from app.memory.ranking.diversity import Shape, duplicate_cosine, select, similarities
from app.memory.ranking.query_vector import unit_vector, weighted_mean

PLAIN = {
    1: Shape.of("今天和老王去河边钓鱼，钓到三条鲫鱼。"),
    2: Shape.of("晚上在家读书，读到很晚才睡。"),
    3: Shape.of("新买的耳机坏了，要退货。"),
}

LONG = {number: Shape.of("".join(chr(0x4E00 + 97 * number + 3 * place) for place in range(60))) for number in PLAIN}


def test_the_one_that_repeats_least_comes_before_a_slightly_better_one() -> None:
    """MMR with λ = 0.7: 0.7·0.8 - 0.3·0 = .56 beats 0.7·0.9 - 0.3·0.9 = .36."""
    cosines = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    chosen = select([1, 2, 3], {1: 1.0, 2: 0.9, 3: 0.8}, PLAIN.__getitem__, cosines, 3, relevance=0.7)
    assert chosen.chosen == (1, 3, 2)
    assert not chosen.repeats


FISHING = "今天和老王去河边钓鱼，钓到三条鲫鱼，晚上在院子里红烧了吃，邻居闻着香味过来，又添了两双筷子，聊到半夜才散。"
MORE = "周末打算再去一次。"


def test_a_text_that_is_nearly_the_same_is_left_out() -> None:
    """Of its own pieces more than 0.8 are in one that was chosen."""
    shapes = {1: Shape.of(FISHING), 2: Shape.of(FISHING.replace("，", ", ").replace("院子", "屋子")), 3: PLAIN[3]}
    chosen = select([1, 2, 3], {1: 1.0, 2: 0.9, 3: 0.1}, shapes.__getitem__, None, 3)
    assert chosen.chosen == (1, 3)
    assert chosen.repeats == {2: 1}


def test_a_text_that_tells_more_than_the_one_it_holds_is_not_left_out() -> None:
    shapes = {1: Shape.of(FISHING[:50]), 2: Shape.of(FISHING + 4 * MORE + TEXT_ABOUT_OTHER_THINGS)}
    assert select([1, 2], {1: 1.0, 2: 0.9}, shapes.__getitem__, None, 2).chosen == (1, 2)
    assert select([2, 1], {1: 0.9, 2: 1.0}, shapes.__getitem__, None, 2).repeats == {1: 2}


TEXT_ABOUT_OTHER_THINGS = "回来路上给车加了油，又去药店买了眼药水，药师说早晚都要滴，开封以后放进冰箱才行。"


def test_a_meaning_that_is_nearly_the_same_is_left_out_if_half_of_the_words_are() -> None:
    """Cosine above 0.95; alone it is not enough, because the same may be told of two people."""
    cosines = np.array([[1.0, 0.96, 0.1], [0.96, 1.0, 0.1], [0.1, 0.1, 1.0]])
    shapes = {1: Shape.of(FISHING), 2: Shape.of(FISHING[:40] + TEXT_ABOUT_OTHER_THINGS[:20]), 3: PLAIN[3]}
    scores = {1: 1.0, 2: 0.9, 3: 0.5}
    assert select([1, 2, 3], scores, shapes.__getitem__, cosines, 3).repeats == {2: 1}
    assert select([1, 2, 3], scores, shapes.__getitem__, None, 3).repeats == {}
    shapes[2] = Shape.of(TEXT_ABOUT_OTHER_THINGS)
    assert select([1, 2, 3], scores, shapes.__getitem__, cosines, 3).repeats == {}


def test_short_texts_repeat_each_other_only_if_they_are_equal() -> None:
    """A single word may be the whole difference."""
    shapes = {1: Shape.of("老王的生日是十月"), 2: Shape.of("小王的生日是十月"), 3: Shape.of("老王的生日，是十月！")}
    cosines = np.full((3, 3), 0.99)
    assert select([1, 2, 3], {1: 1.0, 2: 0.9, 3: 0.8}, shapes.__getitem__, cosines, 3).repeats == {3: 1}


def test_two_measurements_are_two_memories_even_if_only_the_numbers_differ() -> None:
    told = "早上称了体重，{} 公斤，比上周好。打算继续少吃甜食，多走路，晚饭吃七分饱，周末去游泳，下个月再看效果。"
    one, other = Shape.of(told.format("70.2")), Shape.of(told.format("71.5"))
    assert one.within(other) > 0.8
    shapes = {1: one, 2: other}
    cosines = np.array([[1.0, 0.99], [0.99, 1.0]])
    assert one.within(one) == 1.0
    assert select([1, 2], {1: 1.0, 2: 0.9}, shapes.__getitem__, cosines, 2).chosen == (1, 2)


def test_models_whose_chance_is_high_need_a_higher_cosine_for_a_duplicate() -> None:
    assert duplicate_cosine(None) == 0.95
    assert duplicate_cosine(Calibration(0.1, 0.09)) == 0.95
    assert duplicate_cosine(Calibration(0.86, 0.023)) == pytest.approx(0.975)


def test_a_final_order_only_loses_its_duplicates() -> None:
    cosines = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    chosen = select([1, 2, 3], {1: 1.0, 2: 0.9, 3: 0.8}, PLAIN.__getitem__, cosines, 3, in_order=True)
    assert chosen.chosen == (1, 2, 3)


@given(st.integers(0, 8), st.integers(0, 2**32))
def test_never_more_than_k_are_chosen_and_each_once_whatever_the_vectors_hold(k: int, seed: int) -> None:
    dice = np.random.default_rng(seed)
    rows = dice.normal(size=(5, 4)).astype(np.float32)
    rows[0, 0] = np.nan
    ids = [4, 8, 15, 16, 23]
    cosines = similarities(ids, ids, rows)
    assert bool(np.all(np.isfinite(cosines)))
    shapes = dict.fromkeys(ids, Shape.of(""))
    chosen = select(ids, dict.fromkeys(ids, 0.5), shapes.__getitem__, np.clip(cosines, -1, 1), k).chosen
    assert len(chosen) <= k
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(ids)


def test_the_choice_is_that_of_maximal_marginal_relevance_by_its_definition() -> None:
    dice = np.random.default_rng(6)
    rows = dice.normal(size=(40, 5)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    ids = list(range(100, 140))
    cosines, scores = similarities(ids, ids, rows), {one: float(dice.random()) for one in ids}
    shapes = {one: Shape.of(str(one)) for one in ids}
    left, chosen = list(ids), list[int]()
    while left:
        near = {one: max([0.0, *(cosines[one - 100, other - 100] for other in chosen)]) for one in left}
        chosen.append(max(left, key=lambda one: 0.9 * scores[one] - 0.1 * near[one]))
        left.remove(chosen[-1])
    assert select(ids, scores, shapes.__getitem__, cosines, 40).chosen == tuple(chosen)


def test_ids_without_a_vector_are_like_nothing() -> None:
    found = similarities([1, 2], [2], np.array([[0.0, 1.0]], dtype=np.float32))
    assert found.tolist() == [[0.0, 0.0], [0.0, 1.0]]


def test_the_vector_of_a_question_is_seven_parts_of_the_persons_and_three_of_the_models_words() -> None:
    """11.18, 2.3: q = 0.7u + 0.3a, length 1; n2025 leaves it as it is."""
    u, a = np.array([1.0, 0.0], dtype=np.float32), np.array([0.0, 1.0], dtype=np.float32)
    plain = weighted_mean([(u, 0.7), (a, 0.3)], unit=False)
    assert plain is not None
    assert plain.tolist() == pytest.approx([0.7, 0.3])
    unit = weighted_mean([(u, 0.7), (a, 0.3)])
    assert unit is not None
    assert unit.tolist() == pytest.approx([0.919145, 0.393919], abs=1e-6)
    alone = weighted_mean([(u, 0.7), (None, 0.3)])
    assert alone is not None
    assert alone.tolist() == [1.0, 0.0]


def test_vectors_that_are_no_vectors_do_not_count() -> None:
    u = np.array([1.0, 0.0], dtype=np.float32)
    other = np.array([1.0, 0.0, 0.0], dtype=np.float32)
    hostile = weighted_mean([(u, 0.7), (np.array([np.nan, 1.0], dtype=np.float32), 0.3), (other, 0.3), (-u, 0.0)])
    assert hostile is not None
    assert hostile.tolist() == [1.0, 0.0]
    assert weighted_mean([(None, 1.0)]) is None
    assert weighted_mean([(u, 0.5), (-u, 0.5)]) is None
    assert unit_vector([np.inf, 0.0]) is None


def test_centroids_are_the_means_of_what_belongs_together() -> None:
    rows = np.array([[1, 0, 0]] * 16 + [[0, 1, 0]] * 16, dtype=np.float32)
    found = centroids(rows)
    assert sorted(map(tuple, found.tolist())) == [(0.0, 1.0, 0.0), (1.0, 0.0, 0.0)]
    assert centroids(rows).tobytes() == found.tobytes()


def test_few_rows_give_one_centroid_many_at_most_eight_and_none_none() -> None:
    dice = np.random.default_rng(5)
    rows = dice.normal(size=(500, 6)).astype(np.float32)
    assert len(centroids(rows)) <= 8
    assert centroids(rows[:3]) == pytest.approx(rows[:3].mean(axis=0, keepdims=True), abs=1e-6)
    assert centroids(np.zeros((0, 6), dtype=np.float32)).shape == (0, 6)
    assert len(centroids(np.full((9, 4), np.nan, dtype=np.float32))) == 0
