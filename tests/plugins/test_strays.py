"""Helpers that left the group of their plugin are treated like the group (D27, D41)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.extend import ErrorKind, ToolResult
from app.plugins.places import Limits
from tests.plugins.watching import OK, READY, appears, children, lives, vanishes

if TYPE_CHECKING:
    from tests.plugins.conftest import Bench, Caller

# A daemon as daemons are made: two forks and a session of its own. The pipes of the plugin are not its own.
DAEMON = """
import os, signal, sys, time
def daemon(ignore_term=False):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if ignore_term:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            null = os.open(os.devnull, os.O_RDWR)
            for standard in range(3):
                os.dup2(null, standard)
            code = "import os, time; open('d.tmp', 'w').write(str(os.getpid())); os.rename('d.tmp', 'daemon'); "
            os.execv(sys.executable, [sys.executable, "-c", code + "time.sleep(600)"])
        os._exit(0)
    os.wait()
    while not os.path.exists("daemon"):
        time.sleep(0.01)
"""


@pytest.fixture(params=["obeys", "ignores"])
def script(request: pytest.FixtureRequest, bench: Bench) -> str:
    bench.limits = Limits(stop_seconds=30.0 if request.param == "obeys" else 0.1)
    return f"{DAEMON}daemon(ignore_term={request.param == 'ignores'})\n"


def daemon_of(folder: Path) -> int:
    return int((folder / "daemon").read_text())


def test_a_time_out_ends_daemons_too(bench: Bench, script: str) -> None:
    folder = bench.plugin("X", script + READY + "time.sleep(600)")

    async def work(call: Caller) -> ToolResult:
        task = asyncio.ensure_future(call("X"))
        await appears(folder / "ready")
        (limit,) = call.processes._running.values()
        limit.reschedule(asyncio.get_running_loop().time())
        result = await task
        await vanishes(daemon_of(folder))
        return result

    assert bench.run(work).error_kind is ErrorKind.TIMEOUT
    assert not children()


def test_a_crash_ends_daemons_too(bench: Bench, script: str) -> None:
    folder = bench.plugin("X", script + "sys.exit(3)")

    async def work(call: Caller) -> None:
        assert (await call("X")).exit_code == 3
        await vanishes(daemon_of(folder))

    bench.run(work)


def test_the_daemon_of_an_answered_call_lives_until_the_server_stops(bench: Bench, script: str) -> None:  # D41
    folder = bench.plugin("X", f"{script}print({OK!r})")
    bench.plugin("Crash", "import sys; sys.exit(3)")

    async def work(call: Caller) -> None:
        assert (await call("X")).ok
        await call("Crash")  # the end of another call is none of its business
        assert lives(daemon_of(folder))

    bench.run(work)
    asyncio.run(vanishes(daemon_of(folder)))


def test_an_answered_call_holds_no_memory_for_its_helper(bench: Bench) -> None:
    bench.plugin("X", f"import subprocess\nsubprocess.Popen(['sleep', '600'])\nprint({OK!r})")

    async def work(call: Caller) -> None:
        assert (await call("X", {"text": "x" * 1_000_000})).ok
        (left,) = call.processes._left
        assert not left.stdout
        assert not left._input

    bench.run(work)
