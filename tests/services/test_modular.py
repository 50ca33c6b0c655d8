"""The modular proxy over real servers as child processes (mcp.md section 2)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from app.mcp.client.servers_file import ServerTable, read_servers
from app.mcp.groups.proxy import Expose, FirstSettling
from app.services.modular import Proxy, modular_proxy
from tests.server import run
from tests.waiting import until

PEER = Path(__file__).parents[1] / "mcp" / "client" / "peer.py"


def peer(*modes: str, description: str = "") -> dict[str, Any]:
    return {"description": description, "command": sys.executable, "args": ["-S", "-E", str(PEER), *modes]}


def servers(**entries: Mapping[str, Any]) -> ServerTable:
    table, problems = read_servers(json.dumps({"mcpServers": entries}).encode(), os.environ)
    assert not problems
    return table


def over(
    tmp_path: Path,
    work: Callable[[Client, Proxy], Coroutine[Any, Any, None]],
    table: ServerTable | Callable[[], ServerTable],
    expose: Expose = Expose.MODULAR,
    **options: Any,
) -> None:
    """Run ``work`` as a client of a proxy."""

    async def main() -> None:
        of_now = table if callable(table) else lambda: table
        proxied = modular_proxy(of_now, expose=lambda: expose, folder=tmp_path, state=tmp_path / "state", **options)
        async with proxied as proxy, Client(proxy.door.server, mode="legacy") as client:
            await work(client, proxy)

    run(main())


async def called(client: Client, group: str, name: str, **more: Any) -> tuple[str, bool]:
    """The text of an answer, and whether it is an error."""
    result = await client.call_tool("call-modular-tool", {"group": group, "name": name, **more})
    (content,) = result.content
    assert content.type == "text"
    return content.text, bool(result.is_error)


async def names_in(client: Client, group: str) -> list[str]:
    result = await client.call_tool("get-modular-tools", {"group": group})
    assert result.structured_content is not None
    return [tool["name"] for tool in result.structured_content["tools"]]


def test_two_tools_in_their_order_lead_to_all_groups(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """MOD-3, MOD-7, MOD-8, MOD-9, MOD-13; mcp.md 2.4, 2.8: one bad group stops no other and is told of.

    A group without a description is described by the names of its tools.
    """
    caplog.set_level(logging.INFO)

    async def work(client: Client, proxy: Proxy) -> None:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["get-modular-tools", "call-modular-tool"]
        for tool in listed:
            assert tool.input_schema["properties"]["group"] == {"type": "string", "enum": ["z", "a"]}
            assert (tool.title, tool.output_schema, tool.annotations) == (None, None, None)
        description = listed[0].description or ""
        assert (
            "\n- z: Echoes\n- a: grow\n\nUnavailable groups (connection failed):\n- bad: Nobody (Error: " in description
        )
        assert "/home/" not in description
        assert await names_in(client, "z") == ["echo", "fail"]
        assert await called(client, "z", "echo", args={"text": "你好"}) == ('{"text": "你好"}', False)
        assert await called(client, "z", "fail") == ("it went wrong", True)
        told, failed = await called(client, "z", "nothing")
        assert failed
        assert json.loads(told)["success"] is False
        told, failed = await called(client, "bad", "echo")
        assert failed
        assert "group bad failed to connect" in json.loads(told)["error"]

    over(
        tmp_path,
        work,
        servers(
            z=peer("tools=echo+fail", description="Echoes"),
            bad=peer("fail-start", description="Nobody"),
            a=peer("tools=grow"),
        ),
    )
    assert {"\u2713 z", "\u2713 a", "success_groups=[z, a], failed_groups=[bad]"} <= set(caplog.messages)


def test_any_other_name_is_an_error_of_the_protocol(tmp_path: Path) -> None:  # mcp.md 2.5, last row; MCP-21
    async def work(client: Client, proxy: Proxy) -> None:
        for name in ("echo", "one.echo", "one__echo", ""):
            with pytest.raises(MCPError) as raised:
                await client.call_tool(name, {})
            assert raised.value.error.code == -32602
        result = await client.call_tool("get-modular-tools", {})
        assert json.loads(result.content[0].text)["error"][0]["path"] == ["group"]  # type: ignore[union-attr]

    over(tmp_path, work, servers(one=peer()))


def test_without_servers_there_are_two_tools_with_an_empty_enum(tmp_path: Path) -> None:  # MOD-9
    async def work(client: Client, proxy: Proxy) -> None:
        tools = (await client.list_tools()).tools
        assert [tool.input_schema["properties"]["group"]["enum"] for tool in tools] == [[], []]

    over(tmp_path, work, servers())


@pytest.mark.parametrize(
    ("expose", "names"),
    [
        (Expose.FLAT, ["a__b__echo", "a__b__echo_", "my_srv__echo"]),
        (Expose.BOTH, ["get-modular-tools", "call-modular-tool", "a__b__echo", "a__b__echo_", "my_srv__echo"]),
    ],
)
def test_the_same_groups_can_be_served_flat(tmp_path: Path, expose: Expose, names: list[str]) -> None:  # MOD-14
    async def work(client: Client, proxy: Proxy) -> None:
        assert sorted(tool.name for tool in (await client.list_tools()).tools) == sorted(names)
        result = await client.call_tool("my_srv__echo", {"text": "x"})
        assert result.content[0].text == '{"text": "x"}'  # type: ignore[union-attr]
        if expose is Expose.FLAT:
            with pytest.raises(MCPError):
                await client.call_tool("call-modular-tool", {"group": "a__b", "name": "echo"})

    table = servers(**{"my srv": peer(), "a__b": peer(), "a": peer("tools=b__echo")})
    over(tmp_path, work, table, expose)


def test_progress_and_cancelling_pass_through(tmp_path: Path) -> None:  # MOD-12, MCP-60
    notes = tmp_path / "notes"

    async def work(client: Client, proxy: Proxy) -> None:
        heard: list[tuple[float, float | None, str | None]] = []

        async def progressed(done: float, total: float | None, message: str | None) -> None:
            heard.append((done, total, message))

        given = {"group": "one", "name": "progress"}
        await client.call_tool("call-modular-tool", given, progress_callback=progressed)
        await until(lambda: heard)
        assert heard[0] == (1.0, 4.0, "step 1")
        calling = asyncio.create_task(client.call_tool("call-modular-tool", {"group": "one", "name": "silent"}))
        await until(lambda: "called silent" in notes.read_text("utf-8"))
        calling.cancel()
        await until(lambda: "notifications/cancelled" in notes.read_text("utf-8"))
        assert (await called(client, "one", "echo"))[1] is False

    over(tmp_path, work, servers(one=peer("tools=echo+progress+silent", f"notes={notes}")))


def test_a_server_that_died_is_started_anew_and_new_tools_are_seen(tmp_path: Path) -> None:  # MOD-8, MOD-12
    async def work(client: Client, proxy: Proxy) -> None:
        told, failed = await called(client, "one", "crash")
        assert failed
        assert json.loads(told)["success"] is False
        assert await called(client, "one", "grow") == ("grown", False)
        await until(lambda: "one.grown" in proxy.router.specs())
        assert await names_in(client, "one") == ["crash", "grow", "grown"]

    over(tmp_path, work, servers(one=peer("tools=crash+grow")))


def test_an_edited_configuration_is_followed(tmp_path: Path) -> None:  # P93
    table = [servers(one=peer(), two=peer())]

    async def work(client: Client, proxy: Proxy) -> None:
        await client.list_tools()
        table[0] = servers(two=peer(), three=peer(description="New"))
        await until(lambda: "three.echo" in proxy.router.specs() and "one.echo" not in proxy.router.specs())
        tools = (await client.list_tools()).tools
        assert tools[0].input_schema["properties"]["group"]["enum"] == ["two", "three"]

    over(tmp_path, work, lambda: table[0])


def test_a_slow_server_is_waited_for_only_so_long(tmp_path: Path) -> None:  # MOD-7
    async def work(client: Client, proxy: Proxy) -> None:
        assert await names_in(client, "quick") == ["echo"]
        assert not any(name.startswith("slow.") for name in proxy.router.specs())
        assert await names_in(client, "slow") == ["echo"]  # who asks for this one waits for it

    table = servers(quick=peer(), slow=peer("slow-start=0.8"))
    over(tmp_path, work, table, settled_seconds=0.1)


def test_the_handshake_and_known_tools_are_never_waited_for(tmp_path: Path) -> None:  # MOD-7
    async def main() -> None:
        settled = asyncio.Event()
        waiting = FirstSettling(settled, 60, {"there"}.__contains__)

        async def answered(context: Any) -> str:
            return str(context.method)

        class Request:
            def __init__(self, method: str, name: str = "") -> None:
                self.method = method
                self.params = {"name": name} if name else None

        assert await waiting(Request("initialize"), answered) == "initialize"
        assert await waiting(Request("ping"), answered) == "ping"
        assert await waiting(Request("tools/call", "there"), answered) == "tools/call"
        listing = asyncio.create_task(waiting(Request("tools/list"), answered))
        calling = asyncio.create_task(waiting(Request("tools/call", "elsewhere"), answered))
        done, _ = await asyncio.wait((listing, calling), timeout=0.05)
        assert not done
        settled.set()
        assert await asyncio.gather(listing, calling) == ["tools/list", "tools/call"]

    run(main())


ASKING = """
import json, sys
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    got = json.loads(line)
    if got.get("method") == "initialize":
        say(id=got["id"], result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "asking", "version": "1"}})
    elif got.get("method") == "tools/list":
        say(id=got["id"], result={"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]})
    elif got.get("method") == "tools/call":
        call = got["id"]
        say(id="q", method="elicitation/create", params={"message": "Which colour?",
            "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}}})
    elif got.get("id") == "q":
        text = json.dumps(got.get("result", got.get("error")))
        say(id=call, result={"content": [{"type": "text", "text": text}]})
    elif "id" in got:
        say(id=got["id"], error={"code": -32601, "message": "unknown"})
"""


def test_questions_of_a_server_go_to_the_client_that_called(tmp_path: Path) -> None:  # MCP-62
    script = tmp_path / "asking.py"
    script.write_text(ASKING, "utf-8")
    table = servers(one={"command": sys.executable, "args": ["-S", "-E", str(script)]})

    async def answer(context: Any, params: Any) -> ElicitResult:
        assert params.message == "Which colour?"
        return ElicitResult(action="accept", content={"colour": "red"})

    async def main() -> None:
        async with modular_proxy(
            lambda: table, expose=lambda: Expose.MODULAR, folder=tmp_path, state=tmp_path / "state"
        ) as proxy:
            async with Client(proxy.door.server, mode="legacy", elicitation_callback=answer) as client:
                told, failed = await called(client, "one", "ask")
                assert (json.loads(told), failed) == ({"action": "accept", "content": {"colour": "red"}}, False)
            async with Client(
                proxy.door.server, mode="legacy"
            ) as client:  # it cannot be asked, and nobody else is here
                told, failed = await called(client, "one", "ask")
                assert json.loads(told)["action"] in ("cancel", "decline")

    run(main())
