"""The timetable gives every name out once, whatever the clock does and in whatever order names come and go."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from app.schedule.timetable import Timetable

MOMENTS = st.one_of(st.integers(-5, 50), st.floats(-5, 50)).map(float)


@given(st.lists(MOMENTS, max_size=50), st.lists(MOMENTS, max_size=50))
def test_each_task_fires_once_and_not_before_its_time_whatever_the_clock_does(
    dues: list[float], clock: list[float]
) -> None:
    table = Timetable()
    for number, due in enumerate(dues):
        assert table.add(str(number), due)
    fired: list[str] = []
    for now in [*clock, 1e9]:
        for name in table.due(now):
            assert dues[int(name)] <= now
            fired.append(name)
    assert sorted(fired, key=int) == [str(number) for number in range(len(dues))]
    assert table.due(1e9) == []


@given(st.lists(MOMENTS, min_size=1, max_size=50))
def test_what_is_due_together_comes_in_the_order_of_its_times(dues: list[float]) -> None:
    table = Timetable()
    for number, due in enumerate(dues):
        table.add(str(number), due)
    assert table.next_due() == min(dues)
    assert [dues[int(name)] for name in table.due(1e9)] == sorted(dues)
    assert table.next_due() is None


class Comings(RuleBasedStateMachine):
    """A timetable beside a plain dict that says the same."""

    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.table = Timetable()
        self.waiting: dict[str, float] = {}

    @rule(target=names, name=st.sampled_from("abcdef"), due=MOMENTS)
    def add(self, name: str, due: float) -> str:
        assert self.table.add(name, due) is (name not in self.waiting)
        self.waiting.setdefault(name, due)
        return name

    @rule(name=consumes(names))
    def cancel(self, name: str) -> None:
        assert self.table.cancel(name) is (self.waiting.pop(name, None) is not None)

    @rule(now=MOMENTS)
    def look(self, now: float) -> None:
        given_out = self.table.due(now)
        assert sorted(given_out) == sorted(name for name, due in self.waiting.items() if due <= now)
        for name in given_out:
            del self.waiting[name]

    @invariant()
    def same(self) -> None:
        assert self.table.names() == set(self.waiting)
        assert len(self.table) == len(self.waiting)
        assert self.table.next_due() == min(self.waiting.values(), default=None)


TestComings = Comings.TestCase
TestComings.settings = settings(max_examples=30, stateful_step_count=25)


def test_a_name_that_waits_keeps_its_moment() -> None:
    table = Timetable()
    assert table.add("a", 10)
    assert not table.add("a", 1)
    assert "a" in table
    assert table.due(5) == []
    assert table.due(10) == ["a"]
    assert table.add("a", 1)


def test_cancelled_names_do_not_pile_up() -> None:
    table = Timetable()
    for number in range(10_000):
        table.add(str(number), 1e9 + number)
        table.cancel(str(number))
    assert len(table._heap) < 200
    assert table.due(1e12) == []
