"""Limits of running calls (MCP-27)."""

from __future__ import annotations

import asyncio

import pytest

from app.mcp.server import places
from app.mcp.server.places import Places, PlacesError
from tests.server import run
from tests.waiting import until


class Limits:
    in_all = 4
    per_client = 2


def made() -> tuple[Places, Limits]:
    limits = Limits()
    return Places(lambda: limits.in_all, lambda: limits.per_client), limits


async def hold(places: Places, client: str, ended: asyncio.Event) -> None:
    async with places.place(client):
        await ended.wait()


def test_mcp_27_who_is_over_its_limit_waits_and_holds_up_nobody_else() -> None:
    async def main() -> None:
        held, _ = made()
        ended = asyncio.Event()
        tasks = [asyncio.create_task(hold(held, "a", ended)) for _ in range(5)]
        await until(lambda: held.running == 2 and held.waiting == 3)
        tasks.append(asyncio.create_task(hold(held, "b", ended)))
        await until(lambda: held.running == 3)
        ended.set()
        await asyncio.gather(*tasks)
        assert (held.running, held.waiting) == (0, 0)

    run(main())


def test_mcp_27_a_client_gets_its_places_in_the_order_in_which_it_asked() -> None:
    async def main() -> None:
        held, limits = made()
        limits.per_client = 1
        order: list[int] = []

        async def one(number: int) -> None:
            async with held.place("a"):
                order.append(number)
                await asyncio.sleep(0)

        await asyncio.gather(*(one(number) for number in range(6)))
        assert order == list(range(6))

    run(main())


def test_a_call_that_is_cancelled_while_it_waits_or_is_just_let_in_leaves_no_place_behind() -> None:
    async def main() -> None:
        held, limits = made()
        limits.per_client = 1
        ended = asyncio.Event()
        first = asyncio.create_task(hold(held, "a", ended))
        waiting = asyncio.create_task(hold(held, "a", asyncio.Event()))
        let_in = asyncio.create_task(hold(held, "a", asyncio.Event()))
        await until(lambda: held.waiting == 2)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert held.waiting == 1
        ended.set()
        await first  # which lets the next one in, before that one ran again
        let_in.cancel()
        await asyncio.wait({let_in})
        assert (held.running, held.waiting) == (0, 0)

    run(main())


def test_limits_that_are_raised_hold_from_the_next_call_on() -> None:
    async def main() -> None:
        held, limits = made()
        limits.per_client = 1
        ended = asyncio.Event()
        tasks = [asyncio.create_task(hold(held, "a", ended)) for _ in range(3)]
        await until(lambda: held.waiting == 2)
        limits.per_client = 4
        tasks.append(asyncio.create_task(hold(held, "b", ended)))
        await until(lambda: held.running == 4)
        ended.set()
        await asyncio.gather(*tasks)

    run(main())


def test_the_queue_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(places, "MAX_WAITING", 2)
        held, limits = made()
        limits.per_client = 1
        ended = asyncio.Event()
        tasks = [asyncio.create_task(hold(held, "a", ended)) for _ in range(3)]
        await until(lambda: held.waiting == 2)
        with pytest.raises(PlacesError):
            async with held.place("b"):
                raise AssertionError("one too many was let in")
        ended.set()
        await asyncio.gather(*tasks)

    run(main())
