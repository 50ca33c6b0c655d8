"""``vcp tool``: one tool from the command line, alone in its home."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.tools.auth_code import AuthCode, write_auth_code
from tests.cli.commands import PLUGIN_SLEEPER, command, refused
from tests.plugins.watching import appears, vanishes
from tests.program import VCP, environment, vcp
from tests.server import run, write_plugin


def test_a_tool_prints_its_result_as_json(tmp_path: Path) -> None:
    done = vcp("tool", "SciCalculator", "expression=1+1", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2" in json.dumps(json.loads(done.stdout))


def outcome(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> tuple[int, dict[str, Any]]:
    ended = command(capsys, "tool", "--home", home, *words)
    return ended.code, json.loads(ended.out)


def test_a_tool_that_fails_gives_exit_code_1_and_says_why(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, told = outcome(capsys, tmp_path, "SciCalculator", "expression=1/0")
    assert code == 1
    assert "zero" in json.dumps(told)


def test_a_value_may_contain_anything(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_plugin(
        tmp_path, "Echo", 'import sys, json\nprint(json.dumps({"status": "success", "result": json.load(sys.stdin)}))'
    )
    code, told = outcome(capsys, tmp_path, "Echo", "text=a=b 「末」 \n", "empty=", "名=值")
    assert code == 0
    assert {"text": "a=b 「末」 \n", "empty": "", "名": "值"}.items() <= told.items()


def test_the_code_of_the_hour_is_asked_for_on_the_command_line_and_is_no_argument(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """D30: every door but the schedule and diary blocks checks it at the call."""
    write_plugin(
        tmp_path, "Echo", 'import sys, json\nprint(json.dumps({"status": "success", "result": json.load(sys.stdin)}))'
    )
    (tmp_path / "config.env").write_text("VCPToolCode=true\n")
    write_auth_code(tmp_path)
    code = AuthCode(tmp_path)()
    for given in ([], ["tool_password="], ["tool_password=wrong"]):
        ended, told = outcome(capsys, tmp_path, "Echo", "a=1", *given)
        assert ended == 1
        assert "tool_password" in told["plugin_execution_error"]
    ended, told = outcome(capsys, tmp_path, "Echo", "a=1", f"tool_password={code}")
    assert (ended, told["a"], "tool_password" in told) == (0, "1", False)


def test_a_tool_that_nobody_has_cannot_be_begun(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    commands = [{"commandIdentifier": "go", "toolName": "a_go"}, {"commandIdentifier": "stop"}]
    write_plugin(tmp_path, "A", "", capabilities={"invocationCommands": commands})
    write_plugin(tmp_path, "AStatic", "", pluginType="static")
    told = refused(capsys, "tool", "--home", str(tmp_path), "NoSuchTool", "a=b")
    assert "NoSuchTool" in told
    assert "a_go, A.stop, Agent" in told, "the names that can be called, as a door lists them"
    assert "AStatic" not in told


@pytest.mark.parametrize("field", ["expression", "=1", ""])
def test_an_argument_that_is_not_key_and_value_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, field: str
) -> None:
    told = refused(capsys, "tool", "--home", str(tmp_path), "SciCalculator", field)
    assert f"'{field}' is not key=value" in told


WORKS_ON = """
import json, os, sys, time, urllib.request
print(json.dumps({"status": "success", "result": {"task_id": "t-1"}}), flush=True)
sys.stdout.close()
time.sleep(0.3)
address = os.environ["CALLBACK_BASE_URL"] + "/Later/t-1"
body = json.dumps({"status": "Succeed", "message": "done"}).encode()
urllib.request.urlopen(urllib.request.Request(address, body, {"Content-Type": "application/json"}))
"""


@pytest.mark.parametrize("config", ["", "CALLBACK_BASE_URL=http://127.0.0.1:9/plugin-callback"])
def test_the_work_behind_a_first_answer_is_done_also_without_a_server(tmp_path: Path, config: str) -> None:
    write_plugin(tmp_path, "Later", WORKS_ON, pluginType="asynchronous")
    (tmp_path / "config.env").write_text(config + "\n")
    done = vcp("tool", "Later", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["task_id"] == "t-1"
    assert "Ctrl-C" in done.stderr
    result = json.loads((tmp_path / "VCPAsyncResults" / "Later-t-1.json").read_text())
    assert result["message"] == "done"


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """Programs started in the test hear SIGINT, also when the tests run in the background of a script that does not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_interrupts")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_tool_that_is_broken_off_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    folder = write_plugin(tmp_path, "Sleeper", PLUGIN_SLEEPER)

    async def test() -> None:
        process = await asyncio.create_subprocess_exec(
            *VCP, "tool", "Sleeper", cwd=tmp_path, env=environment(), stderr=asyncio.subprocess.PIPE
        )
        await appears(folder / "pid")
        process.send_signal(number)
        _, errors = await process.communicate()
        assert process.returncode == 1
        assert b"Traceback" not in errors
        await vanishes(int((folder / "pid").read_text()))

    run(test())
