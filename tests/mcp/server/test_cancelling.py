"""Cancelling a call stops its work (MCP-8, MCP-13, STD-38)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.extend import CallFinished, Outcome
from app.plugins.places import Limits
from app.plugins.processes import Processes
from app.plugins.stdio import StdioPlugins
from tests.mcp.server.bench import ERAS, MODERN, DoorBench, forever, says
from tests.mcp.server.raw import connected, modern
from tests.plugins.conftest import Bench
from tests.server import run
from tests.waiting import until

SLEEPER = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path(sys.argv[0]).with_name("pids.tmp").write_text(f"{os.getpid()} {child.pid}")
os.rename(pathlib.Path(sys.argv[0]).with_name("pids.tmp"), pathlib.Path(sys.argv[0]).with_name("pids"))
time.sleep(60)
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@asynccontextmanager
async def plugin_behind_a_door(home: Path) -> AsyncIterator[tuple[DoorBench, Path]]:
    """A door over a real plugin that starts a helper and sleeps; the file with the ids of both processes."""
    plugins = Bench(home)
    folder = plugins.plugin("Sleeper", SLEEPER)
    processes = Processes(Limits(stop_seconds=2.0))
    source = StdioPlugins(
        plugins.found(), processes, project_base=home, environ=lambda: plugins.environ, auth_code=lambda: None
    )
    await source.start()
    try:
        async with DoorBench(source=source) as bench:
            yield bench, folder / "pids"
    finally:
        await source.stop()


async def both_pids(file: Path) -> list[int]:
    await until(file.exists)
    return [int(pid) for pid in (await asyncio.to_thread(file.read_text)).split()]


@pytest.mark.parametrize("era", ["2025-11-25", MODERN])
def test_mcp_13_std_38_a_cancelled_call_kills_its_process_tree_and_is_not_answered(tmp_path: Path, era: str) -> None:
    """MCP-8: no response follows, and the next call works."""

    async def main() -> None:
        async with plugin_behind_a_door(tmp_path) as (bench, file), connected(bench.door) as raw:
            if era != MODERN:
                await raw.hello()
            params: dict[str, Any] = {"name": "Sleeper"}
            await raw.send("tools/call", modern(params) if era == MODERN else params, id=7)
            pids = await both_pids(file)
            assert all(alive(pid) for pid in pids)
            cancelled = {"requestId": 7, "reason": "enough"}
            await raw.send("notifications/cancelled", modern(cancelled) if era == MODERN else cancelled)
            await until(lambda: not any(alive(pid) for pid in pids))
            await until(lambda: bench.door.running == 0)
            answer = await raw.ask("tools/list", modern() if era == MODERN else None)
            assert "result" in answer and 7 not in raw.replies
            (finished,) = [event for event in bench.events if isinstance(event, CallFinished)]
            assert finished.outcome is Outcome.CANCELLED

    run(main())


@pytest.mark.parametrize("era", ["2025-11-25", MODERN])
def test_mcp_60_a_client_that_is_gone_ends_its_calls(era: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            bench.tools.add("Forever", forever)
            async with connected(bench.door) as raw:
                if era != MODERN:
                    await raw.hello()
                params: dict[str, Any] = {"name": "Forever"}
                await raw.send("tools/call", modern(params) if era == MODERN else params, id=1)
                await until(lambda: bench.tools.calls)
            await until(lambda: bench.door.running == 0)
            (finished,) = [event for event in bench.events if isinstance(event, CallFinished)]
            assert finished.outcome is Outcome.CANCELLED

    run(main())


def test_mcp_8_cancelling_what_does_not_run_is_ignored() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Echo", says)
            await raw.hello()
            assert "result" in await raw.ask("tools/call", {"name": "Echo"})
            for params in (
                {"requestId": "r2"},
                {"requestId": "never"},
                {"requestId": None},
                {},
                None,
                {"requestId": []},
            ):
                await raw.send("notifications/cancelled", params)
            assert "result" in await raw.ask("tools/call", {"name": "Echo"})

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_mcp_13_a_client_that_stops_waiting_ends_the_call(era: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            bench.tools.add("Forever", forever)
            async with bench.client(era) as client:
                call = asyncio.create_task(client.call_tool("Forever", {}))
                await until(lambda: bench.tools.calls)
                call.cancel()
                await asyncio.wait({call})
                await until(lambda: bench.door.running == 0)

    run(main())


def test_mcp_27_a_call_that_is_cancelled_while_it_waits_for_a_place_never_runs() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.rules = type(bench.rules)(max_running=1)
            bench.tools.add("Forever", forever)
            await raw.hello()
            await raw.send("tools/call", {"name": "Forever"}, id=1)
            await raw.send("tools/call", {"name": "Forever"}, id=2)
            await until(lambda: bench.door.running == 2 and bench.tools.calls)
            await raw.send("notifications/cancelled", {"requestId": 2})
            await until(lambda: bench.door.running == 1)
            assert len(bench.tools.calls) == 1

    run(main())
