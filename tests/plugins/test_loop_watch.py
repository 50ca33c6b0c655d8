"""The plugin that blocks the event loop is named: after the fact, and while it lasts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from app.plugins.loop_watch import LoopWatch
from tests.plugins.modules import alone, call, serving, write_module

__all__ = ["alone"]


async def blocking(seconds: float) -> str:
    await asyncio.sleep(0)
    time.sleep(seconds)  # noqa: ASYNC251 - what the watch is there for
    return "done"


def test_a_step_that_took_long_is_told_with_the_plugins_name(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        watch = LoopWatch(slow=0.2)
        assert await watch.stepped("Quick", asyncio.sleep(0.25, "done")) == "done"
        assert await watch.stepped("Slow", blocking(0.25)) == "done"

    asyncio.run(main())
    assert [record.args[0] for record in caplog.records if record.args] == ["Slow"]  # type: ignore[index]  # a tuple
    assert "plugin Slow blocked the event loop for 0.2" in caplog.text


def test_a_loop_that_is_blocked_now_is_told_with_the_place_where_it_stands(
    alone: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = """
    import asyncio, time
    def busy():
        time.sleep(0.4)
    class P:
        async def call(self, call, context):
            if call.arguments["hidden"]:
                await asyncio.create_task(self.hidden())
            else:
                busy()
        async def hidden(self):
            busy()
    def create(context):
        return P()
    """
    write_module(alone, "Blocker", source)

    async def main() -> None:
        async with serving(alone) as services:
            watch = LoopWatch(stuck=0.05, pause=0.01)
            watch.start()
            for hidden in (False, True):
                caplog.clear()
                assert (await call(services, "Blocker", {"hidden": hidden})).ok
                assert "plugin Blocker has blocked the event loop" in caplog.text
                assert "plugin.py:4 in busy" in caplog.text
            await asyncio.sleep(0.05)
            watch.stop()

    asyncio.run(main())
    assert "plugin Blocker let go of the event loop" in caplog.text


def test_a_loop_that_others_block_is_not_laid_at_a_plugins_door(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        watch = LoopWatch(stuck=0.02, pause=0.01)
        watch.start()
        await asyncio.sleep(0.02)
        await blocking(0.1)
        watch.stop()

    asyncio.run(main())
    assert caplog.records == []


def test_errors_and_cancellations_pass_through(caplog: pytest.LogCaptureFixture) -> None:
    async def failing() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ValueError("seen") from None

    async def main() -> None:
        watch = LoopWatch()
        task = asyncio.create_task(watch.stepped("P", failing()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(ValueError, match="seen"):
            await task
        task = asyncio.create_task(watch.stepped("P", asyncio.sleep(60)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(main())
