from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.memory.recall.budget import allowances, within
from tests.memory.ranking.records import hit


def test_who_wants_little_gets_it_and_the_others_share_the_rest() -> None:
    assert allowances([10, 100, 100], 110) == [10, 50, 50]
    assert allowances([], 10) == []


@given(st.lists(st.integers(0, 1000), max_size=20), st.integers(0, 5000))
def test_a_budget_is_never_exceeded_and_never_wasted(wanted: list[int], budget: int) -> None:
    allowed = allowances(wanted, budget)
    assert all(0 <= given <= want for given, want in zip(allowed, wanted, strict=True))
    assert sum(allowed) == min(budget, sum(wanted))


def test_hits_are_dropped_from_the_tail_and_never_cut() -> None:
    kept, cut = within([hit(1, "一" * 5), hit(2, "二" * 5), hit(3, "三")], 9)
    assert [one.chunk.id for one in kept] == [1]
    assert [(one.chunk_id, one.reason) for one in cut] == [(2, "request budget"), (3, "request budget")]
