"""A real server that is killed with SIGKILL: no task is lost, none runs twice (D29, spec 7.1)."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.program import Program, started
from tests.server import write_plugin

MARKS = """
import json, pathlib, sys, time
arguments = json.loads(sys.stdin.read())
home = pathlib.Path.cwd().parents[1]
with (home / "runs.txt").open("a") as file:
    file.write(arguments["name"] + "\\n")
until = time.monotonic() + 20
while not (home / "go").exists() and time.monotonic() < until:
    time.sleep(0.01)
try:
    print(json.dumps({"status": "success", "result": "done"}))
except OSError:
    pass
"""


def wait_for(condition: Callable[[], Any]) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def runs(home: Path) -> list[str]:
    path = home / "runs.txt"
    return path.read_text().split() if path.exists() else []


def drop(home: Path, name: str, tool: str, when: str = "2020-01-01T08:00:00+08:00") -> None:
    folder = home / "VCPTimedContacts"
    folder.mkdir(exist_ok=True)
    task = {
        "taskId": name,
        "scheduledLocalTime": when,
        "tool_call": {"tool_name": tool, "arguments": {"name": name}},
    }
    temporary = home / f"{name}.part"
    temporary.write_text(json.dumps(task))
    temporary.rename(folder / f"{name}.json")


def kill(program: Program) -> None:
    program.process.send_signal(signal.SIGKILL)
    program.process.wait(30)


def serving(home: Path) -> Any:
    return started("serve", "--port", "0", cwd=home)


def test_after_a_kill_in_mid_run_only_idempotent_tasks_run_again_and_those_that_waited_run_once(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Once", MARKS)
    write_plugin(tmp_path, "Safe", MARKS, idempotent=True)
    write_plugin(tmp_path, "Later", MARKS)
    drop(tmp_path, "once", "Once")
    drop(tmp_path, "safe", "Safe")
    drop(tmp_path, "later", "Later", "2099-01-01T08:00:00+08:00")
    with serving(tmp_path) as program:
        wait_for(lambda: len(runs(tmp_path)) == 2)
        kill(program)
    waiting = tmp_path / "VCPTimedContacts"
    assert sorted(path.name for path in waiting.glob("*.json")) == ["later.json"]
    assert sorted(path.name for path in (waiting / ".running").iterdir()) == ["once.json", "safe.json"]

    drop(tmp_path, "later", "Later")  # its time comes while no server runs
    (tmp_path / "go").touch()
    results = tmp_path / "VCPTimedResults"
    with serving(tmp_path) as program:
        wait_for(lambda: len(list(results.glob("*.json"))) == 2)
        assert program.stop() == 0
        assert "task once of Once" in program.logged
        assert "not run again" in program.logged
    assert sorted(runs(tmp_path)) == ["later", "once", "safe", "safe"]
    assert sorted(path.name for path in results.iterdir()) == ["later.json", "safe.json"]
    (failed,) = (waiting / "failed").iterdir()
    assert failed.name == "once.json"
    assert "服务器在任务运行中途停止" in json.loads(failed.read_text())["failure"]["reason"]
    assert list((waiting / ".running").iterdir()) == []
    assert list(waiting.glob("*.json")) == []


def test_after_a_kill_while_tasks_are_written_each_that_was_promised_is_there_and_whole(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Once", MARKS)
    promised: list[str] = []
    with serving(tmp_path) as program:
        headers = {"Authorization": f"Bearer {program.key}"}

        def ask(thread: int) -> None:
            with httpx.Client(base_url=program.base_url, headers=headers, timeout=30, trust_env=False) as web:
                for number in range(10_000):
                    name = f"task-{thread}-{number}"
                    call = {"tool_name": "Once", "arguments": {"name": name, "text": "长" * 50_000}}
                    body = {"schedule_time": "2099-01-01T08:00:00Z", "task_id": name, "tool_call": call}
                    try:
                        answer = web.post("/schedule_task", json=body)
                    except httpx.HTTPError:
                        return
                    assert answer.status_code == 200
                    promised.append(name)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(promised) >= 20)
        kill(program)
        for thread in threads:
            thread.join(30)
    files = {path.stem: json.loads(path.read_bytes()) for path in (tmp_path / "VCPTimedContacts").glob("*.json")}
    assert set(promised) <= set(files)
    for name, task in files.items():
        assert task["taskId"] == name
        assert len(task["tool_call"]["arguments"]["text"]) == 50_000


def test_a_kill_among_many_due_tasks_runs_none_twice_and_loses_none(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Once", MARKS)
    (tmp_path / "go").touch()
    names = {f"task-{number}" for number in range(16)}
    for name in names:
        drop(tmp_path, name, "Once")
    with serving(tmp_path) as program:
        wait_for(lambda: len(runs(tmp_path)) >= 4)
        kill(program)
    waiting, results = tmp_path / "VCPTimedContacts", tmp_path / "VCPTimedResults"
    with serving(tmp_path) as program:
        wait_for(lambda: not any(waiting.glob("*.json")) and not any((waiting / ".running").iterdir()))
        program.stop()
    done = {path.stem for path in results.glob("*.json")}
    failed = {path.stem for path in (waiting / "failed").glob("*.json")}
    assert len(runs(tmp_path)) == len(set(runs(tmp_path)))
    assert done <= set(runs(tmp_path))
    assert done | failed == names
    assert not done & failed
