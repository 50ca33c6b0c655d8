"""The two commands of ``docs/nodes.md``, as a person types them, with real processes on both sides."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.commands import command
from tests.program import ROOT, started
from tests.server import ECHO, write_plugin

TEXT = (ROOT / "docs" / "nodes.md").read_text(encoding="utf-8")
LONGEST = 60.0


def until(told: Callable[[], bool]) -> None:
    """Look until it is so; fails when it takes too long."""
    last = time.monotonic() + LONGEST
    while not told():
        assert time.monotonic() < last
        time.sleep(0.02)


def test_two_commands_bring_a_second_machines_tools_and_a_third_takes_them_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main, second = tmp_path / "main", tmp_path / "second"
    main.mkdir()
    (main / "config.env").write_text("Key=0123456789abcdef\nNodeKeysOnly=true\nShutdownSeconds=0.2\n", encoding="utf-8")
    write_plugin(second, "Echo", ECHO)
    (first_line,) = re.findall(r"^vcp (keys node workshop)$", TEXT, re.MULTILINE)[:1]
    (second_line,) = re.findall(r"^VCP_KEY=KEY vcp (node .*)$", TEXT, re.MULTILINE)

    def vcp(*words: str) -> str:
        ended = command(capsys, words[0], "--home", main, *words[1:])
        assert ended.code == 0, ended
        return ended.out

    def nodes() -> list[str]:
        return [node["name"] for node in json.loads(vcp("nodes", "--json"))["nodes"]]

    with started("serve", "--port", "0", cwd=main) as server:
        key = vcp(*first_line.split()).strip()
        port = urlsplit(server.base_url).port
        words = second_line.replace("ADDRESS:6005", f"127.0.0.1:{port}").split()
        with started(*words, cwd=second, environ={"VCP_KEY": key}, last_line="已连接") as node:
            until(lambda: nodes() == ["workshop"])
            for tool in ("Echo", "workshop#Echo"):
                assert json.loads(vcp("tool", tool, f"text={tool}"))["original_plugin_output"] == tool
            assert "tools (1): Echo" in vcp("nodes")
            vcp("keys", "node", "workshop", "--revoke")
            until(lambda: nodes() == [])
            assert command(capsys, "tool", "--home", main, "Echo", "text=x").code == 2, "gone with its node"
            assert node.stop() == 0
            assert key not in node.banner + node.logged
        assert server.stop() == 0
        assert key not in server.banner + server.logged
