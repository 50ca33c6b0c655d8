"""``vcp nodes``: what the server that runs in the home knows of its nodes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.home.lock import own_home
from app.hub.nodes.state import NodeState
from tests.cli.commands import Ended, command, refused
from tests.server import running

WORKSHOP = NodeState(
    "workshop", "0.1.0", "10.0.0.7", 1_800_000_000, ("Echo", "Dice"), ("gpu",), 1, 34, 2, 0.0123, "Echo timed out"
)
HOSTILE = NodeState(
    "工作站",
    "9\x1b[2J",
    "::1",
    1_800_000_000,
    tuple(f"T{n}\ud800" for n in range(500)),
    last_error="a\nb\x07" + "x" * 5000,
)


def nodes(capsys: pytest.CaptureFixture[str], home: Path, states: Sequence[NodeState], *words: str) -> Ended:
    """Run the command beside a server that has these nodes."""

    async def main() -> Ended:
        async with running(home, "http://127.0.0.1:9") as server:
            server.services.nodes.list = lambda: states  # type: ignore[method-assign]  # any list will do
            with own_home(home, "serve") as ownership:
                ownership.tell(server.url)
                return await asyncio.to_thread(command, capsys, "nodes", "--home", home, *words)

    return asyncio.run(asyncio.wait_for(main(), 20))


def test_nodes_come_as_a_table_with_their_tools_and_last_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = nodes(capsys, tmp_path, (WORKSHOP, NodeState("b", "", "::1", 1_800_000_000, latency=0.00004)))
    assert (told.code, told.err) == (0, "")
    heading, first, tools, labels, error, second, none = told.out.splitlines()
    assert "name" in heading and "latency" in heading and "延迟" in heading
    assert first.split() == ["workshop", "0.1.0", "12.3", "ms", "1", "34", "2", "2027-01-15", "16:00:00", "10.0.0.7"]
    assert tools.endswith("tools (2): Echo, Dice")
    assert labels.endswith("labels: gpu")
    assert error.endswith("last error: Echo timed out")
    assert second.split()[:4] == ["b", "-", "0.04", "ms"]
    assert none.endswith("tools (0): -")


def test_what_a_node_tells_of_itself_cannot_act_on_the_terminal_or_fill_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = nodes(capsys, tmp_path, (HOSTILE,)).out
    assert len(out.splitlines()) == 4
    assert all(char.isprintable() for char in out.replace("\n", ""))
    assert "tools (500): T0\\ud800, T1" in out and "(+488)" in out
    assert max(map(len, out.splitlines())) < 300


def test_programs_get_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = nodes(capsys, tmp_path, (WORKSHOP, HOSTILE), "--json")
    assert json.loads(told.out)["nodes"] == [WORKSHOP.as_json(), json.loads(json.dumps(HOSTILE.as_json()))]


def test_without_a_node_two_commands_are_told_that_add_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = nodes(capsys, tmp_path, ())
    assert told.code == 0
    assert "vcp keys node workshop" in told.out
    port = re.search(r"VCP_KEY=KEY vcp node --url ws://ADDRESS:(\d+) --name workshop\n", told.out)
    assert port is not None
    assert int(port[1]) not in (0, 6005), "that of the server which runs, not the configured one"
    assert "lets in this machine alone" in told.out


def test_without_a_server_the_command_says_how_to_start_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "vcp serve" in refused(capsys, "nodes", "--home", tmp_path)
    with own_home(tmp_path, "serve"):
        assert "takes no requests yet" in refused(capsys, "nodes", "--home", tmp_path)
