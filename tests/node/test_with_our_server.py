"""A node and our own server, over a real connection."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.hub.clients import Client, ClientType, Message
from tests.node.bench import running_node, until
from tests.server import ECHO, run, running, write_plugin

UPSTREAM = "http://127.0.0.1:9"


@pytest.mark.parametrize("key", ["plain-key", "密钥 with blanks?#"])
def test_a_node_serves_our_own_server_with_any_key(tmp_path: Path, key: str) -> None:
    """A key that a path cannot hold goes in a header."""
    write_plugin(tmp_path / "node", "Echo", ECHO)

    async def test() -> None:
        heard: asyncio.Queue[tuple[Client, Any]] = asyncio.Queue()

        def hear(client: Client, message: Message) -> None:
            heard.put_nowait((client, message))

        async with running(tmp_path / "server", UPSTREAM, config=[f"VCP_Key='{key}'"]) as server:
            for kind in ("register_tools", "tool_result"):
                server.services.hub.heard(ClientType.NODE, kind, hear)
            async with running_node(tmp_path / "node", server.url, key=lambda: key) as node:
                client, registered = await heard.get()
                assert [tool["name"] for tool in registered["data"]["tools"]] == ["Echo"]
                data = {"requestId": "r", "toolName": "Echo", "toolArgs": {"text": "hi"}}
                client.send({"type": "execute_tool", "data": data})
                _, answer = await heard.get()
                assert answer["data"]["result"] == {"original_plugin_output": "hi"}
                assert server.services.hub.count(ClientType.NODE) == 1
                await node.left()
            await until(lambda: not server.services.hub.count(ClientType.NODE))

    run(test())


def test_our_server_tells_a_wrong_key_and_takes_the_right_one_later(tmp_path: Path) -> None:
    async def test() -> None:
        key = "wrong"
        async with (
            running(tmp_path / "server", UPSTREAM, config=["VCP_Key=right"]) as server,
            running_node(tmp_path / "node", server.url, key=lambda: key) as node,
        ):
            await until(lambda: node.told)
            assert "401" in node.told[0]
            key = "right"
            await until(lambda: server.services.hub.count(ClientType.NODE))

    run(test())
