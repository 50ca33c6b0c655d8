"""Processes are read to a complete output, kept within limits, and never left behind (D15, D27, D40, D41, B10)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.extend import ErrorKind, ToolResult
from app.plugins.child import Child
from app.plugins.places import Limits
from tests.plugins.watching import OK, READY, appears, children, descriptors, lives, vanishes
from tests.waiting import until

if TYPE_CHECKING:
    from tests.plugins.conftest import Bench, Caller

# A helper that outlives its parent. It tells its process id and that it is up by a file, written atomically.
HELPER = """
import os, subprocess, sys, time
def helper(inherit, ignore_term=False):
    code = "import os, signal, sys, time\\n"
    if ignore_term:
        code += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
    code += "open('helper.tmp', 'w').write(str(os.getpid())); os.rename('helper.tmp', 'helper')\\ntime.sleep(600)"
    out = None if inherit else subprocess.DEVNULL
    subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    while not os.path.exists("helper"):
        time.sleep(0.01)
"""


@pytest.fixture(params=["loop", "threads", "uvloop"])
def anyhow(request: pytest.FixtureRequest, bench: Bench) -> Bench:
    """The bench with each way to read pipes."""
    bench.threads = request.param == "threads"
    bench.uvloop = request.param == "uvloop"
    return bench


def test_a_time_out_ends_the_grandchildren_too(anyhow: Bench) -> None:
    bench = anyhow
    folder = bench.plugin("X", HELPER + "helper(inherit=True)\n" + READY + "time.sleep(600)")

    async def work(call: Caller) -> ToolResult:
        task = asyncio.ensure_future(call("X"))
        await appears(folder / "ready")
        (limit,) = call.processes._running.values()
        limit.reschedule(asyncio.get_running_loop().time())  # its time is up now, not on a clock's word
        result = await task
        await vanishes(int((folder / "helper").read_text()))
        return result

    assert bench.run(work).error_kind is ErrorKind.TIMEOUT
    assert not children()


def test_a_cancel_ends_the_group_even_if_it_ignores_sigterm(anyhow: Bench) -> None:
    bench = anyhow
    bench.limits = Limits(stop_seconds=0.2)
    folder = bench.plugin(
        "X",
        HELPER
        + "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        + "helper(inherit=False, ignore_term=True)\n"
        + READY
        + "time.sleep(600)",
    )

    async def work(call: Caller) -> None:
        task = asyncio.ensure_future(call("X"))
        await appears(folder / "ready")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not lives(call.pids[0])
        await vanishes(int((folder / "helper").read_text()))
        assert call.processes.running == 0

    bench.run(work)
    assert not children()


def test_a_second_cancel_neither_skips_nor_shortens_the_end(bench: Bench) -> None:
    bench.limits = Limits(stop_seconds=30.0)
    folder = bench.plugin(
        "X",
        "import os, signal, sys, time\n"
        "def told(*_):\n"
        "    open('told.tmp', 'w').close(); os.rename('told.tmp', 'told')\n"
        "    while not os.path.exists('go'): time.sleep(0.01)\n"
        "    open('tidy', 'w').write('done'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, told)\n" + READY + "while True: time.sleep(600)",
    )

    async def work(call: Caller) -> None:
        task = asyncio.ensure_future(call("X"))
        await appears(folder / "ready")
        task.cancel()
        await appears(folder / "told")
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        (folder / "go").touch()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not lives(call.pids[0])

    bench.run(work)
    assert (folder / "tidy").read_text() == "done"
    assert not children()


def test_what_an_ended_process_left_in_its_pipes_is_read_without_waiting(tmp_path: Path) -> None:  # D15
    script = f"import os, time\nif os.fork(): print({OK!r})\nelse: time.sleep(600)"

    async def work() -> bytes:
        child = Child([sys.executable, "-c", script], folder=tmp_path, environment={}, stdin=b"", output_limit=1000)
        # The loop must get no chance to look at the pipe before the process is gone.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - see above
        await child.drain()
        child.signal(kill=True)
        assert child.reap_now()
        child.close_pipes()
        return bytes(child.stdout)

    assert asyncio.run(work()).strip() == OK.encode()


def test_a_plugin_may_end_in_its_own_way_on_sigterm(bench: Bench) -> None:
    folder = bench.plugin(
        "X",
        "import os, signal, sys, time\n"
        "def tidy(*_): open('tidy', 'w').write('done'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, tidy)\n" + READY + "time.sleep(600)",
    )

    async def work(call: Caller) -> None:
        task = asyncio.ensure_future(call("X"))
        await appears(folder / "ready")
        task.cancel()
        await asyncio.wait({task})

    bench.run(work)
    assert (folder / "tidy").read_text() == "done"


def test_a_crash_leaves_nothing(bench: Bench) -> None:  # D41
    folder = bench.plugin("X", HELPER + "helper(inherit=True)\nsys.exit('broken')")

    async def work(call: Caller) -> ToolResult:
        result = await call("X")
        await vanishes(int((folder / "helper").read_text()))
        return result

    result = bench.run(work)
    assert "exited with code 1" in result.message
    assert "broken" in result.message


@pytest.mark.parametrize("inherit", [True, False])
def test_helpers_left_after_an_answer_live_until_the_server_stops(anyhow: Bench, inherit: bool) -> None:  # D15, D41
    bench = anyhow
    folder = bench.plugin("X", HELPER + f"helper(inherit={inherit})\nprint('''{OK}''')")

    async def work(call: Caller) -> int:
        # With a helper that holds stdout for ten minutes, waiting for the pipe's end would run into the test's limit.
        result = await call("X")
        assert result.ok
        helper = int((folder / "helper").read_text())
        assert lives(helper)
        assert call.processes.left_groups() == (call.pids[0],)
        assert call.processes.running == 0
        return helper

    helper = bench.run(work)
    assert not lives(helper)
    assert not children()


def test_a_helper_that_ignores_sigterm_is_ended_at_shutdown(bench: Bench) -> None:
    bench.limits = Limits(stop_seconds=0.2)
    folder = bench.plugin("X", HELPER + f"helper(inherit=True, ignore_term=True)\nprint('''{OK}''')")

    async def work(call: Caller) -> int:
        assert (await call("X")).ok
        return int((folder / "helper").read_text())

    helper = bench.run(work)

    async def wait() -> None:
        await vanishes(helper)

    asyncio.run(wait())


def test_a_helper_may_go_on_printing_after_the_answer(bench: Bench) -> None:
    code = (
        "import os, time\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "for _ in range(200): os.write(1, b'x' * 10_000)\n"
        "open('printed.tmp', 'w').close(); os.rename('printed.tmp', 'printed')"
    )
    folder = bench.plugin(
        "X", f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {code!r}])\nprint('''{OK}''')"
    )

    async def work(call: Caller) -> None:
        assert (await call("X")).ok
        (folder / "go").touch()
        await appears(folder / "printed")

    bench.run(work)


def test_an_answer_by_a_process_that_outlives_its_launcher_is_waited_for(bench: Bench) -> None:
    code = f"import os, sys, time\n{READY}while os.getppid() == int(sys.argv[1]): time.sleep(0.005)\nprint('''{OK}''')"
    bench.plugin(
        "X",
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-S', '-c', {code!r}, str(os.getpid())])\n"
        "while not os.path.exists('ready'): time.sleep(0.005)\n"
        "os._exit(0)",
    )
    assert bench.call("X").ok


def test_a_plugin_that_closes_its_pipes_has_answered(bench: Bench) -> None:  # D15
    folder = bench.plugin(
        "X", f"import os, time\nprint('''{OK}''', flush=True)\nos.close(1); os.close(2)\ntime.sleep(600)"
    )

    async def work(call: Caller) -> int:
        result = await call("X")
        assert result.ok
        assert result.exit_code is None
        assert call.processes.left_groups() == (call.pids[0],)
        return call.pids[0]

    assert not lives(bench.run(work))
    assert not children()
    assert folder.exists()


def test_closed_pipes_without_an_answer_wait_for_the_exit_code(bench: Bench) -> None:
    bench.plugin("X", "import os, time\nos.close(1); os.close(2)\ntime.sleep(0.8)\nos._exit(7)")
    assert "exited with code 7" in bench.call("X").message


def test_stopping_ends_running_and_waiting_calls(bench: Bench) -> None:  # P43
    bench.limits = Limits(running=1, stop_seconds=1.0)
    folder = bench.plugin("X", "import os, time\n" + READY + "time.sleep(600)")

    async def work(call: Caller) -> list[ToolResult]:
        calls = [asyncio.ensure_future(call("X")) for _ in range(2)]
        await appears(folder / "ready")
        await call.processes.stop()
        results = [*await asyncio.gather(*calls), await call("X")]
        assert not lives(call.pids[0])
        return results

    results = bench.run(work)
    assert [result.error_kind for result in results] == [ErrorKind.CANCELLED] * 3
    assert not children()


def test_stopping_while_a_cancelled_call_is_being_ended_is_no_fault(bench: Bench) -> None:  # P43
    bench.limits = Limits(stop_seconds=0.3)
    folder = bench.plugin(
        "X",
        "import os, signal, time\n"
        "def told(*_):\n    open('told.tmp', 'w').close(); os.rename('told.tmp', 'told')\n"
        "signal.signal(signal.SIGTERM, told)\n" + READY + "while True: time.sleep(600)",
    )

    async def work(call: Caller) -> None:
        task = asyncio.ensure_future(call("X"))
        await appears(folder / "ready")
        task.cancel()
        await appears(folder / "told")
        await call.source.stop()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not lives(call.pids[0])

    bench.run(work)
    assert not children()


def test_a_torn_down_loop_leaves_no_process(bench: Bench) -> None:
    bench.limits = Limits(stop_seconds=30.0)
    folder = bench.plugin(
        "X", "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY + "time.sleep(600)"
    )
    pids: list[int] = []

    async def work(call: Caller) -> None:
        task = asyncio.ensure_future(call("X"))
        await appears(folder / "ready")
        pids.extend(call.pids)
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # What the runner does with tasks that are left when the main one has ended:
        for other in asyncio.all_tasks() - {asyncio.current_task()}:
            other.cancel()
        await asyncio.wait({task})

    bench.run(work)
    assert not lives(pids[0])
    assert not children()


def test_no_descriptor_and_no_zombie_is_left_by_any_ending(anyhow: Bench) -> None:
    bench = anyhow
    bench.limits = Limits(stop_seconds=0.2, output_bytes=50_000)
    bench.plugin("Good", f"print('''{OK}''')")
    bench.plugin("Crash", "import sys; sys.exit(3)")
    bench.plugin("Flood", "while True: print('x' * 1000)")
    bench.plugin("Slow", "import time; time.sleep(600)", communication={"protocol": "stdio", "timeout": 100})
    bench.plugin("Gone", "", entryPoint={"command": "./main.py"})

    async def all_of_them(call: Caller) -> None:
        await asyncio.gather(*(call(name, {"a": "b" * 100_000}) for name in bench_names))

    bench_names = ["Good", "Crash", "Flood", "Slow", "Gone"]

    async def work(call: Caller) -> None:
        await all_of_them(call)
        before = descriptors()
        await all_of_them(call)
        await all_of_them(call)
        # The loop closes its ends of pipes a moment after the call; one that it never closes fails the wait.
        await until(lambda: len(descriptors()) <= len(before) and not children())

    bench.run(work)


def test_a_killed_plugin_names_its_signal(bench: Bench) -> None:
    bench.plugin("X", f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})")
    result = bench.call("X")
    assert result.exit_code == -9
    assert "exited with code -9 (SIGKILL)" in result.message
