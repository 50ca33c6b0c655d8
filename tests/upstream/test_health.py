"""When an upstream is spared, for how long, and how it comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.upstream.health import FAILURES_BEFORE_PAUSE, JITTER, LONGEST_PAUSE, Health

EVEN = 0.5  # the chance that neither lengthens nor shortens


def down(now: float = 0.0, pause: float = 10.0) -> Health:
    health = Health()
    for _ in range(FAILURES_BEFORE_PAUSE):
        health.fail(now, pause, EVEN)
    return health


def test_failures_in_a_row_bring_a_pause_and_a_success_between_them_does_not_let_them_add_up() -> None:
    health = Health()
    for _ in range(5):
        for _ in range(FAILURES_BEFORE_PAUSE - 1):
            health.fail(0, 10, EVEN)
        assert health.rest(0) == 0
        health.succeed()
    assert down().rest(0) == 10
    assert down().rest(4) == 6
    assert down().rest(10) == 0


def test_a_time_limit_is_enough_on_its_own() -> None:
    health = Health()
    health.fail(0, 10, EVEN, grave=True)
    assert health.rest(0) == 10


@pytest.mark.parametrize(("wanted", "rest"), [(0.0, 0.0), (7.0, 7.0), (1e9, LONGEST_PAUSE)])
def test_what_the_upstream_asks_for_is_kept_up_to_a_limit(wanted: float, rest: float) -> None:
    health = Health()
    health.fail(0, 10, EVEN, wanted=wanted)
    assert health.rest(0) == rest


def test_the_longer_of_both_pauses_counts() -> None:
    health = Health()
    health.fail(0, 10, EVEN, grave=True, wanted=3)
    assert health.rest(0) == 10


def test_each_pause_is_twice_as_long_up_to_a_limit_and_a_success_ends_the_growth() -> None:
    health, now, rests = down(), 0.0, []
    for _ in range(8):
        rests.append(health.rest(now))
        now += health.rest(now)
        assert health.begin(now)
        health.fail(now, 10, EVEN)
    assert rests == [10, 20, 40, 80, 160, 320, 600, 600]
    health.succeed()
    assert health.rest(now) == 0
    assert health.failures == 0
    for _ in range(FAILURES_BEFORE_PAUSE):
        health.fail(now, 10, EVEN)
    assert health.rest(now) == pytest.approx(10)


def test_a_hundred_requests_that_fail_at_once_make_one_pause() -> None:
    health = Health()
    for _ in range(100):
        health.fail(0, 10, EVEN)
    assert health.rest(0) == 10


def test_after_a_pause_one_request_at_a_time_tries_it() -> None:
    health = down()
    assert not health.begin(9)  # the last resort is no trial
    assert health.begin(10)
    assert health.rest(10) > 0
    assert not health.begin(10)
    health.abandon()
    assert health.rest(10) == 0
    assert health.begin(10)
    health.succeed()
    assert health.rest(10) == 0
    assert not health.begin(10)


@given(st.floats(0, 1))
def test_pauses_are_spread_so_that_servers_do_not_come_back_together(chance: float) -> None:
    health = Health()
    health.fail(0, 10, chance, grave=True)
    assert 10 * (1 - JITTER) - 1e-9 <= health.rest(0) <= 10 * (1 + JITTER) + 1e-9


def test_no_number_of_pauses_is_too_many_to_count() -> None:
    health, now = Health(), 0.0
    for _ in range(3000):
        health.fail(now, 86_400, 1.0, grave=True)
        now += health.rest(now)
    assert health.rest(now - 1) <= LONGEST_PAUSE * (1 + JITTER)
