"""A lock that many share or one has alone."""

from __future__ import annotations

import asyncio

from app.memory.embedders.turns import Turns
from tests.server import run


def test_whoever_is_alone_waits_for_the_others_and_lets_nobody_in() -> None:
    async def main() -> None:
        turns, told = Turns(), list[str]()
        first = asyncio.Event()

        async def shared(name: str, until: asyncio.Event) -> None:
            async with turns.shared():
                told.append(f"{name} in")
                await until.wait()
            told.append(f"{name} out")

        async def alone() -> None:
            async with turns.alone():
                told.append("alone")

        async with asyncio.TaskGroup() as group:
            group.create_task(shared("a", first))
            group.create_task(shared("b", first))
            await asyncio.sleep(0)
            group.create_task(alone())
            await asyncio.sleep(0)
            group.create_task(shared("late", first))
            await asyncio.sleep(0)
            assert told == ["a in", "b in"]
            first.set()
        assert told.index("alone") < told.index("late in")
        assert told.index("alone") > max(told.index("a out") - 1, told.index("b out") - 1, 1)

    run(main())
