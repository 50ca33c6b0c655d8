"""What is counted on one WebSocket."""

from __future__ import annotations

import asyncio

import pytest

from app.web.socket_flow import (
    ANSWERS,
    BEAT,
    FRAMES_WAITING,
    HEAVY_SECONDS,
    LONGEST_REST,
    REST,
    TURN_SECONDS,
    Backlog,
    FrameRate,
    Pings,
    Rests,
    Turn,
)


def test_messages_are_counted_in_seconds_of_the_clock() -> None:
    rate = FrameRate()
    assert [rate.allows(7.0 + place / 10, 3) for place in range(5)] == [True, True, True, False, False]
    assert rate.allows(8.0, 3)


def test_whoever_is_sent_something_may_answer_it_beyond_the_limit() -> None:
    rate = FrameRate()
    for _ in range(2 * ANSWERS):
        rate.earn()
    assert [rate.allows(1.0, 5) for _ in range(ANSWERS + 10)].count(True) == ANSWERS + 5
    assert [rate.allows(2.0, 5) for _ in range(10)].count(True) == 5
    rate.earn()
    assert rate.allows(2.0, 5)


def test_bytes_wait_behind_the_message_that_filled_the_line() -> None:
    backlog = Backlog()
    backlog.begin(5000)
    assert backlog.allows(5000, 100, 100)
    assert not backlog.allows(5000, 101, 100)
    assert backlog.allows(4900, 200, 100)
    backlog.end()
    assert not backlog.allows(5000, 1, 100)


def test_messages_count_only_when_the_line_did_not_take_what_was_before_them() -> None:
    backlog = Backlog()
    backlog.begin(0)
    assert all(backlog.allows(0, 1, 10) for _ in range(2 * FRAMES_WAITING))
    backlog.stuck = True
    assert [backlog.allows(0, 1, 10) for _ in range(FRAMES_WAITING + 1)].count(False) == 1


def test_two_pings_without_any_sign_of_life_are_the_end() -> None:
    pings = Pings()
    assert [pings.beat(0, stuck=False) for _ in range(3)] == [True, True, False]


def test_whoever_takes_what_is_before_the_ping_gives_a_sign_of_life_only_on_a_full_line() -> None:
    slow, dead = Pings(), Pings()
    assert all(slow.beat(taken, stuck=True) for taken in range(10))
    assert [dead.beat(taken, stuck=False) for taken in range(3)] == [True, True, False]


def test_only_answers_to_open_pings_are_answers() -> None:
    async def main() -> None:
        pings = Pings()
        assert not pings.answered(BEAT, 1.0)
        pings.beat(0, stuck=False)
        assert pings.answered(BEAT, 1.0)
        assert not pings.answered(BEAT, 1.0)
        answer: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()
        payload = pings.begin(1.0, answer)
        assert pings.answered(payload, 1.5)
        assert not pings.answered(payload, 1.5)
        assert answer.result() == 0.5

    asyncio.run(main())


def test_a_turn_is_over_after_its_time_and_only_heavy_messages_cost_a_rest() -> None:
    turn = Turn(10.0)
    assert not turn.is_over(10.0 + TURN_SECONDS / 2)
    assert turn.is_over(10.0 + TURN_SECONDS * 2)
    assert turn.rest == 0
    heavy = Turn(10.0)
    assert heavy.is_over(10.0 + 2 * HEAVY_SECONDS)
    assert abs(heavy.rest - 2 * HEAVY_SECONDS) < 1e-9


def test_all_who_are_heavy_rest_one_behind_the_other_but_never_without_end() -> None:
    rests = Rests()
    assert rests.after(0.1, 5.0) == pytest.approx(REST * 0.1)
    assert rests.after(0.1, 5.0) == pytest.approx(2 * REST * 0.1)
    assert rests.after(0.1, 6.0) == pytest.approx(REST * 0.1)
    assert rests.after(100.0, 6.0) == LONGEST_REST
    assert rests.after(100.0, 6.0) == LONGEST_REST
    assert rests.after(0.1, 20.0) == pytest.approx(REST * 0.1)
