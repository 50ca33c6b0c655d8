"""Waiting for what other tasks, threads or processes bring about, where nobody is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(reached: Callable[[], object], seconds: float = 30.0) -> None:
    """Look until it is so; fails when that takes too long, and decides nothing else."""
    async with asyncio.timeout(seconds):
        while not reached():
            await asyncio.sleep(0.002)
