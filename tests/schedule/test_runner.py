"""The schedule: what is found, when it runs, that it runs once, and what becomes of its file (spec 7.1; D29)."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
import logging
import os
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.extend import Door, ErrorKind, TaskScheduled, ToolResult
from app.schedule import folder as folder_module
from app.schedule import watch as watch_module
from app.schedule.runner import MAX_INTERRUPTED, Pace
from tests.schedule.bench import NOW, Bench, looks
from tests.server import run
from tests.waiting import until

WAITING, CLAIMED, FAILED = (
    "VCPTimedContacts/{}.json",
    "VCPTimedContacts/.running/{}.json",
    "VCPTimedContacts/failed/{}.json",
)
RESULT = "VCPTimedResults/{}.json"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_task_that_is_due_at_the_start_runs_once_and_its_file_is_removed(bench: Bench) -> None:  # S1
    bench.task("now", NOW)
    bench.task("past", NOW - 10 * 365 * 86_400)

    async def main() -> None:
        async with bench.running() as runner:
            await until(lambda: len(bench.finished()) == 2)
            await looks(runner)
        async with bench.running() as runner:
            await looks(runner)

    run(main())
    assert sorted(bench.tools.texts) == ["now", "past"]
    assert sorted(bench.files()) == [RESULT.format("now"), RESULT.format("past")]


def test_the_call_enters_by_the_door_of_schedules_without_address_and_code(bench: Bench) -> None:
    bench.task("t", NOW, maid="Nova", n=5, nothing=None)

    async def main() -> None:
        async with bench.running():
            await until(bench.finished)

    run(main())
    ((call,), (context,)) = bench.tools.calls, bench.tools.contexts
    assert (context.door, context.client_ip, call.password, call.maid) == (Door.SCHEDULE, None, None, "Nova")
    assert call.texts == {}
    assert {name: call.arguments[name] for name in ("text", "n", "nothing")} == {"text": "t", "n": 5, "nothing": None}


def test_what_came_of_a_task_is_stored_and_told(bench: Bench) -> None:
    bench.task("t", NOW - 3)

    async def main() -> None:
        async with bench.running():
            await until(bench.finished)

    run(main())
    (told,) = bench.finished()
    assert (told.task_id, told.tool, told.due, told.error) == ("t", "Echo", NOW - 3, "")
    assert told.result is not None
    assert told.result.structured == {"said": "t"}
    assert bench.files() == {
        RESULT.format("t"): {
            "taskId": "t",
            "tool_name": "Echo",
            "scheduledLocalTime": "2026-01-05T07:59:57+08:00",
            "finishedLocalTime": "2026-01-05T08:00:00+08:00",
            "requestor": "test",
            "status": "success",
            "result": {"said": "t", "timestamp": "2026-01-05T08:00:00.000+08:00"},
        }
    }


def test_the_folder_is_made_before_it_is_watched(bench: Bench) -> None:  # B29
    async def main() -> None:
        async with bench.running() as runner:
            assert bench.folder.waiting.is_dir()
            await looks(runner, 1)
            bench.task("t", NOW)
            await until(bench.finished)

    run(main())
    assert bench.tools.texts == ["t"]


def test_a_new_file_is_armed_and_runs_at_its_time_even_after_years(bench: Bench) -> None:
    async def main() -> None:
        async with bench.running() as runner:
            await looks(runner, 1)
            bench.task("t", NOW + 40 * 365 * 86_400)
            await until(lambda: bench.events)
            await looks(runner)
            assert bench.tools.calls == []
            bench.now += 40 * 365 * 86_400
            await until(bench.finished)

    run(main())
    assert bench.events[0] == TaskScheduled("t", "Echo", NOW + 40 * 365 * 86_400)
    assert bench.tools.texts == ["t"]


def test_tasks_from_before_the_start_are_not_announced_again(bench: Bench) -> None:
    bench.task("t", NOW + 60)

    async def main() -> None:
        async with bench.running() as runner:
            await looks(runner)
            bench.task("new", NOW + 60)
            await until(lambda: bench.events)

    run(main())
    assert bench.events == [TaskScheduled("new", "Echo", NOW + 60)]


def test_a_file_that_is_deleted_before_its_time_is_never_run(bench: Bench) -> None:  # S4
    path = bench.task("t", NOW + 60)

    async def main() -> None:
        async with bench.running() as runner:
            await looks(runner)
            path.unlink()
            await looks(runner)
            bench.now += 120
            await looks(runner)

    run(main())
    assert bench.tools.calls == []
    assert bench.files() == {}


def test_a_file_that_is_deleted_when_its_time_has_come_is_never_run_either(bench: Bench) -> None:
    bench.at_once = 1
    bench.task("a", NOW - 1, "Hang")
    path = bench.task("b", NOW)

    async def main() -> None:
        async with bench.running():
            await until(lambda: bench.tools.calls)
            path.unlink()
            bench.tools.gate.set()
            await until(bench.finished)

    run(main())
    assert bench.tools.texts == ["a"]


def test_an_armed_task_keeps_its_time_when_its_file_is_rewritten(bench: Bench) -> None:
    bench.task("t", NOW + 60)

    async def main() -> None:
        async with bench.running() as runner:
            await looks(runner)
            bench.task("t", NOW + 6000)
            await looks(runner)
            bench.now += 60
            await until(bench.finished)

    run(main())
    assert bench.tools.texts == ["t"]


def test_a_clock_that_is_set_loses_no_task_and_doubles_none(bench: Bench) -> None:
    bench.task("t", NOW + 60)

    async def main() -> None:
        async with bench.running() as runner:
            await looks(runner)
            bench.now -= 86_400
            await looks(runner)
            assert bench.tools.calls == []
            bench.now += 3 * 86_400
            await until(bench.finished)
            bench.now -= 86_400 * 3
            await looks(runner)
            bench.now += 3 * 86_400
            await looks(runner)

    run(main())
    assert bench.tools.texts == ["t"]


def test_no_more_tasks_than_allowed_run_at_a_time(bench: Bench) -> None:
    bench.at_once = 2
    for number in range(7):
        bench.task(f"t{number}", NOW - 7 + number, "Hang")

    async def main() -> None:
        async with bench.running() as runner:
            await until(lambda: len(bench.tools.calls) == 2)
            await looks(runner)
            assert bench.tools.running == 2
            bench.tools.gate.set()
            await until(lambda: len(bench.finished()) == 7)

    run(main())
    assert bench.tools.most == 2
    assert sorted(bench.tools.texts) == [f"t{number}" for number in range(7)]


def test_a_task_is_claimed_before_it_runs_and_a_new_one_of_its_name_waits_for_its_end(bench: Bench) -> None:
    bench.task("t", NOW, "Hang")

    async def main() -> None:
        async with bench.running() as runner:
            await until(lambda: bench.tools.calls)
            assert sorted(bench.files()) == [CLAIMED.format("t")]
            bench.task("t", NOW, "Hang")
            await looks(runner)
            assert len(bench.tools.calls) == 1
            bench.tools.gate.set()
            await until(lambda: len(bench.finished()) == 2)

    run(main())
    assert sorted(bench.files()) == [RESULT.format("t")]


@pytest.mark.parametrize(
    ("tool", "kind", "reason"),
    [("Refuse", ErrorKind.PLUGIN, "plugin_error: 不 / no"), ("Nobody", ErrorKind.UNKNOWN_TOOL, "unknown_tool: ")],
)
def test_a_task_that_fails_moves_to_failed_with_its_reason(
    bench: Bench, tool: str, kind: ErrorKind, reason: str
) -> None:  # B36
    bench.task("t", NOW, tool)

    async def main() -> None:
        async with bench.running():
            await until(bench.finished)

    run(main())
    files = bench.files()
    assert sorted(files) == [FAILED.format("t"), RESULT.format("t")]
    failed = files[FAILED.format("t")]
    assert failed["failure"]["reason"].startswith(reason)
    assert failed["failure"]["failedLocalTime"] == "2026-01-05T08:00:00+08:00"
    assert failed["tool_call"] == {"tool_name": tool, "arguments": {"text": "t"}}
    assert files[RESULT.format("t")]["status"] == "error"
    (told,) = bench.finished()
    assert told.error.startswith(reason)
    assert told.result is not None
    assert told.result.error_kind is kind


def test_a_failed_task_that_is_moved_back_runs_again(bench: Bench) -> None:
    bench.task("t", NOW, "Refuse")

    async def main() -> None:
        async with bench.running():
            await until(bench.finished)
            bench.tools.specs = {**bench.tools.specs, "Refuse": bench.tools.specs["Echo"]}
            (bench.folder.failed / "t.json").rename(bench.folder.waiting / "t.json")
            await until(lambda: len(bench.finished()) == 2)

    run(main())
    assert sorted(bench.files()) == [RESULT.format("t")]
    assert bench.files()[RESULT.format("t")]["status"] == "success"


def test_a_file_without_tool_call_is_reported_when_due_and_leaves_the_folder(bench: Bench) -> None:  # S2
    bench.drop("t", json.dumps({"taskId": "t", "scheduledLocalTime": "2026-01-05T08:00:00+08:00"}))

    async def main() -> None:
        async with bench.running():
            await until(bench.finished)

    run(main())
    (told,) = bench.finished()
    assert (told.task_id, told.tool, told.result) == ("t", "", None)
    assert "tool_call" in told.error
    assert list(bench.files()) == [FAILED.format("t")]


@pytest.mark.parametrize(
    "content",
    [
        '{"scheduledLocalTime": "2026-01-05T08:00:00+08:00", "tool_call": {"tool_name": "Echo", "arguments": {}}}',
        '{"taskId": "t", "tool_call": {"tool_name": "Echo", "arguments": {}}}',
        "{half",
        "",
        b"\xff\xfe",
    ],
)
def test_a_file_that_is_no_task_is_kept_skipped_and_told_once(  # S3
    bench: Bench, content: str | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = bench.drop("t", content)

    async def main() -> None:
        async with bench.running() as runner:
            await until(lambda: "left where it is" in caplog.text)
            await looks(runner, 5)
            assert runner.health() == ""

    with caplog.at_level(logging.WARNING):
        run(main())
    assert bench.tools.calls == []
    assert path.exists()
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "task file t is left where it is and not scheduled"
    ]


def test_a_file_that_another_program_is_still_writing_runs_when_it_is_whole_and_nobody_complains(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    whole = bench.task("t", NOW).read_text()
    path = bench.folder.waiting / "t.json"
    path.write_text(whole[: len(whole) // 2])
    bench.pace = dataclasses.replace(bench.pace, settle=60)

    async def main() -> None:
        async with bench.running() as runner:
            await looks(runner, 3)
            with path.open("a") as file:
                file.write(whole[len(whole) // 2 :])
            await until(bench.finished)

    with caplog.at_level(logging.WARNING):
        run(main())
    assert bench.tools.texts == ["t"]
    assert caplog.records == []


def test_a_file_that_could_not_be_opened_is_tried_again_when_its_rights_change(bench: Bench) -> None:
    path = bench.task("t", NOW)
    content = path.read_text()
    path.write_text("{")
    os.utime(path, ns=(0, 0))

    async def main() -> None:
        async with bench.running() as runner:
            await looks(runner)
            path.write_text(content)
            os.utime(path, ns=(0, 0))
            await until(bench.finished)

    run(main())
    assert bench.tools.texts == ["t"]


def test_folders_links_pipes_and_hidden_files_are_left_alone(bench: Bench, tmp_path: Path) -> None:
    target = bench.task("t", NOW + 60)
    elsewhere = tmp_path / "elsewhere.json"
    target.rename(elsewhere)
    for folder in ("", "failed"):
        bench.task(".hidden", NOW, folder=folder)
    bench.task("done", NOW, folder="failed")
    waiting = bench.folder.waiting
    (waiting / "folder.json").mkdir()
    (waiting / "link.json").symlink_to(elsewhere)
    os.mkfifo(waiting / "pipe.json")
    (waiting / "note.txt").write_text("hello")

    async def main() -> None:
        async with bench.running() as runner:
            bench.now += 120
            await looks(runner, 3)

    run(main())
    assert bench.tools.calls == []
    assert elsewhere.exists()


def test_a_flood_of_files_is_read_in_parts_and_every_task_runs_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "BATCH", 7)
    for number in range(50):
        bench.task(f"t{number}", NOW - number)

    async def main() -> None:
        async with bench.running():
            await until(lambda: len(bench.finished()) == 50)

    run(main())
    assert sorted(bench.tools.texts) == sorted(f"t{number}" for number in range(50))


@pytest.mark.parametrize("stopped", [False, True])
def test_a_task_that_was_interrupted_is_never_run_again(bench: Bench, stopped: bool) -> None:  # D29
    """``stopped``: by a stop of the server; else it is found claimed at the start, as after a crash."""
    bench.task("t", NOW, "Hang", folder="" if stopped else ".running")

    async def main() -> None:
        async with bench.running() as runner:
            if stopped:
                await until(lambda: bench.tools.calls)
            else:
                await looks(runner)
        async with bench.running() as runner:
            await looks(runner)

    run(main())
    assert len(bench.tools.calls) == int(stopped)
    files = bench.files()
    assert list(files) == [FAILED.format("t")]
    assert "not run again" in files[FAILED.format("t")]["failure"]["reason"]
    (told,) = bench.finished()
    assert (told.task_id, told.tool, told.result) == ("t", "Hang", None)
    assert "not run again" in told.error


@pytest.mark.parametrize("stopped", [False, True])
def test_an_interrupted_task_of_an_idempotent_tool_runs_again(bench: Bench, stopped: bool) -> None:  # D29
    bench.task("t", NOW, "Safe", folder="" if stopped else ".running")

    async def main() -> None:
        if stopped:
            async with bench.running():
                await until(lambda: bench.tools.calls)
            assert bench.files()[WAITING.format("t")]["interrupted"] == 1
        bench.tools.gate.set()
        async with bench.running():
            await until(bench.finished)

    run(main())
    assert len(bench.tools.calls) == 1 + stopped
    assert [event.error for event in bench.finished()] == [""]
    assert list(bench.files()) == [RESULT.format("t")]


def test_an_idempotent_tool_that_takes_the_server_down_each_time_is_given_up(bench: Bench) -> None:
    bench.task("t", NOW, "Safe")

    async def main() -> None:
        for _ in range(MAX_INTERRUPTED + 1):
            before = len(bench.tools.calls)
            async with bench.running():
                await until(lambda before=before: len(bench.tools.calls) > before)
        async with bench.running() as runner:
            await looks(runner)

    run(main())
    assert len(bench.tools.calls) == MAX_INTERRUPTED + 1
    assert list(bench.files()) == [FAILED.format("t")]
    assert "interrupted" not in bench.files()[FAILED.format("t")]


def test_an_interrupted_task_that_cannot_be_settled_stays_claimed_and_holds_no_other(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        bench.task(name, NOW, folder=".running")
    (bench.folder.failed / "a.json").mkdir(parents=True)  # in the way

    async def main() -> None:
        async with bench.running() as runner:
            bench.task("a", NOW)
            await looks(runner)
            await until(lambda: "an earlier run is not settled" in caplog.text)

    run(main())
    assert bench.tools.calls == []
    assert (bench.folder.claimed / "a.json").exists()
    assert (bench.folder.failed / "b.json").exists()
    assert "a was interrupted and cannot be settled" in caplog.text


def test_a_fault_of_the_schedule_itself_makes_the_server_unwell(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with bench.running() as runner:
            await looks(runner, 1)
            bench.bus.listen(lambda event: 1 / 0, TaskScheduled)
            bench.task("t", NOW)
            await until(lambda: "has stopped" in runner.health())

    run(main())
    assert "ZeroDivisionError" in caplog.text


def test_a_claim_whose_result_is_stored_had_ended_and_is_only_cleared_away(bench: Bench) -> None:
    bench.task("t", NOW, "Hang", folder=".running")
    bench.folder.make()
    bench.folder.store_result("t", {"taskId": "t"})

    async def main() -> None:
        async with bench.running() as runner:
            await looks(runner)

    run(main())
    assert bench.tools.calls == []
    assert bench.finished() == []
    assert list(bench.files()) == [RESULT.format("t")]


def test_an_old_result_of_the_same_name_does_not_hide_an_interrupted_run(bench: Bench) -> None:
    bench.task("t", NOW, "Hang")
    bench.folder.make()
    bench.folder.store_result("t", {"taskId": "t"})

    async def main() -> None:
        async with bench.running():
            await until(lambda: bench.tools.calls)

    run(main())
    assert list(bench.files()) == [FAILED.format("t")]


def test_a_claim_that_is_no_task_is_reported_and_kept_in_failed(bench: Bench) -> None:
    bench.drop("t", "{half", folder=".running")

    async def main() -> None:
        async with bench.running() as runner:
            await looks(runner)

    run(main())
    assert (bench.folder.failed / "t.json").read_text() == "{half"
    assert [event.task_id for event in bench.finished()] == ["t"]


def test_a_stop_gives_running_calls_their_grace(bench: Bench) -> None:
    bench.grace = 10
    bench.task("t", NOW, "Hang")

    async def main() -> None:
        async with bench.running():
            await until(lambda: bench.tools.calls)
            asyncio.get_running_loop().call_soon(bench.tools.gate.set)

    run(main())
    assert list(bench.files()) == [RESULT.format("t")]


def test_what_the_disk_refuses_at_the_claim_is_not_run_and_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench.task("t", NOW)
    real = Path.replace
    refused = [OSError(errno.EROFS, "read-only"), OSError(errno.EROFS, "read-only")]

    def replace(self: Path, target: Path) -> Path:
        if refused and target.parent.name == ".running":
            raise refused.pop()
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)

    def passing() -> float:
        bench.now += 1
        return bench.now

    async def main() -> None:
        async with bench.running():
            await until(lambda: len(refused) == 1)
            assert bench.tools.calls == []
            # The next attempt is counted from the moment at which the runner hears of the refusal.
            await until(lambda: passing() and not refused)
            await until(lambda: passing() and bench.finished())

    run(main())
    assert bench.tools.texts == ["t"]
    assert "read-only" in caplog.text


def test_a_full_disk_loses_no_outcome(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench.task("good", NOW)
    bench.task("bad", NOW, "Refuse")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def main() -> None:
        monkeypatch.setattr(os, "fsync", full)
        async with bench.running() as runner:
            await until(lambda: len(bench.finished()) == 2)
            await looks(runner)

    run(main())
    assert sorted(bench.tools.texts, key=str) == ["bad", "good"]
    assert list(bench.files()) == [FAILED.format("bad")]
    assert {event.task_id: bool(event.error) for event in bench.finished()} == {"good": False, "bad": True}
    assert "No space left" in caplog.text


def test_a_folder_that_cannot_be_read_is_told_in_health_until_it_can(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir
    broken = [True]

    def scandir(path: Any) -> Any:
        if broken and Path(path) == bench.folder.waiting:
            raise OSError(errno.EIO, "Input/output error")
        return real(path)

    async def main() -> None:
        monkeypatch.setattr(os, "scandir", scandir)
        async with bench.running() as runner:
            await until(lambda: "Input/output error" in runner.health())
            bench.task("t", NOW)
            broken.clear()
            await until(bench.finished)
            assert runner.health() == ""

    run(main())


def test_a_folder_that_is_removed_is_made_again_and_goes_on_working(bench: Bench) -> None:
    async def main() -> None:
        async with bench.running() as runner:
            bench.task("gone", NOW + 60)
            await until(lambda: bench.events)
            shutil.rmtree(bench.folder.waiting)
            await looks(runner)
            bench.task("t", NOW)
            await until(bench.finished)

    run(main())
    assert bench.tools.texts == ["t"]


def test_where_changes_are_not_told_the_folder_is_looked_at_all_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def none_left(*_: Any, **__: Any) -> AsyncIterator[None]:
        raise OSError(errno.ENOSPC, "no watches left")
        yield

    monkeypatch.setattr(watch_module, "awatch", none_left)
    bench.pace = Pace(tick=60, rescan=60, poll=0.02, rest=0.005, settle=60, retry=60, prune=60)

    async def main() -> None:
        async with bench.running() as runner:
            await until(lambda: "no watches left" in caplog.text)
            bench.task("t", NOW)
            await until(bench.finished)
            assert runner.health() == ""

    run(main())
    assert len([record for record in caplog.records if "no watches" in record.getMessage()]) == 1


def test_a_change_that_the_system_tells_of_is_seen_at_once(bench: Bench) -> None:
    bench.pace = Pace(tick=60, rescan=3600, poll=3600, rest=0.005, settle=60, retry=60, prune=3600)

    async def main() -> None:
        async with bench.running() as runner:
            await looks(runner, 2)
            bench.task("t", NOW)
            await until(bench.finished)

    run(main())
    assert bench.tools.texts == ["t"]


def test_who_asks_for_a_look_while_one_is_going_on_gets_another_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.pace = Pace(tick=60, rescan=3600, poll=3600, rest=0.005, settle=3600, retry=60, prune=3600)
    monkeypatch.setattr(watch_module, "awatch", never_told)
    real, listed, go = bench.folder.look, threading.Event(), threading.Event()

    def slow_look(*arguments: Any) -> Any:
        seen = real(*arguments)
        listed.set()
        go.wait(10)
        return seen

    monkeypatch.setattr(bench.folder, "look", slow_look)

    async def main() -> None:
        async with bench.running() as runner:
            await until(listed.is_set)
            bench.task("t", NOW)  # after the folder was listed, before the look has ended
            runner.look_again()
            go.set()
            await until(bench.finished)

    run(main())
    assert bench.tools.texts == ["t"]


async def never_told(*_arguments: Any, **_options: Any) -> AsyncIterator[Any]:
    """A watch that tells of nothing."""
    await asyncio.Event().wait()
    yield


def test_results_failures_and_left_overs_are_removed_when_they_are_old(bench: Bench) -> None:  # B43
    bench.folder.make()
    old, young = bench.now - 31 * 86_400, bench.now - 29 * 86_400
    for age, name in ((old, "old"), (young, "young")):
        for folder in (bench.folder.results, bench.folder.failed, bench.folder.waiting):
            path = folder / f"{name}.json"
            path.write_text("{}")
            os.utime(path, (age, age))
        left_over = bench.folder.waiting / f".{name}.json.abc.tmp"
        left_over.write_text("{")
        os.utime(left_over, (age, age))
    (bench.folder.results / "note.txt").write_text("mine")
    os.utime(bench.folder.results / "note.txt", (old, old))

    async def main() -> None:
        async with bench.running():
            await until(lambda: not (bench.folder.results / "old.json").exists())
            await until(lambda: not (bench.folder.waiting / ".old.json.abc.tmp").exists())

    run(main())
    left = {path.relative_to(bench.home).as_posix() for path in bench.home.rglob("*") if path.is_file()}
    assert left == {
        RESULT.format("young"),
        "VCPTimedResults/note.txt",
        FAILED.format("young"),
        WAITING.format("young"),
        WAITING.format("old"),
        "VCPTimedContacts/.young.json.abc.tmp",
    }


def test_only_the_newest_results_are_kept_whatever_their_age(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "MAX_KEPT", 3)
    bench.folder.make()
    for number in range(6):
        path = bench.folder.results / f"t{number}.json"
        path.write_text("{}")
        os.utime(path, (number, number))
    assert bench.folder.prune(before=0) == 3
    assert sorted(path.name for path in bench.folder.results.iterdir()) == ["t3.json", "t4.json", "t5.json"]


@pytest.mark.parametrize(("odd", "reason"), [(object(), "no JSON"), ("x" * 2000, "larger than 1000 bytes")])
def test_of_a_result_that_cannot_be_kept_the_file_says_why(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, odd: Any, reason: str
) -> None:
    monkeypatch.setattr(folder_module, "MAX_RESULT_BYTES", 1000)
    bench.task("t", NOW)
    real = bench.tools.call

    async def call(*arguments: Any) -> ToolResult:
        await real(*arguments)
        return ToolResult(structured={"a": odd})

    bench.tools.call = call  # type: ignore[method-assign]  # an in-process tool

    async def main() -> None:
        async with bench.running():
            await until(bench.finished)

    run(main())
    (stored,) = bench.files().values()
    assert stored["status"] == "success"
    assert reason in stored["result"]["note"]
