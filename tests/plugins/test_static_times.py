"""When static plugins run: the start, the timetable, never twice at once, few at a time (spec 5.6; P75-P77, B38)."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from app.plugins.statics import LONGEST_SLEEP, StaticPlugins
from tests.plugins.static_bench import NOW, SHANGHAI, StaticBench, shown, state
from tests.plugins.watching import appears, children, lives, vanishes
from tests.waiting import until


@pytest.fixture
def bench(tmp_path: Path) -> StaticBench:
    return StaticBench(tmp_path)


async def asleep(bench: StaticBench, count: int = 1) -> None:
    """Wait until so many timetables sleep."""
    await until(lambda: bench.hands.sleepers == count)


def test_a_plugin_runs_at_the_start_and_at_each_of_its_times(bench: StaticBench) -> None:
    bench.prints("Tick", "one", refreshIntervalCron="*/10 * * * * *")
    bench.prints("Once", "once")

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("Tick", 1)
        await bench.runs("Once", 1)
        await asleep(bench)
        assert state(statics, "Tick").next_run == NOW + 5
        bench.says("Tick", "two")
        await bench.hands.move(4)
        await bench.runs("Tick", 1)
        await bench.hands.move(1)
        await bench.runs("Tick", 2)
        assert await shown(statics, "{{Tick}} {{Once}}") == "two once"
        await asleep(bench)
        assert (state(statics, "Tick").last_run, state(statics, "Tick").next_run) == (NOW + 5, NOW + 15)
        await bench.hands.move(10)
        await bench.runs("Tick", 3)
        await bench.runs("Once", 1)
        assert state(statics, "Once").next_run is None

    bench.run(work)


def test_p75_nonsense_is_a_problem_that_names_file_and_field_and_stops_nothing_else(bench: StaticBench) -> None:
    bench.prints("Bad", "bad", refreshIntervalCron="every now and then")
    bench.prints("Good", "good", refreshIntervalCron="0 0,10-23 * * *")
    (problem,) = bench.found().problems
    assert problem.startswith(str(bench.home / "Plugin" / "Bad" / "plugin-manifest.json"))
    assert "field refreshIntervalCron: a cron expression has 5 fields" in problem

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("Bad", 1)
        await bench.runs("Good", 1)
        await asleep(bench)
        assert await shown(statics, "{{Bad}} {{Good}}") == "bad good"
        assert state(statics, "Bad").cron is None
        await bench.hands.move(1800)
        await bench.runs("Good", 2)
        await bench.runs("Bad", 1)

    bench.run(work)


def test_p77_an_endless_plugin_ends_at_its_limit_with_its_tree_and_what_it_printed_is_the_value(
    bench: StaticBench,
) -> None:
    folder = bench.plugin(
        "Endless",
        "sh run.sh",
        refreshIntervalCron="* * * * * *",
        communication={"protocol": "stdio", "timeout": 1000},
    )
    (folder / "run.sh").write_text(
        "printf x >> runs; echo so far; mkdir alone || echo > twice\n"
        "sleep 600 & echo $! > child.tmp; mv child.tmp child; sleep 600",
        encoding="utf-8",
    )
    bench.prints("Other", "other", refreshIntervalCron="* * * * * *")

    async def work(statics: StaticPlugins) -> None:
        await appears(folder / "child")
        await until(lambda: len(bench.refreshed("Other")) == 1)
        while not bench.refreshed("Endless"):
            await until(lambda: bench.hands.sleepers > 0)
            others = len(bench.refreshed("Other"))
            await bench.hands.move(1)
            await until(lambda before=others: len(bench.refreshed("Other")) > before)
        assert (folder / "runs").read_text(encoding="utf-8") == "x"
        await vanishes(int((folder / "child").read_text(encoding="utf-8")))
        assert await shown(statics, "{{Endless}} {{Other}}") == "so far other"
        assert "ended at its limit of 1 s" in state(statics, "Endless").last_error
        (folder / "alone").rmdir()
        await asleep(bench, 2)
        await bench.hands.move(1)
        await until(lambda: (folder / "runs").read_text(encoding="utf-8") == "xx")
        assert not (folder / "twice").exists()

    bench.run(work)
    assert children() == set()


def test_p77_an_endless_plugin_that_printed_nothing_keeps_the_good_value(bench: StaticBench) -> None:
    bench.plugin("Hung", "sh run.sh", communication={"protocol": "stdio", "timeout": 600})
    run = bench.home / "Plugin" / "Hung" / "run.sh"
    run.write_text("exec sleep 600", encoding="utf-8")

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("Hung", 1)
        assert "ended at its limit of 0.6 s" in await shown(statics, "{{Hung}}")
        run.write_text("echo good", encoding="utf-8")
        await statics.refresh("Hung")
        run.write_text("exec sleep 600", encoding="utf-8")
        await statics.refresh("Hung")
        assert await shown(statics, "{{Hung}}") == "good"

    bench.run(work)


def test_helpers_of_a_run_do_not_outlive_it(bench: StaticBench) -> None:
    bench.plugin("Helper", "sh -c 'sleep 600 & echo $!'")

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("Helper", 1)
        assert not lives(int(await shown(statics, "{{Helper}}")))

    bench.run(work)


def test_b38_a_time_that_comes_while_the_plugin_runs_is_passed_over(bench: StaticBench) -> None:
    folder = bench.plugin(
        "Slow",
        "sh -c 'echo x >> runs; while [ ! -e gate ]; do sleep 0.01; done; cat value'",
        refreshIntervalCron="* * * * * *",
    )
    bench.says("Slow", "done")

    async def work(statics: StaticPlugins) -> None:
        await appears(folder / "runs")
        asked = asyncio.create_task(statics.refresh("Slow"))
        await bench.hands.move(5)
        assert (folder / "runs").read_text(encoding="utf-8") == "x\n"
        (folder / "gate").touch()
        assert not (await asked).last_error
        await asleep(bench)
        assert len(bench.refreshed("Slow")) == 1
        await bench.hands.move(1)
        await bench.runs("Slow", 2)

    bench.run(work)


def test_who_stops_waiting_for_a_refresh_does_not_stop_it(bench: StaticBench) -> None:
    folder = bench.plugin("Slow", "sh -c 'echo > begun; while [ ! -e gate ]; do sleep 0.01; done; cat value'")
    bench.says("Slow", "done")

    async def work(statics: StaticPlugins) -> None:
        await appears(folder / "begun")
        asked = asyncio.create_task(statics.refresh("Slow"))
        await asyncio.sleep(0)
        assert state(statics, "Slow").running
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        (folder / "gate").touch()
        await until(lambda: not state(statics, "Slow").running)
        await bench.runs("Slow", 1)
        assert await shown(statics, "{{Slow}}") == "done"

    bench.run(work)


def test_few_run_at_a_time_and_all_have_their_turn(bench: StaticBench) -> None:
    for number in range(9):
        bench.prints(f"P{number}", str(number))
    most = 0

    async def work(statics: StaticPlugins) -> None:
        nonlocal most
        async with asyncio.timeout(30):
            while any(one.last_run is None or one.running for one in statics.states()):
                most = max(most, bench.processes.running)
                await asyncio.sleep(0.001)
        assert await shown(statics, "".join(f"{{{{P{n}}}}}" for n in range(9))) == "012345678"

    bench.run(work)
    assert 1 < most <= bench.limits.running


def test_the_timetable_follows_the_zone_of_now(bench: StaticBench) -> None:
    bench.prints("Daily", "x", refreshIntervalCron="0 12 * * *")
    berlin = ZoneInfo("Europe/Berlin")

    async def work(statics: StaticPlugins) -> None:
        await asleep(bench)
        assert state(statics, "Daily").next_run == datetime(2026, 1, 5, 12, tzinfo=SHANGHAI).timestamp()
        bench.zone = berlin
        await bench.hands.move(LONGEST_SLEEP)
        assert state(statics, "Daily").next_run == datetime(2026, 1, 5, 12, tzinfo=berlin).timestamp()

    bench.run(work)


def test_a_clock_that_is_put_right_does_not_stop_the_timetable(bench: StaticBench) -> None:
    bench.prints("Hourly", "x", refreshIntervalCron="0 * * * *")
    ahead = 70 * 365 * 86_400.0

    async def work(statics: StaticPlugins) -> None:
        await asleep(bench)
        assert (state(statics, "Hourly").next_run or 0) > NOW + ahead
        bench.hands.now = NOW
        bench.hands.wake_all()
        await until(lambda: (state(statics, "Hourly").next_run or 0) == NOW + 1795)
        await bench.hands.move(1795)
        await bench.runs("Hourly", 2)

    bench.hands.now = NOW + ahead
    bench.run(work)


def test_plugins_that_may_not_run_by_themselves_wait_for_the_setting(bench: StaticBench) -> None:
    bench.prints("Tick", "x", refreshIntervalCron="* * * * * *")
    bench.enabled = False

    async def work(statics: StaticPlugins) -> None:
        await asleep(bench)
        assert await shown(statics, "{{Tick}}") == "[Tick 信息不可用]"
        bench.enabled = True
        await bench.hands.move(LONGEST_SLEEP)
        await bench.runs("Tick", 1)
        await asleep(bench)
        bench.enabled = False
        await bench.hands.move(100)
        await bench.runs("Tick", 1)
        assert await shown(statics, "{{Tick}}") == "x"
        assert not (await statics.refresh("Tick")).last_error

    bench.run(work)


def test_stopping_ends_runs_at_once_and_leaves_no_process(bench: StaticBench) -> None:
    folder = bench.script(
        "Stubborn",
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open('pid.tmp', 'w').write(str(os.getpid())); os.rename('pid.tmp', 'pid')\n"
        "time.sleep(600)",
    )
    for number in range(8):  # found after the other one, so most of them wait for a place
        bench.plugin(f"Zzz{number}", "sleep 600")

    async def work(statics: StaticPlugins) -> None:
        del statics
        await appears(folder / "pid")

    bench.run(work)
    assert not lives(int((folder / "pid").read_text(encoding="utf-8")))
    assert children() == set()
    assert bench.events == []


def test_a_fault_is_logged_once_and_so_is_its_end(bench: StaticBench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    bench.plugin("News", "sh run.sh")
    run = bench.home / "Plugin" / "News" / "run.sh"
    run.write_text("echo boom >&2; exit 2", encoding="utf-8")

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("News", 1)
        for _ in range(3):
            await statics.refresh("News")
        run.write_text("echo fine", encoding="utf-8")
        for _ in range(3):
            await statics.refresh("News")

    bench.run(work)
    lines = [record.getMessage() for record in caplog.records if "News" in record.getMessage()]
    assert lines == ["static plugin News: 退出码 2 / exit code 2: boom", "static plugin News works again"]
