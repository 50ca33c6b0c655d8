"""``docs/operations.md``: its commands work as they are printed, one after the other, in one folder."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from app.cli.program import COMMANDS
from app.mcp.client.status import ServerState
from tests.cli.commands import command
from tests.home.installations import old_installation
from tests.program import ROOT, started

TEXT = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def lines() -> list[str]:
    """Each line of each block of shell."""
    return [
        line
        for block in re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]


@pytest.mark.parametrize("name", ["docs/operations.md", "README.md", "README.zh-CN.md"])
def test_every_command_of_the_program_is_in_the_table_of_commands(name: str) -> None:
    rows = re.findall(r"^\| (`vcp .+?) \|", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert {command for row in rows for command in re.findall(r"`vcp ([a-z-]+)", row)} == set(COMMANDS)


def test_every_command_of_the_document_works_in_its_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    old_installation(tmp_path / "old")
    assert len(lines()) >= 12
    for line in lines():
        program, *words = shlex.split(line)
        if program != "vcp":
            subprocess.run(("/bin/sh", "-c", line), cwd=tmp_path, check=True)
        elif words[0] == "serve" and "old" not in words:
            assert command(capsys, "check", *words[1:3]).code == 0, "one server is enough; the others would start"
        elif words[0] == "serve":
            with started(*words, "--port", "0", cwd=tmp_path) as server:
                assert server.stop() == 0, line
        else:
            ended = command(capsys, *words)
            assert ended.code == 0, (line, ended)
    assert list((tmp_path / "old" / "VCPTimedContacts").glob("*.json")), "trying it out has left the tasks alone"
    assert not list((tmp_path / "trial" / "VCPTimedContacts").glob("*.json"))


def test_every_state_of_an_mcp_server_is_explained() -> None:
    table = TEXT.partition("\n## MCP servers\n")[2].partition("\n\n*")[0]
    told = {
        state for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE) for state in re.findall(r"`([^`]+)`", row)
    }
    assert told == {state.value for state in ServerState}
