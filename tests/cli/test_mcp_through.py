"""``vcp mcp`` beside a running server: everything goes through it (D88, MCP-60 … MCP-63)."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from app.home.lock import own_home
from tests.cli.commands import PLUGIN_SLEEPER, command
from tests.cli.mcp_program import McpProgram, mcp
from tests.mcp.stdio.wires import call, notification, request
from tests.plugins.watching import appears, vanishes
from tests.server import run, running, write_plugin

PARENT = """
import json, os
print(json.dumps({"status": "success", "result": f"{os.getppid()} at depth {os.environ['VCP_CALL_DEPTH']}"}))
"""


def test_a_client_is_served_by_the_server_that_owns_the_home_also_after_it_has_started_anew(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Parent", PARENT)
    sleeper = write_plugin(tmp_path, "Sleeper", PLUGIN_SLEEPER)

    async def parent(program: McpProgram, id: int) -> str:
        answer = await asyncio.to_thread(program.ask, call(id, "Parent"))
        return str(answer["result"]["content"][0]["text"])

    async def first(program: McpProgram) -> None:
        result = await asyncio.to_thread(program.begin)
        assert result["capabilities"]["tools"] == {"listChanged": True}
        tools = await asyncio.to_thread(program.ask, request(1, "tools/list"))
        assert {"Parent", "Sleeper"} <= {tool["name"] for tool in tools["result"]["tools"]}
        assert await parent(program, 2) == f"{os.getpid()} at depth 3"

        program.send(call("slow", "Sleeper"))
        await appears(sleeper / "pid")
        program.send(notification("notifications/cancelled", {"requestId": "slow"}))
        await vanishes(int((sleeper / "pid").read_text()))

    async def test() -> None:
        with own_home(tmp_path, "serve") as ownership:
            async with running(tmp_path, "http://127.0.0.1:9") as server:
                ownership.tell(server.url)
                with mcp("--home", tmp_path, cwd=tmp_path, environ={"VCP_CALL_DEPTH": "2"}) as program:
                    await first(program)
                    async with running(tmp_path, "http://127.0.0.1:9") as other:
                        ownership.tell(other.url)
                        assert await parent(program, 3) == f"{os.getpid()} at depth 3"
                        frames = [json.loads(line) for line in program.raw.splitlines()]
                        assert {"notifications/tools/list_changed"} <= {frame.get("method") for frame in frames}
                        assert await asyncio.to_thread(program.end) == (0, [])

    run(test())


def test_what_is_printed_for_http_reaches_the_running_server(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The address is that of now, not the configured one."""
    write_plugin(tmp_path, "Parent", PARENT)

    async def test() -> None:
        with own_home(tmp_path, "serve") as ownership:
            async with running(tmp_path, "http://127.0.0.1:9") as server:
                ownership.tell(server.url)
                words = ("mcp", "--home", tmp_path, "--print-config", "cursor", "--http")
                ended = await asyncio.to_thread(command, capsys, *words)
                assert "key" in ended.err
                printed = json.loads(ended.out)["mcpServers"]["vcp"]
                headers = [(name.encode(), value.encode()) for name, value in printed["headers"].items()]
                async with (
                    httpx2.AsyncClient(headers=headers, trust_env=False) as http,
                    Client(streamable_http_client(printed["url"], http_client=http)) as client,
                ):
                    result = await client.call_tool("Parent", {})
                    assert result.content[0].text == f"{os.getpid()} at depth 1"

    run(test())
