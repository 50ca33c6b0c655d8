"""The one deadline of a stop (P83)."""

from __future__ import annotations

import asyncio
import logging

import pytest

from app.services.stopping import Stopping


class Hands:
    """A clock that stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_grace_runs_from_the_beginning_of_the_stop_and_not_from_part_to_part() -> None:
    clock = Hands()
    stopping = Stopping(lambda: 10, timer=clock)
    assert not stopping.begun
    stopping.begin()
    clock.now += 8
    assert (stopping.begun, stopping.left()) == (True, 2)
    stopping.begin()
    assert stopping.left() == 2
    clock.now += 8
    assert stopping.left() == 0


def test_whoever_asks_first_begins_the_stop() -> None:
    stopping = Stopping(lambda: 10, timer=Hands())
    assert (stopping.left(), stopping.begun) == (10, True)


def test_a_second_signal_shortens_the_grace_and_nothing_lengthens_it() -> None:
    stopping = Stopping(lambda: 600, timer=Hands())
    stopping.begin(5)
    assert stopping.left() == 5
    stopping.begin(60)
    assert stopping.left() == 5
    stopping.begin(0)
    assert stopping.left() == 0


def test_who_waits_for_work_is_told_when_there_is_less_time(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        stopping = Stopping(lambda: 600)
        work = asyncio.create_task(asyncio.Event().wait())
        waiting = asyncio.create_task(stopping.wait((work,)))
        ending = asyncio.create_task(stopping.end(lambda: stopping.wait((work,))))
        await asyncio.sleep(0)
        stopping.begin(0)
        await asyncio.wait_for(asyncio.gather(waiting, ending), 10)
        assert not work.done()
        work.cancel()
        await asyncio.wait((work,))
        await stopping.wait((work,))
        await stopping.wait(())

    asyncio.run(main())
    assert not caplog.text


def test_a_part_that_does_not_end_is_left_behind_and_named(caplog: pytest.LogCaptureFixture) -> None:
    cancelled: list[str] = []

    async def stuck() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("stuck")
            raise

    async def main() -> None:
        stopping = Stopping(lambda: 0, lambda: 0)
        await asyncio.wait_for(stopping.end(stuck), 10)

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert cancelled == ["stuck"]
    assert "stuck has not ended in time" in caplog.text


def test_a_part_that_refuses_to_be_cancelled_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    released = asyncio.Event()

    async def deaf() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        await asyncio.wait_for(Stopping(lambda: 0, lambda: 0).end(deaf), 10)
        released.set()
        await asyncio.sleep(0)

    asyncio.run(main())
    assert "deaf has not ended in time" in caplog.text


def test_the_fault_of_a_part_comes_out_and_a_part_that_ends_is_not_hurried() -> None:
    ended: list[str] = []

    async def slow() -> None:
        await asyncio.sleep(0.01)
        ended.append("slow")

    async def faulty() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        stopping = Stopping(lambda: 0)
        await stopping.end(slow)
        with pytest.raises(ZeroDivisionError):
            await stopping.end(faulty)

    asyncio.run(main())
    assert ended == ["slow"]


def test_who_only_waits_for_news_is_told_once_when_the_stop_begins_and_at_once_after_that() -> None:
    told: list[str] = []
    stopping = Stopping(lambda: 10, timer=Hands())
    stopping.at_begin(lambda: told.append("first"))
    stopping.at_begin(lambda: told.append("second"))
    assert told == []
    stopping.begin(5)
    stopping.begin(0)
    assert told == ["first", "second"]
    stopping.at_begin(lambda: told.append("late"))
    assert told == ["first", "second", "late"]
