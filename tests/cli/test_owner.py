"""One server for each home, and commands that go through it (D88), with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.commands import PLUGIN_SLEEPER, command, refused
from tests.plugins.watching import appears, lives
from tests.program import VCP, environment, started
from tests.server import run, write_plugin

PARENT = """
import json, os, sys
arguments = json.load(sys.stdin)
print(json.dumps({"status": "success", "result": {"parent": os.getppid(), "arguments": arguments}}))
"""


def test_a_tool_that_is_broken_off_goes_on_in_the_server_and_says_so(tmp_path: Path) -> None:
    folder = write_plugin(tmp_path, "Sleeper", PLUGIN_SLEEPER)
    (tmp_path / "config.env").write_text("Key=own-key-of-this-home\nShutdownSeconds=0.1\n", encoding="utf-8")

    async def test() -> None:
        with started("serve", "--port", "0", cwd=tmp_path) as program:
            process = await asyncio.create_subprocess_exec(
                *VCP, "tool", "Sleeper", cwd=tmp_path, env=environment(), stderr=asyncio.subprocess.PIPE
            )
            await appears(folder / "pid")
            process.send_signal(signal.SIGTERM)
            _, errors = await process.communicate()
            assert process.returncode == 1
            assert "the server goes on with the tool" in errors.decode()
            assert lives(int((folder / "pid").read_text()))
            assert await asyncio.to_thread(program.stop) == 0
            assert not lives(int((folder / "pid").read_text()))

    run(test())


def test_a_home_has_one_server_and_tools_run_in_it_while_it_lives(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_plugin(tmp_path, "Parent", PARENT)
    (tmp_path / "config.env").write_text("Key=own-key-of-this-home\n", encoding="utf-8")
    with started("serve", "--port", "0", cwd=tmp_path) as program:
        address = program.base_url.removesuffix("/v1")
        told = refused(capsys, "serve", "--home", tmp_path, "--port", "0")
        assert f"process {program.process.pid} (vcp serve, {address})" in told

        inside = command(capsys, "tool", "--home", tmp_path, "Parent", 'text=「末」 "quoted"', "maid=Nova")
        answer = json.loads(inside.out)
        assert (inside.code, answer["parent"], answer["MaidName"]) == (0, program.process.pid, "Nova")
        assert answer["arguments"] == {"text": '「末」 "quoted"', "maid": "Nova"}
        assert "no tool is called" in refused(capsys, "tool", "--home", tmp_path, "Missing")
        assert "'text'" in refused(capsys, "tool", "--home", tmp_path, "Parent", "text=「末」「末ESCAPE」")

        program.stop(signal.SIGKILL)
        alone = command(capsys, "tool", "--home", tmp_path, "Parent", "text= 「末」 ")
        answer = json.loads(alone.out)
        assert (alone.code, answer["parent"] != program.process.pid) == (0, True)
        assert answer["arguments"] == {"text": " 「末」 "}


TELL_DEPTH = """
import json, os
print(json.dumps({"status": "success", "result": {"parent": os.getppid(), "depth": os.environ["VCP_CALL_DEPTH"]}}))
"""


def test_a_tool_that_starts_a_tool_tells_how_deep_it_stands_with_a_server_and_without(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_plugin(tmp_path, "Tell", TELL_DEPTH)
    (tmp_path / "config.env").write_text("Key=own-key-of-this-home\nMaxCallDepth=3\n", encoding="utf-8")

    def told() -> tuple[int, int, str]:
        ended = command(capsys, "tool", "--home", tmp_path, "Tell")
        answer = json.loads(ended.out)
        return ended.code, answer["parent"], answer["depth"]

    with started("serve", "--port", "0", cwd=tmp_path) as program:
        monkeypatch.setenv("VCP_CALL_DEPTH", "3")
        assert told() == (0, program.process.pid, "4")
        monkeypatch.setenv("VCP_CALL_DEPTH", "4")
        assert "MaxCallDepth" in refused(capsys, "tool", "--home", tmp_path, "Tell")
        program.stop()
    assert "MaxCallDepth" in refused(capsys, "tool", "--home", tmp_path, "Tell")
    monkeypatch.setenv("VCP_CALL_DEPTH", "3")
    assert told() == (0, os.getpid(), "4")
    monkeypatch.setenv("VCP_CALL_DEPTH", "deep")
    assert "VCP_CALL_DEPTH" in refused(capsys, "tool", "--home", tmp_path, "Tell")
