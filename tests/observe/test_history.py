"""Numbers over time: what is counted, what a step holds, gaps, clocks that jump, and the file that keeps them."""

from __future__ import annotations

import zlib

import pytest

from app.extend import (
    CallContext,
    CallFinished,
    Door,
    Json,
    Outcome,
    RoundFinished,
    ToolCall,
    ToolResult,
    TurnFinished,
    TurnStarted,
)
from app.observe.history import MAX_FILE_BYTES, RANGES, SERIES, History, Told, packed, unpacked

NOON = 1_764_504_000.0  # a whole minute


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


def history() -> tuple[History, Clock]:
    clock = Clock()
    return History(clock), clock


def called(outcome: Outcome) -> CallFinished:
    call = ToolCall(id="c", tool="Tool", arguments={}, texts={})
    context = CallContext(turn_id="t", door=Door.STREAM)
    return CallFinished("t", call, context, None, outcome, ToolResult(message="x"), 0, 1)


def last(told: Told, name: str) -> float | None:
    return told.series[name][-1]


def test_turns_rounds_tokens_and_calls_are_counted_by_step() -> None:
    numbers, _ = history()
    usage: dict[str, Json] = {"prompt_tokens": 100, "completion_tokens": 7}
    for event in (
        TurnStarted("t", "m", True, None),
        TurnFinished("t", Outcome.ERROR, 1, 0),
        TurnFinished("u", Outcome.SUCCESS, 1, 0),
        RoundFinished("t", 1, "stop", usage),
        RoundFinished("t", 2, "stop", None),
        called(Outcome.SUCCESS),
        called(Outcome.ERROR),
    ):
        numbers.observe(event)
    numbers.sample(12.5, 1000, 0.25)
    for name in RANGES:
        told = numbers.told(name)
        found = {series: last(told, series) for series in SERIES}
        assert found == {
            "turns": 1,
            "failed_turns": 1,
            "rounds": 2,
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "calls": 2,
            "failed_calls": 1,
            "processor": 12.5,
            "memory": 1000,
            "delay": 0.25,
        }


@pytest.mark.parametrize("tokens", [-1, 1e30, "7", None, float("nan"), [1], True])
def test_tokens_that_no_round_has_are_not_counted(tokens: Json) -> None:
    """What a model API tells is not trusted with the numbers of all the others."""
    numbers, _ = history()
    numbers.observe(RoundFinished("t", 1, None, {"prompt_tokens": tokens}))
    numbers.sample(0, 0, 0)
    assert last(numbers.told("hour"), "prompt_tokens") in (0, 1)


def test_a_point_has_the_mean_of_its_samples_and_the_longest_delay() -> None:
    numbers, clock = history()
    for processor, delay in ((10, 0.5), (20, 0.1), (60, 0.2)):
        numbers.sample(processor, 100, delay)
        clock.now += 5
    told = numbers.told("day")
    assert (last(told, "processor"), last(told, "delay")) == (30, 0.5)


def test_steps_that_nobody_sampled_are_gaps_and_old_ones_make_room() -> None:
    numbers, clock = history()
    numbers.sample(1, 1, 0)
    clock.now += 3000
    numbers.sample(2, 1, 0)
    told = numbers.told("hour")
    times, processor = told.times, told.series["processor"]
    assert [value for value in processor if value is not None] == [1, 2]
    assert len(times) == len(processor) == 180
    clock.now += 3600
    assert set(numbers.told("hour").series["processor"]) == {None}
    clock.now += 30 * 24 * 3600
    numbers.sample(3, 1, 0)
    assert [value for value in numbers.told("week").series["processor"] if value is not None] == [3]


def test_a_clock_that_was_set_back_takes_what_is_in_the_future_away() -> None:
    numbers, clock = history()
    for _ in range(100):
        numbers.sample(50, 1, 0)
        clock.now += 60
    clock.now = NOON + 600
    numbers.sample(7, 1, 0)
    told = numbers.told("hour")
    assert last(told, "processor") == 7
    clock.now += 3000
    assert 50 not in numbers.told("hour").series["processor"]


def test_what_was_kept_is_taken_over_by_the_next_start() -> None:
    before, clock = history()
    before.observe(TurnStarted("t", "m", True, None))
    before.sample(12, 34, 0.5)
    data = packed(before.kept())
    assert len(data) < 50_000
    after = History(clock)
    after.take_over(unpacked(data))
    assert after.told("week") == before.told("week")
    clock.now += 60
    after.sample(1, 1, 0)
    assert last(after.told("hour"), "processor") == 1


def test_a_file_that_is_damaged_changes_nothing() -> None:
    numbers, _ = history()
    numbers.sample(1, 2, 0)
    whole = numbers.kept()
    head, _, rest = whole.partition(b"\n")
    hostile = [
        b"",
        b"null\n",
        b"[]\n" + rest,
        head + b"\n" + rest[:-8],
        head + b"\n" + b"\xff" * len(rest),
        head.replace(b'"version": 1', b'"version": 2') + b"\n" + rest,
        head.replace(b'"last": [', b'"last": [true, ') + b"\n" + rest,
        b'{"version": 1}\n' + rest,
    ]
    told = numbers.told("hour")
    for data in hostile:
        with pytest.raises(ValueError):
            numbers.take_over(data)
    assert numbers.told("hour") == told


@pytest.mark.parametrize(
    "data", [b"", b"garbage", zlib.compress(b"x" * 100)[:-4], zlib.compress(bytes(4 * MAX_FILE_BYTES))]
)
def test_a_file_that_is_cut_off_or_unpacks_without_end_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        unpacked(data)
