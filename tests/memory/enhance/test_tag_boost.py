"""What tags do to a question: the reference's six steps (M1-M4 of memory.md 10.6), the walk over the graph (11.13)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.embedders.embedder import Vector
from app.memory.enhance.tag_boost_n2025 import BentQuery, bent_query, direct_score, related_tags
from app.memory.enhance.tag_graph import NoteMasses, TagGraph
from app.memory.enhance.tag_memo import named_tags

FILES = ["AC", "AC", "AD", "BC", "BD", "DE", "E"]
TAGS = {tag: frozenset(number for number, file in enumerate(FILES) if tag in file) for tag in "ABCDE"}
VECTORS: dict[str, Vector | None] = {
    "A": np.array([1, 0, 0], dtype=np.float32),
    "B": np.array([0.8, 0.6, 0], dtype=np.float32),
    "C": np.array([0, 1, 0], dtype=np.float32),
    "D": np.array([0, 0, 1], dtype=np.float32),
    "E": np.array([0, 0.6, 0.8], dtype=np.float32),
}
Q = np.array([1, 0, 0], dtype=np.float32)


def bent(query: Vector, seeds: str, beta: float) -> BentQuery:
    direct = [(tag, direct_score(float(VECTORS[tag] @ query))) for tag in seeds]  # type: ignore[operator]  # all are there
    return bent_query(query, related_tags(direct, TAGS, 30), VECTORS, beta)


def test_the_worked_example_comes_out_to_six_digits() -> None:
    """M1: β = 0.5, S = {A, B}."""
    found = bent(Q, "AB", 0.5)
    assert found.vector.tolist() == pytest.approx([0.707107, 0.677829, 0.201366], abs=1e-6)
    assert [tag.name for tag in found.tags] == ["C", "D"]
    assert [tag.strength for tag in found.tags] == pytest.approx([2.6, 1.6])
    assert [tag.files for tag in found.tags] == [3, 3]
    assert found.total == pytest.approx(8.784648, abs=1e-6)


def test_with_more_weight_the_tags_decide_and_with_all_of_it_the_question_is_gone() -> None:
    """M2: β = 0.65 and β = 1."""
    assert bent(Q, "AB", 0.65).vector.tolist() == pytest.approx([0.474100, 0.844015, 0.250736], abs=1e-6)
    assert bent(Q, "AB", 1.0).vector.tolist() == pytest.approx([0.0, 0.958594, 0.284775], abs=1e-6)


def test_with_nothing_left_to_expand_it_is_the_mean_of_the_direct_tags() -> None:
    """M3: S = all five."""
    found = bent(Q, "ABCDE", 0.5)
    assert found.vector.tolist() == pytest.approx([0.876069, 0.373191, 0.305338], abs=1e-6)
    assert found.total == pytest.approx(341.869865, abs=1e-6)


def test_a_single_direct_tag_leads_to_the_one_beside_it() -> None:
    """M4: q = (0, .6, .8), S = {E}."""
    found = bent(np.array([0, 0.6, 0.8], dtype=np.float32), "E", 0.5)
    assert found.vector.tolist() == pytest.approx([0.0, 0.316228, 0.948683], abs=1e-6)
    assert [tag.name for tag in found.tags] == ["D"]
    assert found.total == pytest.approx(0.621335, abs=1e-6)


def test_negative_strengths_weigh_nothing_and_without_weight_the_question_stays() -> None:
    """5.3 steps 4 and 5."""
    related = related_tags([("E", -0.5)], TAGS, 30)
    assert [tag.weight for tag in related] == [0.0]
    assert bent_query(Q, related, VECTORS, 0.5).vector is Q


@given(st.floats(allow_nan=True, allow_infinity=True), st.integers(0, 40))
def test_whatever_the_strength_the_bent_question_is_finite(score: float, expand: int) -> None:
    found = bent_query(Q, related_tags([("A", score), ("B", 0.5)], TAGS, expand), VECTORS, 0.5)
    assert bool(np.all(np.isfinite(found.vector)))


def test_direct_tags_stay_and_bring_their_notes_before_those_of_related_ones() -> None:
    """11.13: seeds are kept in with their similarity; the mass of notes is what is added to scores."""
    walk = TagGraph(TAGS).walk({"A": 1.0})
    assert max(walk.tags, key=walk.tags.__getitem__) == "A"
    with_tag = [walk.notes[note] for note in TAGS["A"]]
    without = [walk.notes.get(note, 0.0) for note in range(7) if note not in TAGS["A"]]
    assert min(with_tag) > max(without) > 0.0
    assert max(walk.notes.values()) == 1.0


def test_the_masses_of_one_step_are_those_made_by_hand() -> None:
    """Two tags, one note each, one shared: with seed X the shares follow from ln(1 + E/(f·d)), restart one half."""
    graph = TagGraph({"X": frozenset({1, 2}), "Y": frozenset({2, 3})})
    # E = 4, f = 2 for both, d = 1, 2, 1: edges of notes 1 and 3 weigh ln 3, those of note 2 weigh ln 2
    to_private = float(np.log(3) / (np.log(3) + np.log(2)))
    tag, notes = {"X": 1.0, "Y": 0.0}, {1: 0.0, 2: 0.0, 3: 0.0}
    for _ in range(10):
        back = {"X": notes[1] + notes[2] / 2, "Y": notes[3] + notes[2] / 2}
        forth = {
            1: tag["X"] * to_private,
            2: (tag["X"] + tag["Y"]) * (1 - to_private),
            3: tag["Y"] * to_private,
        }
        tag = {"X": 0.5 + 0.5 * back["X"], "Y": 0.5 * back["Y"]}
        notes = {note: 0.5 * mass for note, mass in forth.items()}
    walk = graph.walk({"X": 1.0})
    assert walk.tags == pytest.approx(tag)
    assert walk.notes == pytest.approx({note: mass / max(notes.values()) for note, mass in notes.items()})
    assert walk.reached == {1: ("X",), 2: ("X", "Y"), 3: ("Y",)}


def test_a_tag_that_everything_carries_is_worth_least_as_a_beginning() -> None:
    """11.13: hub damping."""
    graph = TagGraph({"日常": frozenset(range(100)), "鹦鹉": frozenset({3, 4})})
    assert graph.damping("鹦鹉") > 5 * graph.damping("日常")
    walk = graph.walk({"日常": 1.0, "鹦鹉": 1.0})
    assert sorted(walk.notes, key=lambda note: -walk.notes[note])[:2] == [3, 4]


def test_unknown_and_hostile_seeds_do_nothing() -> None:
    graph = TagGraph(TAGS)
    assert not graph.walk({"Z": 1.0, "A": float("nan"), "B": -1.0}, [(99, 1.0), (1, float("inf"))]).notes
    assert not TagGraph({}).walk({"A": 1.0}).notes
    assert not TagGraph({"leer": frozenset()}).walk({"leer": 1.0}).notes


def test_a_note_that_was_found_already_lends_its_tags_but_keeps_nothing_for_itself() -> None:
    walk = TagGraph({"X": frozenset({1, 2}), "Y": frozenset({3})}).walk({}, [(1, 1.0)])
    assert walk.notes[2] > 0.0
    assert 3 not in walk.notes


def test_a_graph_made_from_the_one_before_is_the_same_as_one_made_anew() -> None:
    """11.26: rows of tags that did not change are taken over."""
    first = TagGraph(TAGS)
    changed = {**TAGS, "F": frozenset({2, 9}), "A": frozenset({0, 9})}
    del changed["E"]
    again = TagGraph(changed, first)
    assert again.walk({"A": 1.0, "F": 0.4}) == TagGraph(changed).walk({"A": 1.0, "F": 0.4})
    assert again._rows["B"] is first._rows["B"]


def test_the_notes_of_a_walk_come_with_the_greatest_mass_first_and_equal_ones_by_id() -> None:
    masses = NoteMasses(np.array([2, 5, 7, 9]), np.array([0.3, 1.0, 0.3 + 1e-12, 0.6]))
    assert list(masses) == [5, 9, 2, 7]
    assert (masses[9], masses.get(3, 0.0), masses.get(10, 0.0), len(masses)) == (0.6, 0.0, 0.0, 4)


@given(st.permutations(sorted(TAGS)))
def test_the_order_of_tags_does_not_matter(order: list[str]) -> None:
    assert TagGraph({tag: TAGS[tag] for tag in order}).walk({"A": 1.0, "B": 0.2}) == TagGraph(TAGS).walk(
        {"B": 0.2, "A": 1.0}
    )


def test_tags_in_the_question_itself_are_found_and_latin_ones_only_as_whole_words() -> None:
    tags = [(tag.casefold(), tag) for tag in ("鹦鹉", "Go", "go-kart", "R", "图", "C++")]
    assert named_tags("你还记得鹦鹉和 go-kart 吗", tags) == ["鹦鹉", "Go", "go-kart"]
    assert named_tags("gogo goes; the cargo", tags) == []
    assert named_tags("写 C++ 的那天", tags) == ["C++"]
