"""Places at upstreams that run a limited number of requests, and what is known of each."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from app.extend import UpstreamTarget
from app.upstream.fleet import MAX_KNOWN, Fleet, Standing, UpstreamStatus

A = UpstreamTarget("http://u:pw@a.example:1/x", "k", name="a", max_running=1)
B = UpstreamTarget("http://b.example", "k", name="b", max_running=1)
LONG = 30.0


def full(fleet: Fleet, *targets: UpstreamTarget) -> list[Standing]:
    standings = [fleet.standing(target) for target in targets]
    for standing in standings:
        standing.take()
    return standings


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_place_that_is_left_goes_to_whoever_waits_longest_for_it() -> None:
    async def scene() -> None:
        fleet = Fleet()
        a, b = full(fleet, A, B)
        got: list[str] = []

        async def wait(name: str, *wanted: Standing) -> None:
            place = await fleet.wait(wanted, LONG)
            got.append(f"{name} {'a' if place is a else 'b'}")

        tasks = []
        for name, wanted in (("first", (a,)), ("second", (a, b)), ("third", (a, b))):
            tasks.append(asyncio.create_task(wait(name, *wanted)))
            await settle()
        assert fleet.waiting == 3
        b.release()  # the first does not want it
        await settle()
        assert got == ["second b"]
        a.release()
        await settle()
        assert got == ["second b", "first a"]
        assert (a.running, b.running, fleet.waiting) == (1, 1, 1)
        a.release()
        await asyncio.gather(*tasks)
        assert got[-1] == "third a"
        a.release()
        assert (a.running, fleet.waiting) == (0, 0)

    asyncio.run(scene())


def test_a_wait_ends_with_its_time_and_leaves_no_trace() -> None:
    async def scene() -> None:
        fleet = Fleet()
        (a,) = full(fleet, A)
        assert await fleet.wait([a], 0.01) is None
        assert fleet.waiting == 0
        a.release()
        assert a.has_room

    asyncio.run(scene())


@pytest.mark.parametrize("given", [False, True], ids=["while waiting", "in the moment it was given a place"])
def test_a_cancelled_wait_keeps_no_place(given: bool) -> None:
    async def scene() -> None:
        fleet = Fleet()
        (a,) = full(fleet, A)
        task = asyncio.create_task(fleet.wait([a], LONG))
        await settle()
        if given:
            a.release()
            assert a.running == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if not given:
            a.release()
        assert (a.running, fleet.waiting) == (0, 0)

    asyncio.run(scene())


def test_a_raised_limit_lets_those_in_who_wait() -> None:
    async def scene() -> None:
        fleet = Fleet()
        (a,) = full(fleet, A)
        tasks = [asyncio.create_task(fleet.wait([a], LONG)) for _ in range(3)]
        await settle()
        assert fleet.standing(replace(A, max_running=3)) is a
        await settle()
        assert [task.done() for task in tasks] == [True, True, False]
        assert fleet.standing(replace(A, max_running=None)) is a
        await asyncio.gather(*tasks)
        assert a.running == 4

    asyncio.run(scene())


def test_the_queue_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        fleet = Fleet()
        (a,) = full(fleet, A)
        waiting = asyncio.create_task(fleet.wait([a], LONG))
        await settle()
        assert await fleet.wait([a], LONG) is None
        a.release()
        assert await waiting is a

    monkeypatch.setattr("app.upstream.fleet.MAX_WAITING", 1)
    asyncio.run(scene())


def test_another_address_or_key_is_another_upstream_and_old_ones_are_forgotten() -> None:
    fleet = Fleet()
    first = fleet.standing(A)
    assert fleet.standing(replace(A, proxy="http://p", ourselves=True)) is first
    assert fleet.standing(replace(A, api_key="k2")) is not first
    for number in range(MAX_KNOWN):
        fleet.standing(replace(A, base_url=f"http://{number}"))
    assert fleet.standing(A) is not first


def test_what_a_person_sees_has_no_secret() -> None:
    fleet = Fleet()
    (a,) = full(fleet, A)
    a.attempts, a.faults = 5, 2
    a.health.fail(0, 10, 0.5, grave=True)
    assert fleet.status(A, 4) == UpstreamStatus("a", "a.example:1", 1, 1, 1, 6.0, 5, 2)
