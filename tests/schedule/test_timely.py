"""``timely_contact`` on any tool: stored before the receipt, nothing runs now, no code is kept (7.2, P80, D4, D30)."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.extend import CallContext, Door, ErrorKind, ToolCall, ToolCommand, ToolResult
from app.schedule.folder import TaskFolder
from app.schedule.task import Task, read_task
from tests.schedule.bench import NOW, ZONE, Bench
from tests.server import run
from tests.waiting import until

TOMORROW = "2026-01-06-08:30"
LATER = {"text": "hi", "timely_contact": TOMORROW}
ID = "task-1767659400000-uuid1"
"""Its milliseconds are those of ``TOMORROW`` in Shanghai."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def call(
    bench: Bench, arguments: dict[str, Any], tool: str = "Echo", door: Door = Door.STREAM, **more: Any
) -> ToolResult:
    """One call whose texts came as text."""
    texts = {name: value for name, value in arguments.items() if isinstance(value, str)}
    wish = ToolCall("c", tool, arguments, texts=texts, **more)
    return asyncio.run(bench.router.call(wish, CallContext("t", door)))


def stored(bench: Bench) -> list[Task]:
    return [read_task(path.read_bytes(), ZONE) for path in sorted(bench.folder.waiting.glob("*.json"))]


@pytest.mark.parametrize("door", [door for door in Door if door is not Door.SCHEDULE])
@pytest.mark.parametrize("archery", [False, True])
def test_at_every_door_the_call_is_stored_and_nothing_runs_now(bench: Bench, door: Door, archery: bool) -> None:
    result = call(bench, LATER, door=door, archery=archery, maid="Nova")
    assert bench.tools.calls == []
    assert result.ok
    assert stored(bench) == [Task(ID, NOW + 88_200, "Echo", {"text": "hi"}, f"timely_contact: {door.value}")]


def test_the_receipt_names_tool_id_and_times_in_both_languages(bench: Bench) -> None:
    result = call(bench, LATER)
    assert result.structured == {
        "status": "scheduled",
        "message": (
            f"已安排：工具 Echo 将在 2026-01-06 08:30:00 运行，任务 id 为 {ID}。现在没有运行，也还没有结果。 / "
            f"Scheduled: the tool Echo will run at 2026-01-06 08:30:00, task id {ID}. Nothing has run yet, and there "
            "is no result yet."
        ),
        "tool_name": "Echo",
        "task_id": ID,
        "scheduled_time": "2026-01-06T08:30:00+08:00",
        "current_time": "2026-01-05T08:00:00+08:00",
    }


def test_the_task_runs_at_its_time_with_what_was_said_and_without_the_time(bench: Bench) -> None:
    async def main() -> None:
        async with bench.running():
            wish = ToolCall("c", "Echo", {**LATER, "maid": "Nova"}, password="123456")
            assert (await bench.router.call(wish, CallContext("t", Door.STREAM))).ok
            await until(lambda: len(bench.events) == 2)
            assert bench.tools.calls == []
            bench.now += 88_200
            await until(bench.finished)

    run(main())
    (ran,) = bench.tools.calls
    assert {name: ran.arguments[name] for name in ran.arguments if name != "__vcp_timed_call"} == {
        "text": "hi",
        "maid": "Nova",
    }
    assert ran.maid == "Nova"
    assert ran.password is None


@pytest.mark.parametrize("key", ["timely-contact", "TIMELY_CONTACT", "timelyContact", "Timely_Contact"])
def test_the_argument_is_known_in_other_spellings(bench: Bench, key: str) -> None:
    assert call(bench, {"text": "hi", key: TOMORROW}).ok
    (task,) = stored(bench)
    assert task.arguments == {"text": "hi"}


def test_the_exact_spelling_beats_the_others_and_none_of_them_is_kept(bench: Bench) -> None:
    assert call(bench, {"timely_contact": TOMORROW, "TimelyContact": "2020-01-01 08:00"}).ok
    (task,) = stored(bench)
    assert (task.due, task.arguments) == (NOW + 88_200, {})


@pytest.mark.parametrize("blank", ["", "  ", None])
def test_a_blank_time_means_now(bench: Bench, blank: Any) -> None:
    assert call(bench, {"text": "hi", "timely_contact": blank}).structured == {"said": "hi"}
    assert not bench.folder.waiting.exists()


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("2026-02-30-08:00", ("无法理解", "no date and time of the calendar", "现在是 2026-01-05 08:00:00")),
        ("next week", ("无法理解", "Write it as 2026-01-05-08:30")),
        ({"when": "now"}, ("无法理解", "no date")),
        ("2026-01-05 08:00:00", ("已经过去", "is past", "it is 2026-01-05 08:00:00 now")),
        ("2026-01-04-10:00", ("2026-01-04 10:00:00 已经过去", "Give a time in the future")),
    ],
)
def test_a_time_that_cannot_be_is_refused_with_what_to_do_about_it(
    bench: Bench, written: Any, words: tuple[str, ...]
) -> None:
    result = call(bench, {"timely_contact": written})
    assert result.error_kind is ErrorKind.REFUSED
    assert all(word in result.message for word in words)
    assert bench.tools.calls == []
    assert not bench.folder.waiting.exists()


def test_an_unknown_tool_is_not_scheduled_and_gets_its_usual_answer(bench: Bench) -> None:
    assert call(bench, LATER, tool="Nobody").error_kind is ErrorKind.UNKNOWN_TOOL
    assert not bench.folder.waiting.exists()


def test_a_tool_that_cannot_be_called_is_not_scheduled_either(bench: Bench) -> None:
    bench.tools.specs["Echo"] = replace(bench.tools.specs["Echo"], callable=False)
    call(bench, LATER)
    assert not bench.folder.waiting.exists()


def test_a_code_among_the_arguments_is_not_kept(bench: Bench) -> None:  # D30
    assert call(bench, {**LATER, "tool_password": "123456", "Tool-Password": "123456"}, password="123456").ok
    assert "123456" not in (bench.folder.waiting / f"{ID}.json").read_text()


def test_names_and_values_are_those_that_the_tool_declares(bench: Bench) -> None:  # D4, D5
    schema = {"type": "object", "properties": {"image_size": {"type": "integer"}, "tags": {"type": "array"}}}
    command = ToolCommand("draw", "draw", "", parameters=schema, typed=True)
    bench.tools.specs["Draw"] = replace(bench.tools.specs["Echo"], name="Draw", commands=(command,))
    for tool in ("Draw", "Draw.draw"):
        assert call(bench, {"image-size": "5", "tags": '["a"]', "timely_contact": TOMORROW}, tool=tool).ok
    assert [(task.tool, task.arguments) for task in stored(bench)] == [
        ("Draw", {"image_size": 5, "tags": ["a"]}),
        ("Draw.draw", {"image_size": 5, "tags": ["a"]}),
    ]


def test_a_scheduled_call_is_not_put_off_again(bench: Bench) -> None:
    result = call(bench, LATER, door=Door.SCHEDULE)
    assert result.structured == {"said": "hi"}
    assert not bench.folder.waiting.exists()


def test_no_more_tasks_than_allowed_may_wait(bench: Bench) -> None:
    bench.limit = 2
    results = [call(bench, LATER) for _ in range(3)]
    assert [result.ok for result in results] == [True, True, False]
    assert results[2].error_kind is ErrorKind.LIMIT
    assert "ScheduleMaxPending" in results[2].message
    assert len(stored(bench)) == 2


def test_a_full_disk_is_told_and_leaves_nothing_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = call(bench, LATER)
    assert result.error_kind is ErrorKind.EXECUTION
    assert "No space left on device" in result.message
    assert [path for path in bench.folder.waiting.iterdir() if path.is_file()] == []


def test_arguments_that_are_no_json_are_refused(bench: Bench) -> None:
    result = call(bench, {"timely_contact": TOMORROW, "x": object()}, door=Door.AGENT)
    assert result.error_kind is ErrorKind.EXECUTION
    assert not list(bench.folder.waiting.glob("*.json"))


def test_who_is_cancelled_while_it_is_stored_has_scheduled_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = TaskFolder.create

    async def main() -> None:
        loop = asyncio.get_running_loop()
        wish = ToolCall("c", "Echo", LATER)
        calling = asyncio.create_task(bench.router.call(wish, CallContext("t", Door.STREAM)))

        def create(self: TaskFolder, name: str, data: bytes) -> bool:
            made = real(self, name, data)
            for _ in range(2):
                loop.call_soon_threadsafe(calling.cancel)
            return made

        monkeypatch.setattr(TaskFolder, "create", create)
        with pytest.raises(asyncio.CancelledError):
            await calling

    run(main())
    assert list(bench.folder.waiting.glob("*.json")) == []


def test_many_calls_at_a_time_are_all_stored_each_once(bench: Bench) -> None:
    async def main() -> None:
        results = await asyncio.gather(
            *(
                bench.router.call(ToolCall(str(n), "Echo", {**LATER, "text": str(n)}), CallContext("t", Door.STREAM))
                for n in range(50)
            )
        )
        assert all(result.ok for result in results)

    run(main())
    assert sorted(int(str(task.arguments["text"])) for task in stored(bench)) == list(range(50))


def test_a_file_is_the_one_of_the_specification(bench: Bench) -> None:
    call(bench, LATER)
    assert json.loads((bench.folder.waiting / f"{ID}.json").read_text()) == {
        "taskId": ID,
        "scheduledLocalTime": "2026-01-06T08:30:00+08:00",
        "tool_call": {"tool_name": "Echo", "arguments": {"text": "hi"}},
        "requestor": "timely_contact: stream_loop",
    }
