"""A client, the modular proxy, our server, a server of others: through all hops, in both eras (section 2, MCP-60)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitResult, ToolListChangedNotification

from tests.external.mcp_world import ERAS, KEY, MODULES, NODE, World, until, world
from tests.program import LONGEST, ROOT, environment

pytestmark = pytest.mark.external

INSPECTOR = str(MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js")
WAYS = ("http", "stdio")
"""How the proxy reaches our server: ``/mcp``, and ``vcp mcp`` beside it."""


@pytest.fixture(scope="module")
def our(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("home"), "everything", "old") as made:
        yield made


@pytest.fixture(scope="module")
def config(our: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the proxy."""
    path = tmp_path_factory.mktemp("proxy") / "servers.json"
    command = {"command": sys.executable, "args": ["-m", "app.cli", "mcp", "--home", str(our.home)]}
    servers = {
        "http": {"description": "by HTTP", "url": f"{our.url}/mcp", "headers": {"Authorization": f"Bearer {KEY}"}},
        "stdio": {"description": "by pipes", "env": {"PYTHONPATH": str(ROOT)}, **command},
    }
    path.write_text(json.dumps({"expose": "both", "mcpServers": servers}), encoding="utf-8")
    return path


class Heard:
    """What the client is told and asked meanwhile."""

    def __init__(self) -> None:
        self.changes = 0
        self.progress: list[tuple[float, float | None]] = []

    async def told(self, message: Any) -> None:
        self.changes += isinstance(message, ToolListChangedNotification)

    async def listen(self, proxy: Client) -> None:
        """Servers of now tell of changes only where somebody listens; the message handler hears of them too."""
        async with proxy.listen(tools_list_changed=True) as changes:
            async for _ in changes:
                pass

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total))

    async def fill_in(self, context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada", "check": True})


def test_everything_passes_all_hops(our: World, config: Path) -> None:
    """MCP-60 to MCP-62, MOD-12, MOD-14: both eras, both ways; the processes start at the same time."""

    async def main() -> None:
        one_at_a_time = asyncio.Lock()
        done = [asyncio.Event() for _ in ERAS]

        async def era_of(number: int) -> None:
            heard = Heard()
            async with client(config, ERAS[number], heard) as proxy:
                await proxy.list_tools()
                async with one_at_a_time:
                    for group in WAYS:
                        await all_ways(our, proxy, group, heard)
                listening = asyncio.create_task(heard.listen(proxy)) if ERAS[number] != "legacy" else None
                before = heard.changes
                done[number].set()
                await asyncio.gather(*(one.wait() for one in done))
                if number == 0:
                    await asyncio.to_thread(leave_out, our, "old")
                gone = {f"{group}__old.add" for group in WAYS}
                while gone & {tool.name for tool in (await proxy.list_tools(cache_mode="bypass")).tools}:
                    await asyncio.sleep(0.2)
                while heard.changes == before:
                    await asyncio.sleep(0.05)
                if listening is not None:
                    listening.cancel()

        await asyncio.gather(*(era_of(number) for number in range(len(ERAS))))

    asyncio.run(asyncio.wait_for(main(), 3 * LONGEST))


def leave_out(our: World, name: str) -> None:
    """Take a server out of our file."""
    file = our.home / "mcp_servers.json"
    servers = json.loads(file.read_text(encoding="utf-8"))
    del servers["mcpServers"][name]
    file.write_text(json.dumps(servers), encoding="utf-8")


@asynccontextmanager
async def client(config: Path, era: str, heard: Heard) -> AsyncIterator[Client]:
    """The SDK's client of a proxy of its own."""
    process = StdioServerParameters(
        command=sys.executable,
        args=["-m", "app.cli", "modular", str(config)],
        env=environment({"HOME": str(config.parent)}),
    )
    async with Client(
        stdio_client(process), mode=era, message_handler=heard.told, elicitation_callback=heard.fill_in
    ) as made:
        yield made


async def all_ways(our: World, proxy: Client, group: str, heard: Heard) -> None:
    """Results, failures, a question, progress and cancelling."""

    async def called(name: str, /, **arguments: Any) -> Any:
        whole = {"group": group, "name": name, "args": arguments}
        return await proxy.call_tool("call-modular-tool", whole, progress_callback=heard.progressed)

    listed = await proxy.call_tool("get-modular-tools", {"group": group})
    assert "everything.get-sum" in str(listed.content)
    total = await called("everything.get-sum", a=2, b=40)
    assert "is 42" in str(total.content)
    flat = await proxy.call_tool(f"{group}__everything.get-structured-content", {"location": "Chicago"})
    assert flat.structured_content is not None and "humidity" in flat.structured_content
    picture = await called("everything.get-tiny-image")
    assert [part.type for part in picture.content] == ["text", "image", "text"]
    failed = await called("old.broken")
    assert failed.is_error and "it cannot be done" in str(failed.content)
    form = await called("everything.trigger-elicitation-request")
    assert "Ada" in str(form.content)
    heard.progress.clear()
    await called("old.slow", steps=2)
    assert heard.progress == [(1, 2), (2, 2)]
    notes = our.home / "old.notes"
    notes.unlink()
    call = asyncio.create_task(called("old.slow", steps=600))
    await asyncio.to_thread(until, lambda: notes.exists() and notes.read_text() == "begun")
    call.cancel()
    await asyncio.to_thread(until, lambda: notes.read_text() == "cancelled", "the cancellation")
    total = await called("old.add", a=40, b=2)
    assert "42" in str(total.content)


def test_the_inspector_uses_the_proxy(our: World, config: Path) -> None:
    """MOD-1, MOD-8 and 2.4 with an independent client."""
    file = json.loads(config.read_text(encoding="utf-8"))
    alone = config.with_name("alone.json")  # one process less to start
    alone.write_text(json.dumps({"mcpServers": {"http": file["mcpServers"]["http"]}}), encoding="utf-8")
    arguments = ("group=http", "name=everything.get-sum", 'args={"a": 2, "b": 40}')
    words = (NODE, INSPECTOR, "--cli", "--connect-timeout", "50000")
    words_of_call = [word for argument in arguments for word in ("--tool-arg", argument)]
    begun = [
        subprocess.Popen(
            (*words, sys.executable, "-m", "app.cli", "modular", str(alone), "--method", *more),
            env=environment({"HOME": str(config.parent)}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        for more in (("tools/list",), ("tools/call", "--tool-name", "call-modular-tool", *words_of_call))
    ]
    answers = []
    for process in begun:
        output, errors = process.communicate(timeout=LONGEST)
        assert process.returncode == 0, errors
        answers.append(json.loads(output))
    assert [tool["name"] for tool in answers[0]["tools"]] == ["get-modular-tools", "call-modular-tool"]
    assert "is 42" in json.dumps(answers[1])
