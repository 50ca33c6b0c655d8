"""Reading what nodes sent never takes the event loop for long, whoever sends how much."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

from app.hub.nodes.intake import SAVED_SECONDS, SHARE, SLICE_SECONDS, Intake
from tests.server import run


class Reader:
    """Reads a number of steps, each of which takes ``seconds`` of a clock that stands still otherwise."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.computed = 0.0
        self.order: list[str] = []
        self.ended: list[tuple[str, int]] = []
        self.intake = Intake(self.read, lambda: self.computed)

    def read(self, sender: str, steps: int) -> Generator[None]:
        for _ in range(steps):
            yield
            self.computed += self.seconds
            self.order.append(sender)
        self.ended.append((sender, steps))

    async def until(self, ended: int) -> None:
        while len(self.ended) < ended:
            await asyncio.sleep(0.001)


def test_what_is_little_is_read_at_once() -> None:
    async def main() -> None:
        reader = Reader(0.001)
        for number in range(3):
            reader.intake.put("a", number)
            assert reader.ended[-1] == ("a", number)

    run(main())


def test_what_is_much_is_read_in_slices_and_between_them_others_have_their_turn() -> None:
    async def main() -> None:
        reader = Reader(SLICE_SECONDS * 0.51)
        reader.intake.put("a", 20)
        assert len(reader.order) <= 2
        longest = before = len(reader.order)
        while not reader.ended:
            await asyncio.sleep(0)
            longest, before = max(longest, len(reader.order) - before), len(reader.order)
        assert longest <= 2

    run(main())


def test_a_flood_gets_its_share_of_the_time_and_only_the_newest_is_read() -> None:
    async def main() -> None:
        reader = Reader(SLICE_SECONDS)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(1000):
            reader.intake.put("flood", 6 + number % 2)
        reader.intake.put("other", 1)
        await reader.until(3)
        assert [sender for sender, _ in reader.ended] == ["flood", "flood", "other"]
        assert reader.ended[1][1] == 7, "the newest"
        assert reader.computed <= SAVED_SECONDS + (loop.time() - began) * SHARE + SLICE_SECONDS

    run(main())


def test_nothing_is_read_of_who_is_gone_and_after_the_stop() -> None:
    async def main() -> None:
        reader = Reader(SAVED_SECONDS / 2)
        reader.intake.put("a", 2)
        reader.intake.put("gone", 1)
        reader.intake.put("b", 1)
        reader.intake.forget("gone")
        await reader.until(2)
        assert [sender for sender, _ in reader.ended] == ["a", "b"]
        reader.intake.put("c", 100)
        reader.intake.stop()
        reader.intake.put("d", 0)
        await reader.until(3)
        assert reader.ended[-1] == ("d", 0)

    run(main())
