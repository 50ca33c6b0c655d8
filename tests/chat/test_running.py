"""Handles of running turns: found by id, stopped once."""

import asyncio

import pytest

from app.chat.running import RunningTurn, RunningTurns, StopReason, TooManyTurnsError
from tests.server import run


def turn(*ids: str) -> RunningTurn:
    return RunningTurn(frozenset(ids))


async def work(handle: RunningTurn, log: list[str], clean_up: asyncio.Event | None = None) -> None:
    try:
        handle.begin()
        log.append("begun")
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        log.append(f"stopped: {handle.reason}")
    finally:
        handle.end()
        if clean_up is not None:
            await clean_up.wait()
        log.append("ended")


def test_every_turn_with_the_id_is_interrupted_and_no_other() -> None:
    async def main() -> None:
        turns, logs = RunningTurns(lambda: 9), {name: list[str]() for name in "abc"}
        handles = {"a": turn("x"), "b": turn("x", "y"), "c": turn("z")}
        tasks = {name: turns.start(handles[name], work(handles[name], logs[name]), name) for name in "abc"}
        await asyncio.sleep(0)
        assert turns.interrupt("x")
        await asyncio.wait({tasks["a"], tasks["b"]})
        assert logs == {name: ["begun", "stopped: interrupt", "ended"] for name in "ab"} | {"c": ["begun"]}
        assert (handles["a"].mute.muted, handles["c"].mute.muted) == (True, False)
        assert not turns.interrupt("x")
        assert not turns.interrupt("nobody")
        await turns.stop_all(0)
        assert logs["c"] == ["begun", "stopped: shutdown", "ended"]
        assert len(turns) == 0

    run(main())


def test_a_turn_that_is_stopped_before_its_first_step_still_ends_in_order() -> None:
    async def main() -> None:
        turns, log, handle = RunningTurns(lambda: 9), list[str](), turn("x")
        task = turns.start(handle, work(handle, log), "t")
        assert turns.interrupt("x")
        await task
        assert log == ["stopped: interrupt", "ended"]

    run(main())


@pytest.mark.parametrize("second", list(StopReason))
def test_a_second_stop_does_not_disturb_the_clean_up_of_the_first(second: StopReason) -> None:
    async def main() -> None:
        turns, log, handle, cleaned = RunningTurns(lambda: 9), list[str](), turn("x"), asyncio.Event()
        task = turns.start(handle, work(handle, log, cleaned), "t")
        await asyncio.sleep(0)
        handle.stop(StopReason.DISCONNECT)
        await asyncio.sleep(0)
        handle.stop(second)
        assert (handle.reason, handle.mute.muted) == (StopReason.DISCONNECT, False)
        assert not turns.interrupt("x")  # its answer has ended
        cleaned.set()
        await task
        assert log[-1] == "ended"

    run(main())


def test_a_turn_whose_answer_has_ended_is_not_cancelled_any_more() -> None:
    async def main() -> None:
        turns, handle, cleaned = RunningTurns(lambda: 9), turn("x"), asyncio.Event()

        async def ending() -> str:
            handle.begin()
            handle.end()
            await cleaned.wait()
            return "clean"

        task = asyncio.create_task(ending())
        await asyncio.sleep(0)
        handle.stop(StopReason.SHUTDOWN)
        cleaned.set()
        assert await task == "clean"
        assert handle.reason is None
        assert not turns.interrupt("x")

    run(main())


def test_only_so_many_turns_are_admitted() -> None:
    async def main() -> None:
        turns, handle = RunningTurns(lambda: 1), turn()
        turns.admit()
        turns.start(handle, work(handle, []), "t")
        with pytest.raises(TooManyTurnsError, match=r"已有 .*MaxRunningTurns.* / ") as caught:
            turns.admit()
        assert caught.value.status == 503
        await turns.stop_all(0)
        turns.admit()

    run(main())
