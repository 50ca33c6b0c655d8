"""Places are handed out in order and within every limit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.plugins.places import Limits, Place, Places, QueueError, StoppingError


def test_places_are_granted_first_come_first_served() -> None:
    async def work() -> list[str]:
        places = Places(Limits(running=1))
        order: list[str] = []
        first = await places.take("a", None)

        async def one(name: str) -> None:
            place = await places.take(name, None)
            order.append(name)
            place.release()

        tasks = [asyncio.ensure_future(one(name)) for name in "bcd"]
        await asyncio.sleep(0)
        first.release()
        first.release()  # a second time does nothing
        await asyncio.gather(*tasks)
        assert (places.running, places.starting, places.waiting) == (0, 0, 0)
        return order

    assert asyncio.run(work()) == ["b", "c", "d"]


def test_new_limits_let_in_those_who_wait_and_put_nobody_out() -> None:
    async def work() -> None:
        places = Places(Limits(running=1, starting=9))
        first = await places.take("a", None)
        waiting = asyncio.ensure_future(places.take("a", None))
        await asyncio.sleep(0)
        places.limit(Limits(running=2, starting=9, queued=0))
        second = await waiting
        places.limit(Limits(running=1, starting=9, queued=0))
        assert places.running == 2
        with pytest.raises(QueueError, match="0 calls"):
            await places.take("a", None)
        first.release()
        second.release()
        assert (await places.take("a", None)).name == "a"

    asyncio.run(work())


def test_no_waiting_at_all_may_be_asked_for() -> None:
    async def work() -> None:
        places = Places(Limits(running=1))
        await places.take("a", None)
        with pytest.raises(QueueError, match="within 0 s"):
            await places.take("a", None, seconds=-1.0)
        assert places.waiting == 0

    asyncio.run(work())


def test_a_place_granted_in_the_moment_of_a_cancel_is_not_lost() -> None:
    async def work() -> None:
        places = Places(Limits(running=1))
        first = await places.take("a", None)
        task = asyncio.ensure_future(places.take("b", None))
        await asyncio.sleep(0)
        first.release()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert (places.running, places.starting) == (0, 0)

    asyncio.run(work())


def test_closing_refuses_those_who_wait_and_those_who_come() -> None:
    async def work() -> None:
        places = Places(Limits(running=1))
        await places.take("a", None)
        task = asyncio.ensure_future(places.take("b", None))
        await asyncio.sleep(0)
        places.close()
        with pytest.raises(StoppingError):
            await task
        with pytest.raises(StoppingError):
            await places.take("c", None)

    asyncio.run(work())


STEPS = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 3)), max_size=40)


@given(STEPS, st.integers(1, 4), st.integers(1, 4))
def test_no_limit_is_ever_passed_and_nobody_is_forgotten(
    steps: Sequence[tuple[str, int]], running: int, starting: int
) -> None:
    own = {"a": 1, "b": 2, "c": None}

    async def work() -> None:
        places = Places(Limits(running=running, starting=starting, queue_seconds=60.0))
        inside: list[Place] = []

        async def one(name: str) -> None:
            inside.append(await places.take(name, own[name]))

        tasks = []
        for name, ended in steps:
            tasks.append(asyncio.ensure_future(one(name)))
            for _ in range(3):
                await asyncio.sleep(0)
            for place in inside[:ended]:
                place.started()
            assert places.running <= running
            assert places.starting <= starting
            for other, limit in own.items():
                assert limit is None or sum(place.name == other for place in inside) <= limit
            for place in inside[:ended]:
                place.release()
            del inside[:ended]
        while not all(task.done() for task in tasks):
            for place in inside:
                place.release()
            inside.clear()
            await asyncio.sleep(0)
        for place in inside:
            place.release()
        assert (places.running, places.starting, places.waiting) == (0, 0, 0)

    asyncio.run(work())
