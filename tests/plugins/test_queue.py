"""Plugin processes wait for their places, each limit with an error of its own (D40)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from app.extend import ErrorKind, ToolResult
from app.plugins.places import Limits
from tests.plugins.watching import OK, READY, appears

if TYPE_CHECKING:
    from tests.plugins.conftest import Bench, Caller


def test_twenty_calls_under_a_cap_of_four_all_answer(bench: Bench) -> None:
    bench.limits = Limits(running=4, starting=2)
    folder = bench.plugin(
        "X",
        "import os, time\n"
        "mine = f'run-{os.getpid()}'; open(mine, 'w').close()\n"
        "seen = len([n for n in os.listdir('.') if n.startswith('run-')])\n"
        "time.sleep(0.02); os.remove(mine)\n"
        'print(\'{"status":"success","result":"%d"}\' % seen)',
    )

    async def work(call: Caller) -> list[ToolResult]:
        return list(await asyncio.gather(*(call("X", {"n": str(number)}) for number in range(20))))

    results = bench.run(work)
    seen = [result.structured["original_plugin_output"] for result in results]
    assert len(seen) == 20
    assert max(seen) <= 4
    assert folder.exists()


def test_a_plugins_own_limit_does_not_hold_up_others(bench: Bench) -> None:
    waiting = "import os, time\n" + READY + "while not os.path.exists('go'): time.sleep(0.01)\n" + f"print('''{OK}''')"
    slow = bench.plugin("Slow", waiting, maxRunning=1)
    bench.plugin("Quick", f"print('''{OK}''')")

    async def work(call: Caller) -> list[Any]:
        first = asyncio.ensure_future(call("Slow"))
        second = asyncio.ensure_future(call("Slow"))
        await appears(slow / "ready")
        quick = await call("Quick")
        assert call.processes.waiting == 1
        assert len(call.pids) == 2
        (slow / "go").touch()
        return [quick, await first, await second]

    assert all(result.ok for result in bench.run(work))


def test_a_silent_start_holds_up_the_next_one_until_it_speaks(bench: Bench) -> None:
    bench.limits = Limits(starting=1, starting_seconds=600.0)
    folder = bench.plugin(
        "X",
        "import os, time\n"
        + READY
        + "while not os.path.exists('speak'): time.sleep(0.01)\n"
        + "print('loading', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
        + f"print('''{OK}''')",
    )
    bench.plugin("Y", f"print('''{OK}''')")

    async def work(call: Caller) -> list[ToolResult]:
        first = asyncio.ensure_future(call("X"))
        second = asyncio.ensure_future(call("Y"))
        await appears(folder / "ready")
        assert len(call.pids) == 1
        (folder / "speak").touch()
        done = await second
        assert not first.done()
        (folder / "go").touch()
        return [done, await first]

    assert all(result.ok for result in bench.run(work))


def test_a_process_that_stays_silent_holds_up_others_for_a_moment_only(bench: Bench) -> None:
    bench.limits = Limits(starting=1, starting_seconds=0.05)
    folder = bench.plugin("X", f"import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('''{OK}''')")
    bench.plugin("Y", f"print('''{OK}''')")

    async def work(call: Caller) -> list[ToolResult]:
        first = asyncio.ensure_future(call("X"))
        second = await call("Y")
        (folder / "go").touch()
        return [second, await first]

    assert all(result.ok for result in bench.run(work))


def test_helpers_of_a_cancelled_call_may_end_in_their_own_way_too(bench: Bench) -> None:
    bench.limits = Limits(stop_seconds=30.0)  # never needed
    code = (
        "import os, signal, sys, time\n"
        "def tidy(*_): time.sleep(0.05); open('tidy', 'w').write('done'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, tidy)\n" + READY + "time.sleep(600)"
    )
    folder = bench.plugin(
        "X",
        "import subprocess, sys, time\nnull = subprocess.DEVNULL\n"
        f"subprocess.Popen([sys.executable, '-c', {code!r}], stdin=null, stdout=null, stderr=null)\ntime.sleep(600)",
    )

    async def work(call: Caller) -> None:
        task = asyncio.ensure_future(call("X"))
        await appears(folder / "ready")
        task.cancel()
        await asyncio.wait({task})

    bench.run(work)
    assert (folder / "tidy").read_text() == "done"


def test_waiting_too_long_for_a_place_is_an_error_of_its_own(bench: Bench) -> None:  # D40
    bench.limits = Limits(running=1, queue_seconds=0.05, queued=1, stop_seconds=0.5)
    folder = bench.plugin("X", "import os, time\n" + READY + "time.sleep(600)")

    async def work(call: Caller) -> tuple[ToolResult, ToolResult]:
        first = asyncio.ensure_future(call("X"))
        await appears(folder / "ready")
        second = asyncio.ensure_future(call("X"))
        await asyncio.sleep(0)
        full = await call("X")
        late = await second
        first.cancel()
        await asyncio.wait({first})
        return late, full

    late, full = bench.run(work)
    assert (late.error_kind, full.error_kind) == (ErrorKind.QUEUE, ErrorKind.QUEUE)
    assert "within 0.05 s" in late.message
    assert "1 calls are waiting" in full.message


def test_waiting_does_not_use_up_the_time_limit(bench: Bench) -> None:  # D40
    bench.limits = Limits(running=1)
    folder = bench.plugin("Slow", "import os, time\n" + READY + "while not os.path.exists('go'): time.sleep(0.01)\n")
    bench.plugin("X", f"print('''{OK}''')", communication={"protocol": "stdio", "timeout": 3000})

    async def work(call: Caller) -> ToolResult:
        slow = asyncio.ensure_future(call("Slow"))
        await appears(folder / "ready")
        waiting = asyncio.ensure_future(call("X"))
        await asyncio.sleep(0)
        assert call.processes.waiting == 1
        assert len(call.pids) == 1  # started() is not called before there is a place
        (folder / "go").touch()
        await slow
        return await waiting

    assert bench.run(work).ok


def test_a_call_cancelled_in_the_queue_gives_its_place_back(bench: Bench) -> None:
    bench.limits = Limits(running=1)
    folder = bench.plugin("X", "import os, time\n" + READY + "while not os.path.exists('go'): time.sleep(0.01)\n")
    bench.plugin("Y", f"print('''{OK}''')")

    async def work(call: Caller) -> ToolResult:
        first = asyncio.ensure_future(call("X"))
        await appears(folder / "ready")
        second = asyncio.ensure_future(call("Y"))
        third = asyncio.ensure_future(call("Y"))
        await asyncio.sleep(0)
        second.cancel()
        (folder / "go").touch()
        await asyncio.wait({first, second})
        return await third

    assert bench.run(work).ok
