"""How calls of MCP tools are compared, and what the soak has of MCP servers. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.child import BenchError
from bench.mcp import Comparison, compared
from bench.mcp_scale import PEER, servers_file
from bench.tool_servers import SERVERS, ToolServers
from tests.server import run


async def _right() -> bool:
    return True


async def _wrong() -> bool:
    return False


def test_both_sides_are_called_and_a_wrong_answer_ends_the_measurement() -> None:
    async def main() -> None:
        told = await compared(Comparison("x", _right, _right), 20, 2)
        assert len(told) == 12 and all(value >= 0 for value in told.values())
        with pytest.raises(BenchError):
            await compared(Comparison("x", _right, _wrong), 20, 1)

    run(main())


def test_the_small_server_lists_its_tools_and_gives_back_what_it_is_given() -> None:
    given = {"name": "list_things_0", "arguments": {"text": "hello"}}
    asked = [{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]
    asked.append({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": given})
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    done = subprocess.run([sys.executable, "-I", "-S", PEER, "3"], input=lines, capture_output=True, text=True)
    listed, called = (json.loads(line)["result"] for line in done.stdout.splitlines())
    assert len(listed["tools"]) == 3 and called["content"] == [{"type": "text", "text": "hello"}]
    assert len(json.loads(servers_file(50, 20))["mcpServers"]) == 50


def test_the_soak_marks_its_mcp_servers(tmp_path: Path) -> None:
    ToolServers(tmp_path, "MARK=1", lambda _: None)
    entries = json.loads((tmp_path / "mcp_servers.json").read_text())["mcpServers"]
    assert [entries[name]["env"] for name in SERVERS] == [{"MARK": "1"}] * 2
