"""How long a call may take (MCP-53, D74, P91)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from app.mcp.client.link import one_line
from app.mcp.client.patience import Allowance, Patience
from tests.server import run


@dataclass
class Asking:
    open: int = 0
    answered: float = 0.0


async def ended(patience: Patience, asking: Asking | None = None, work: float = 30) -> float:
    """Seconds until the block ended; fails when it was not by time."""
    with pytest.raises(TimeoutError):
        async with patience.within(asking):
            await asyncio.sleep(work)
    return patience.spent


def test_mcp_53_silence_ends_a_call() -> None:
    async def main() -> None:
        assert 0.05 <= await ended(Patience(Allowance(0.05, 5))) < 5

    run(main())


def test_mcp_53_progress_extends_a_call_up_to_the_most() -> None:
    async def main() -> None:
        patience = Patience(Allowance(0.1, 0.3))

        async def signs() -> None:
            while True:
                await asyncio.sleep(0.02)
                patience.progress()

        giving = asyncio.ensure_future(signs())
        spent = await ended(patience)
        giving.cancel()
        assert 0.3 <= spent < 5

    run(main())


def test_p91_d74_a_limit_of_its_own_holds_silent_or_not() -> None:
    async def main() -> None:
        patience = Patience(Allowance(0.2, 0.2))
        patience.progress()
        assert 0.2 <= await ended(patience) < 5

    run(main())


def test_time_in_which_a_person_is_asked_is_free() -> None:
    async def main() -> None:
        asking = Asking(open=1)
        patience = Patience(Allowance(0.05, 0.05))

        def answered() -> None:
            asking.open, asking.answered = 0, 0.3

        asyncio.get_running_loop().call_later(0.3, answered)
        assert 0.34 <= await ended(patience, asking) < 5

    run(main())


def test_the_deadline_of_the_caller_holds_in_any_case() -> None:
    async def main() -> None:
        now = asyncio.get_running_loop().time()
        assert await ended(Patience(Allowance(9, 9), now + 0.05), Asking(open=1)) < 5

    run(main())


def test_work_that_ends_in_time_is_left_alone() -> None:
    async def main() -> None:
        async with Patience(Allowance(0.05, 0.05)).within(None):
            pass
        await asyncio.sleep(0.1)  # nothing comes later

    run(main())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\n  first \nsecond", "first"),
        ("No such file: '/home/me/secret/thing.js'", "No such file: '…/thing.js'"),
        ("see http://host:80/a/b/c", "see http://host:80/a/b/c"),
        ("C:\\Users\\me\\x.exe failed", "…/x.exe failed"),
        ("~/a/b/c.txt", "…/c.txt"),
        ("either/or and 1/2", "either/or and 1/2"),
        ("x" * 500, "x" * 199 + "…"),
        ("", ""),
    ],
)
def test_errors_are_one_line_without_folders(text: str, line: str) -> None:
    assert one_line(text) == line
