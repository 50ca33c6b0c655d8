"""``POST /v1/schedule_task``: every row of spec 1.9 with its exact shape, and ids that stay in their folder (B3)."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.web.asgi import BEARER, Answered, app_in, ask

FUTURE = "2098-12-31T16:00:00.000Z"
CALL = {"tool_name": "Echo", "arguments": {"text": "hi", "n": 5}}
GOOD = {"schedule_time": FUTURE, "task_id": "task-1-a", "tool_call": CALL}


def post(home: Path, *bodies: Any, config: tuple[str, ...] = (), headers: Any = (BEARER,)) -> list[Answered]:
    """The answers to these bodies, one after the other."""

    async def main() -> list[Answered]:
        app = app_in(home, *config)
        raw = [body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies]
        return [await ask(app, "POST", "/v1/schedule_task", *headers, blocks=[data]) for data in raw]

    return asyncio.run(main())


def tasks(home: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in (home / "VCPTimedContacts").glob("*.json")}


def test_a_task_is_stored_before_the_answer(tmp_path: Path) -> None:
    (answer,) = post(tmp_path, GOOD)
    assert answer.status == 200
    assert answer.json == {
        "status": "success",
        "message": "任务已成功调度。",
        "details": {"taskId": "task-1-a", "scheduledTime": "2099-01-01T00:00:00+08:00"},
    }
    assert tasks(tmp_path) == {
        "task-1-a": {
            "taskId": "task-1-a",
            "scheduledLocalTime": "2099-01-01T00:00:00+08:00",
            "tool_call": CALL,
            "requestor": "POST /v1/schedule_task",
        }
    }
    assert (tmp_path / "VCPTimedContacts" / "task-1-a.json").read_text().startswith('{\n  "taskId"')


def test_times_are_told_in_the_zone_of_the_settings(tmp_path: Path) -> None:
    body = {**GOOD, "schedule_time": "2099-07-01 08:00"}
    (answer,) = post(tmp_path, body, config=("DEFAULT_TIMEZONE=America/New_York",))
    assert answer.json["details"]["scheduledTime"] == "2099-07-01T08:00:00-04:00"


@pytest.mark.parametrize(
    ("change", "chinese", "english"),
    [
        ({"schedule_time": ...}, "缺少", "all needed"),
        ({"task_id": ...}, "缺少", "all needed"),
        ({"tool_call": ...}, "缺少", "all needed"),
        ({"schedule_time": ""}, "缺少", "all needed"),
        ({"task_id": None}, "缺少", "all needed"),
        ({"tool_call": {"arguments": {}}}, "tool_call 缺少 tool_name", "tool_name"),
        ({"tool_call": {"tool_name": "Echo", "arguments": "x"}}, "arguments 不是对象", "an object"),
        ({"tool_call": "Echo"}, "无效的请求", "tool_name"),
        ({"schedule_time": "soon"}, "格式无效", "cannot be read"),
        ({"schedule_time": "2099-02-30T08:00:00Z"}, "格式无效", "cannot be read"),
        ({"schedule_time": {}}, "格式无效", "cannot be read"),
        ({"schedule_time": "2020-01-01T00:00:00Z"}, "不能是过去的时间", "must not be in the past"),  # R7
        ({"schedule_time": 0}, "不能是过去的时间", "must not be in the past"),
        ({"task_id": "../../evil"}, "task_id 不可用", "cannot be used"),  # B3
        ({"task_id": "a/b"}, "task_id 不可用", "cannot be used"),
        ({"task_id": "..\\evil"}, "task_id 不可用", "cannot be used"),
        ({"task_id": "a\0b"}, "task_id 不可用", "cannot be used"),
        ({"task_id": ".hidden"}, "task_id 不可用", "cannot be used"),
        ({"task_id": "x" * 1000}, "task_id 不可用", "cannot be used"),
        ({"task_id": ["a"]}, "task_id 不可用", "cannot be used"),
    ],
)
def test_what_cannot_be_scheduled_is_400_with_the_reason(
    tmp_path: Path, change: dict[str, Any], chinese: str, english: str
) -> None:
    body = {name: value for name, value in {**GOOD, **change}.items() if value is not ...}
    (answer,) = post(tmp_path, body)
    assert answer.status == 400
    assert list(answer.json) == ["status", "error"]
    assert answer.json["status"] == "error"
    assert chinese in answer.json["error"]
    assert english in answer.json["error"]
    assert tasks(tmp_path) == {}
    assert not (tmp_path.parent / "evil.json").exists()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000, b"null"])
def test_a_body_that_is_no_json_object_is_400(tmp_path: Path, body: bytes) -> None:
    (answer,) = post(tmp_path, body)
    assert answer.status == 400
    assert list(answer.json) == ["status", "error"]


def test_the_same_task_again_is_the_same_answer_and_another_one_of_its_id_is_refused(tmp_path: Path) -> None:
    other = {**GOOD, "schedule_time": "2098-06-01T00:00:00Z"}
    call = {**GOOD, "tool_call": {**CALL, "arguments": {"text": "other"}}}
    answers = post(tmp_path, GOOD, GOOD, other, call)
    assert [answer.status for answer in answers] == [200, 200, 400, 400]
    assert answers[0].json == answers[1].json
    assert "task-1-a" in answers[2].json["error"]
    assert tasks(tmp_path)["task-1-a"]["scheduledLocalTime"] == "2099-01-01T00:00:00+08:00"
    assert tasks(tmp_path)["task-1-a"]["tool_call"] == CALL


def test_the_limit_of_waiting_tasks_is_told_by_the_name_of_its_setting(tmp_path: Path) -> None:
    bodies = [{**GOOD, "task_id": str(number)} for number in range(3)]
    answers = post(tmp_path, *bodies, bodies[0], config=("ScheduleMaxPending=2",))
    assert [answer.status for answer in answers] == [200, 200, 400, 200]
    assert "ScheduleMaxPending" in answers[2].json["error"]
    assert sorted(tasks(tmp_path)) == ["0", "1"]


def test_a_write_that_fails_is_500_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    (answer,) = post(tmp_path, GOOD)
    assert answer.status == 500
    assert answer.json["status"] == "error"
    assert "No space left on device" in answer.json["error"]
    assert [path for path in (tmp_path / "VCPTimedContacts").iterdir() if path.is_file()] == []


def test_the_key_is_needed_and_a_body_over_the_limit_is_refused(tmp_path: Path) -> None:
    (without,) = post(tmp_path, GOOD, headers=())
    assert without.status == 401
    (large,) = post(tmp_path, b" " * (1024 * 1024 + 1), config=("ToolBodyLimitMB=1",))
    assert large.status == 413
    assert large.json["status"] == "error"


def test_a_task_may_say_who_wants_it(tmp_path: Path) -> None:
    post(tmp_path, {**GOOD, "requestor": "Plugin: AgentAssistant", "more": 1})
    assert tasks(tmp_path)["task-1-a"]["requestor"] == "Plugin: AgentAssistant"
