"""Schedules of a whole server: from chat, people and requests to the plugin's process (P80, 7.1, 7.2, D30, D88)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from app.config.snapshot import load
from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import CallFinished, CallStarted, Door, Outcome, TaskFinished
from tests.program import vcp
from tests.server import ECHO, Running, call_text, run, running, write_plugin
from tests.waiting import until

NOWHERE = "http://127.0.0.1:9"
SHOWS_INPUT = """
import json, os, sys
print(json.dumps({"status": "success", "result": {"stdin": sys.stdin.read(), "ip": os.environ.get("VCP_REQUEST_IP")}}))
"""


def waiting(home: Path) -> list[Any]:
    return [json.loads(path.read_text()) for path in (home / "VCPTimedContacts").glob("*.json")]


def bring_forward(home: Path) -> None:
    """Make the waiting tasks due, as a person does it: take the file away and put it back with another time."""
    for path in (home / "VCPTimedContacts").glob("*.json"):
        fields = json.loads(path.read_text())
        path.unlink()
        fields["scheduledLocalTime"] = "2020-01-01T08:00:00+08:00"
        temporary = home / "new"
        temporary.write_text(json.dumps(fields))
        temporary.rename(path.with_name(f"again-{path.name}"))


def started_tools(server: Running) -> list[str]:
    return [event.tool for event in server.events if isinstance(event, CallStarted)]


@pytest.mark.parametrize("stream", [True, False])
def test_a_block_with_timely_contact_is_stored_nothing_runs_and_the_model_is_told(  # P80
    tmp_path: Path, stream: bool
) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", SHOWS_INPUT)
        block = call_text("Echo", text="hi", maid="Nova", timely_contact="2099-01-01-10:00")
        async with (
            ScriptedUpstream([say(block), say("Noted.")]) as up,
            running(tmp_path, up.base_url) as server,
        ):
            assert (await server.chat("remind me", stream=stream)).status_code == 200
            assert started_tools(server) == []
            (task,) = waiting(tmp_path)
            assert task["tool_call"] == {"tool_name": "Echo", "arguments": {"text": "hi", "maid": "Nova"}}
            assert task["scheduledLocalTime"] == "2099-01-01T10:00:00+08:00"
            (part,) = up.bodies[1]["messages"][-1]["content"]
            assert part["text"].startswith('来自工具 "Echo" 的结果:\n{')
            told = json.loads(part["text"].partition("\n")[2])
            assert told["status"] == "scheduled"
            assert told["task_id"] == task["taskId"]
            assert told["scheduled_time"] == "2099-01-01T10:00:00+08:00"

            bring_forward(tmp_path)
            await until(lambda: any(isinstance(event, TaskFinished) for event in server.events))
            (finished,) = [
                event
                for event in server.events
                if isinstance(event, CallFinished) and event.context.door is Door.SCHEDULE
            ]
            assert finished.outcome is Outcome.SUCCESS
            seen = finished.result.structured
            assert seen["ip"] in (None, "")
            assert json.loads(seen["stdin"])["text"] == "hi"
            assert json.loads(seen["stdin"])["__vcp_timed_call"]["taskId"] == task["taskId"]
            assert waiting(tmp_path) == []

    run(main())


def test_an_error_of_the_time_is_what_the_model_reads(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        block = call_text("Echo", timely_contact="2020-01-01-10:00")
        async with ScriptedUpstream([say(block), say("Sorry.")]) as up, running(tmp_path, up.base_url) as server:
            await server.chat("remind me")
            (part,) = up.bodies[1]["messages"][-1]["content"]
            assert part["text"].startswith("没有安排：2020-01-01 10:00:00 已经过去")
            assert waiting(tmp_path) == []

    run(main())


def test_an_archery_call_is_scheduled_too(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        block = call_text("Echo", archery="no_reply", timely_contact="2099-01-01-10:00")
        async with ScriptedUpstream([say(block)]) as up, running(tmp_path, up.base_url) as server:
            await server.chat("remind me")
            await until(lambda: waiting(tmp_path))
            assert started_tools(server) == []

    run(main())


def test_a_person_may_put_a_call_off(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        async with running(tmp_path, NOWHERE) as server:
            block = call_text("Echo", timely_contact="2099-01-01 10:00:30")
            answer = await server.client.post(
                "/v1/human/tool", content=block.encode(), headers={"Content-Type": "text/plain"}
            )
            assert answer.status_code == 200
            assert answer.json()["scheduled_time"] == "2099-01-01T10:00:30+08:00"
            assert len(waiting(tmp_path)) == 1

    run(main())


def test_the_code_is_asked_for_when_the_task_is_made_and_not_when_it_runs(tmp_path: Path) -> None:  # D30
    async def main() -> None:
        write_plugin(tmp_path, "Echo", SHOWS_INPUT)
        code = tmp_path / "Plugin" / "UserAuth" / "code.bin"
        code.parent.mkdir(parents=True)
        code.write_bytes(base64.b64encode("[{<（《【".encode()))
        calls = [
            call_text("Echo", timely_contact="2099-01-01-10:00"),
            call_text("Echo", timely_contact="2099-01-01-10:00", tool_password="111111"),
        ]
        async with (
            ScriptedUpstream([say("".join(calls)), say("ok")]) as up,
            running(tmp_path, up.base_url, config=["VCPToolCode=true"]) as server,
        ):
            await server.chat("go")
            refused, receipt = up.bodies[1]["messages"][-1]["content"]
            assert refused["text"].startswith("[VCP] 错误：工具调用验证失败")
            assert '"scheduled"' in receipt["text"]
            assert len(waiting(tmp_path)) == 1
            assert "111111" not in json.dumps(waiting(tmp_path))
            code.unlink()
            bring_forward(tmp_path)
            await until(lambda: any(isinstance(event, TaskFinished) for event in server.events))
            (finished,) = [event for event in server.events if isinstance(event, TaskFinished)]
            assert finished.error == ""

    run(main())


def test_a_request_is_armed_at_once_and_a_dropped_file_runs(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", SHOWS_INPUT)
        async with running(tmp_path, NOWHERE) as server:
            body = {
                "schedule_time": "2099-01-01T00:00:00Z",
                "task_id": "mine",
                "tool_call": {"tool_name": "Echo", "arguments": {"n": 5, "list": [1], "nothing": None}},
            }
            assert (await server.client.post("/v1/schedule_task", json=body)).status_code == 200
            await until(lambda: any(type(event).__name__ == "TaskScheduled" for event in server.events))
            bring_forward(tmp_path)
            result = tmp_path / "VCPTimedResults" / "again-mine.json"
            await until(result.exists)
            stdin = json.loads(json.loads(result.read_text())["result"]["stdin"])
            del stdin["__vcp_timed_call"]
            assert stdin == {"n": 5, "list": [1], "nothing": None}  # D39: as given

    run(main())


def test_settings_that_are_reloaded_hold_for_the_next_task(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE, config=["ScheduleMaxPending=1"]) as server:
            body = {"schedule_time": "2099-01-01 08:00", "tool_call": {"tool_name": "Echo"}}
            answers = []
            for name in ("a", "b", "c"):
                answers.append(await server.client.post("/v1/schedule_task", json={**body, "task_id": name}))
                if name == "b":
                    with (tmp_path / "config.env").open("a") as file:
                        file.write("ScheduleMaxPending=2\nDEFAULT_TIMEZONE=Europe/Berlin\n")
                    server.services.apply(load(tmp_path, {}))
            assert [answer.status_code for answer in answers] == [200, 400, 200]
            told = [answers[number].json()["details"]["scheduledTime"] for number in (0, 2)]
            assert told == ["2099-01-01T08:00:00+08:00", "2099-01-01T08:00:00+01:00"]

    run(main())


def test_a_command_beside_the_server_only_stores_the_task(tmp_path: Path) -> None:  # D88
    write_plugin(tmp_path, "Echo", ECHO)
    folder = tmp_path / "VCPTimedContacts"
    folder.mkdir()
    due = {"taskId": "due", "scheduledLocalTime": "2020-01-01", "tool_call": {"tool_name": "Echo", "arguments": {}}}
    (folder / "due.json").write_text(json.dumps(due))
    done = vcp("tool", "Echo", "text=hi", "timely_contact=2099-01-01-10:00", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    receipt = json.loads(done.stdout)
    assert receipt["status"] == "scheduled"
    assert {task["taskId"] for task in waiting(tmp_path)} == {"due", receipt["task_id"]}


def test_trouble_of_the_schedule_makes_the_server_unwell(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE) as server:
            assert server.services.ready
            folder = tmp_path / "VCPTimedContacts"
            await until(lambda: server.services.schedule.looked_at > 0)
            folder.rename(tmp_path / "aside")
            folder.write_text("in the way")
            server.services.schedule.look_again()
            await until(lambda: not server.services.ready)
            assert "定时任务" in server.services.trouble()

    run(main())
