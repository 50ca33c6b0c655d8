"""What a server still has once it has nothing to do: processes, open files, tasks, clients."""

from __future__ import annotations

import asyncio
import time

import aiohttp

from bench.conversations import Client
from bench.processes import Snapshot, offspring, snapshot

SETTLE_SECONDS = 45.0
"""Idle connections to the model are kept for 15 s, a calculation may take a while: what is left then is a leak."""

KEPT_NUMBERS = ("vcp_tasks ", "vcp_clients{", "vcp_running_turns ", "vcp_plugin_processes{")
"""Numbers of ``/metrics`` that are at the end of the load what they were at its start."""


async def settled(pid: int, mark: str, files: int | None = None) -> Snapshot:
    """The process once it has nothing to do: no offspring, and no more open files than ``files`` (None: the fewest
    that it gets to). What is not so after the time limit is returned as it is.
    """
    until = time.monotonic() + SETTLE_SECONDS
    seen, steady = snapshot(pid, mark), time.monotonic()
    while time.monotonic() < until:
        await asyncio.sleep(0.25)
        now = snapshot(pid, mark)
        if now.files != seen.files or now.offspring:
            steady = time.monotonic()
        seen = now
        if not now.offspring and files is not None and now.files <= files:
            break
        if not now.offspring and files is None and time.monotonic() - steady > SETTLE_SECONDS / 2:
            break
    return seen


async def outlived(pid: int, mark: str) -> list[int]:
    """What is left of a killed process's offspring after the time that it may take to end."""
    until = time.monotonic() + SETTLE_SECONDS
    while (left := offspring(pid, mark)) and time.monotonic() < until:  # noqa: ASYNC110  only the system knows them
        await asyncio.sleep(0.1)
    return left


async def numbers(address: str, key: str) -> dict[str, float]:
    """What must not grow: tasks of the event loop, connected clients, running turns and processes."""
    async with aiohttp.ClientSession() as session:
        client = Client(session, address, key)
        async with session.get(address + "/metrics", headers=client.headers) as response:
            lines = (await response.text()).splitlines()
    told = dict(line.rsplit(" ", 1) for line in lines if line.startswith(KEPT_NUMBERS))
    return {name: float(number) for name, number in told.items()}
