"""``docs/nodes.md``: its commands for keys work as they are printed, its paths and numbers are the code's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from app.config.settings import names
from app.hub.hub import PATHS
from app.hub.nodes.key_file import NODE_KEYS_FILE, read_node_keys
from app.protocol.node_names import NODE_NAME_CHARS
from app.web import blocking
from tests.cli.commands import command
from tests.program import ROOT

TEXT = (ROOT / "docs" / "nodes.md").read_text(encoding="utf-8")


def test_the_commands_for_keys_work_as_they_are_printed_one_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("vcp keys")]
    assert lines[0] == "vcp keys node workshop", "the first of the two commands"
    seen = []
    for line in lines:
        ended = command(capsys, *shlex.split(line)[1:])
        assert ended.code == 0, (line, ended)
        entry = read_node_keys(tmp_path).keys["workshop"]
        seen.append((entry.tools, entry.revoked))
    assert seen == [(None, False), (("Echo", "ComfyUIGen"), False), (None, False), (None, True), (None, True)]


def test_the_second_command_is_the_one_that_the_first_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = command(capsys, "keys", "node", "workshop").err
    (line,) = re.findall(r"^VCP_KEY=.*--name workshop$", TEXT, re.MULTILINE)
    assert line in told


def test_every_path_of_the_hub_is_in_the_table_and_no_other() -> None:
    text = (ROOT / "docs" / "websockets.md").read_text(encoding="utf-8")
    table = text.partition("## Clients")[2].partition("\n## ")[0]
    rows = "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    assert sorted(re.findall(r"`(/[^`]+)`", rows)) == sorted(PATHS.values())


def test_its_numbers_and_files_are_those_of_the_code() -> None:
    assert f"`-`, `_` and `.`, {NODE_NAME_CHARS} at most" in TEXT
    assert (
        f"tried {blocking.KEY_FAILURES} wrong keys within {blocking.KEY_WINDOW_SECONDS / 60:g} minutes and is blocked "
        f"for {blocking.KEY_BLOCK_SECONDS / 60:g}" in TEXT
    )
    assert f"`{NODE_KEYS_FILE.as_posix()}` with mode 0600" in TEXT


def test_every_setting_that_it_names_exists() -> None:
    named = set(re.findall(r"`([A-Z][A-Za-z]+[A-Z][A-Za-z]*)(?:=[^`]*)?`", TEXT)) - {"SIGTERM", "KEY", "ADDRESS"}
    assert len(named) >= 6
    assert sorted(named - set(names())) == []
