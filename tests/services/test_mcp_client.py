"""MCP servers of a home as tools of its server (D68, D72, D88)."""

from __future__ import annotations

import json
from pathlib import Path

from app.home.running_server import request_text
from app.services.mcp_client import is_ours, server_limits
from tests.mcp.client.bench import peer
from tests.mcp.server.raw import connected
from tests.server import run, running
from tests.waiting import until

PLAIN = {"Content-Type": "text/plain"}


def test_tools_of_the_homes_servers_can_be_called_and_edits_are_taken_over(tmp_path: Path) -> None:
    """MCP-16: clients of our own MCP server hear that the servers behind it have other tools."""

    async def main() -> None:
        file = tmp_path / "mcp_servers.json"
        entry = peer("tools=echo+environment", env={"MINE": "${MyToken}"}, inheritEnv=True)
        file.write_text(json.dumps({"mcpServers": {"peer": entry}}))
        config = ["MyToken=abc", "VarCity=Here"]
        async with running(tmp_path, "http://127.0.0.1:9", config=config) as server:
            await until(lambda: "peer.echo" in server.services.router.specs())
            body = request_text("peer.environment", {"maid": "Nova"})
            answer = await server.client.post("/v1/human/tool", content=body.encode(), headers=PLAIN)
            assert answer.status_code == 200
            environment = json.loads(answer.json()["original_plugin_output"])
            assert environment["MINE"] == "abc" and "PATH" in environment
            assert not {"Key", "API_Key", "MyToken", "VarCity", "API_URL"} & environment.keys()  # D72
            async with connected(await server.services.mcp.serving.door()) as raw:

                async def names() -> list[str]:
                    return [tool["name"] for tool in (await raw.ask("tools/list"))["result"]["tools"]]

                await raw.hello()
                assert "peer.echo" in await names()
                file.write_text('{"mcpServers": {}}')
                await raw.note("notifications/tools/list_changed")
                assert "peer.echo" not in await names()
            assert "peer.echo" not in server.services.router.specs()

    run(main())


def test_settings_of_servers_are_those_of_now(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9", config=["MCPCallSeconds=7", "MCPResultLimitMB=2"]) as server:
            limits = server_limits(server.services.settings)
            assert limits.call_seconds == 7 and limits.result_bytes == 2 * 1024 * 1024
            ours = is_ours(lambda: server.services.config)
            names = ("Key", "API_Key", "MCPCallSeconds", "VarX", "AgentNova", "Upstream_a_Key", "ToolSocketToken")
            assert all(map(ours, names))
            assert not any(map(ours, ("PATH", "HOME", "EDITOR", "GITHUB_TOKEN")))

    run(main())
