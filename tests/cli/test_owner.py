"""One server for each home, and commands that go through it (D88), with real processes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.commands import command, refused
from tests.program import started, vcp
from tests.server import write_plugin

PARENT = """
import json, os, sys
arguments = json.load(sys.stdin)
print(json.dumps({"status": "success", "result": {"parent": os.getppid(), "arguments": arguments}}))
"""


def test_a_home_has_one_server_and_tools_run_in_it_while_it_lives(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_plugin(tmp_path, "Parent", PARENT)
    (tmp_path / "config.env").write_text("Key=own-key-of-this-home\n", encoding="utf-8")
    with started("serve", "--port", "0", cwd=tmp_path) as program:
        address = program.base_url.removesuffix("/v1")
        second = vcp("serve", "--port", "0", cwd=tmp_path)
        assert (second.returncode, second.stdout) == (2, "")
        assert f"process {program.process.pid} (vcp serve, {address})" in second.stderr
        assert "Traceback" not in second.stderr

        inside = command(capsys, "tool", "--home", tmp_path, "Parent", 'text=「末」 "quoted"', "maid=Nova")
        told = json.loads(inside.out)
        assert (inside.code, told["parent"], told["MaidName"]) == (0, program.process.pid, "Nova")
        assert told["arguments"] == {"text": '「末」 "quoted"', "maid": "Nova"}
        assert "no tool is called" in refused(capsys, "tool", "--home", tmp_path, "Missing")
        assert "'text'" in refused(capsys, "tool", "--home", tmp_path, "Parent", "text=「末」「末ESCAPE」")

        program.stop(signal.SIGKILL)
        alone = command(capsys, "tool", "--home", tmp_path, "Parent", "text= 「末」 ")
        told = json.loads(alone.out)
        assert (alone.code, told["parent"] != program.process.pid) == (0, True)
        assert told["arguments"] == {"text": " 「末」 "}
    with started("serve", "--port", "0", cwd=tmp_path) as program:
        assert program.stop() == 0
