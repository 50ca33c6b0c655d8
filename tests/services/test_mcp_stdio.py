"""Programs that serve one client on their pipes."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from app.services.mcp_stdio import until_signalled


def test_a_signal_before_the_client_is_served_ends_the_program_in_order() -> None:
    """STD-41, MOD-11: with exit code 0, and what had begun is ended."""
    ended: list[str] = []

    async def starting() -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
            return 1
        finally:
            ended.append("parts")

    assert asyncio.run(until_signalled(starting())) == 0
    assert ended == ["parts"]


@pytest.mark.parametrize("code", [0, 1])
def test_without_a_signal_the_work_says_how_it_ended(code: int) -> None:
    async def work() -> int:
        return code

    assert asyncio.run(until_signalled(work())) == code
