"""What the soak has of the Model Context Protocol: servers that are killed, clients that come, cancel and go away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

from bench.conversations import Client, Conversation, WrongAnswerError
from bench.workshop import human_tool, unique_name

PEER = str(Path(__file__).with_name("mcp_peer.py"))
SERVERS = ("mcp-east", "mcp-west")
TOOL = "list_things_0"
SETTINGS = ("MCPSessionSeconds=5",)
"""So that sessions whose clients went away without a word are gone in the end."""

CALLERS = 4
"""Clients that use MCP servers all the time while these are killed."""

REST_SECONDS = 4.0
AGAIN_SECONDS = 90.0
LOST = ("signal 9", "may be tried again", "was closed", "is not there now", "cannot be reached")
"""What is said of a call whose server was killed."""


class ToolServers:
    """MCP servers of one home, and the conversations that use them; ``fault`` is told what went wrong.

    ``mark`` stands in the environment of the servers, so that those are found that outlive everybody.
    """

    def __init__(self, home: Path, mark: str, fault: Callable[[str], None]) -> None:
        self._fault = fault
        self.kills = 0
        self.heard: Counter[str] = Counter()
        name, _, value = mark.partition("=")
        entry = {"command": sys.executable, "args": ["-I", "-S", PEER, "20"], "idleSeconds": 3, "env": {name: value}}
        servers = json.dumps({"mcpServers": dict.fromkeys(SERVERS, entry)})
        (home / "mcp_servers.json").write_text(servers, encoding="utf-8")

    # ------------------------------------------------------------------ what happens while there is load

    async def trouble(self, address: str, key: str, until: float, chance: random.Random) -> None:
        """A server is killed every few seconds until the time has come; then all must work again."""
        async with aiohttp.ClientSession() as session:
            client = Client(session, address, key)
            pressing = [asyncio.create_task(self._press(client, until, number)) for number in range(CALLERS)]
            while time.monotonic() + REST_SECONDS < until:
                await asyncio.sleep(REST_SECONDS * chance.uniform(0.3, 1))
                async with session.get(f"{address}/v1/mcp/servers", headers=client.headers) as response:
                    running = [one["pid"] for one in (await response.json())["servers"] if one.get("pid")]
                if running:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(chance.choice(running), signal.SIGKILL)
                        self.kills += 1
            await asyncio.gather(*pressing)
            for server in SERVERS:
                await self._works_again(client, server)

    async def _press(self, client: Client, until: float, number: int) -> None:
        """Calls and sessions without a pause, so that a server which is killed has some."""
        while time.monotonic() < until:
            try:
                await (self.come_and_go if number % 2 else self.call_mcp_tool)(client, number)
            except (WrongAnswerError, aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                self._fault(f"MCP: {type(error).__name__}: {error}")
            number += CALLERS

    async def _works_again(self, client: Client, server: str) -> None:
        until = time.monotonic() + AGAIN_SECONDS
        while True:
            _, said = await human_tool(client, f"{server}.{TOOL}", text="again")
            if "again" in said and not any(words in said for words in LOST):
                return
            if time.monotonic() > until:
                self._fault(f"{server} did not come back: {said[:200]}")
                return
            await asyncio.sleep(0.5)

    # ------------------------------------------------------------------ what clients do

    async def call_mcp_tool(self, client: Client, number: int) -> None:
        """A person calls the tool of an MCP server: it answers, or it is told why not."""
        name = unique_name("mcp", number)
        status, said = await human_tool(client, f"{SERVERS[number % 2]}.{TOOL}", text=name)
        self._judge(said, name, f"status {status}")

    async def come_and_go(self, client: Client, number: int) -> None:
        """An MCP client with a session: lists, calls, cancels a call or goes away in it, and mostly says goodbye."""
        async with self._session(client, number) as ask:
            listed = await ask("tools/list", {})
            names = [tool["name"] for tool in listed["result"]["tools"]]
            _expect(f"{SERVERS[0]}.{TOOL}" in names and len(names) == len(set(names)), f"a list has {names[:5]}")
            name = unique_name("session", number)
            call = {"name": f"{SERVERS[number % 2]}.{TOOL}", "arguments": {"text": name}}
            self._judge(json.dumps(await ask("tools/call", call), ensure_ascii=False), name, "a session's call")
            slow = {**call, "arguments": {"text": f"slow {name}"}}
            running = asyncio.create_task(ask("tools/call", slow, identity="slow"))
            await asyncio.sleep(0.05)
            if number % 3:
                await ask("notifications/cancelled", {"requestId": "slow"}, identity=None)
                self.heard["cancelled MCP call"] += 1
            running.cancel()
            await asyncio.wait({running})

    @contextlib.asynccontextmanager
    async def _session(self, client: Client, number: int) -> Any:
        headers = {**client.headers, "Accept": "application/json, text/event-stream"}

        async def ask(method: str, params: dict[str, Any], identity: object = 1) -> dict[str, Any]:
            body = {"jsonrpc": "2.0", "method": method, "params": params}
            if identity is not None:
                body["id"] = identity
            async with client.session.post(client.address + "/mcp", json=body, headers=headers) as response:
                text = await response.text()
                _expect(response.status in (200, 202), f"{method} got status {response.status}: {text[:200]}")
                headers.setdefault("Mcp-Session-Id", response.headers.get("Mcp-Session-Id", ""))
            data = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
            answer: dict[str, Any] = json.loads(data[-1] if data else text or "{}")
            return answer

        info = {"name": "soak", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        _expect("result" in await ask("initialize", hello), "a client was not let in")
        await ask("notifications/initialized", {}, identity=None)
        yield ask
        if number % 4:
            async with client.session.delete(client.address + "/mcp", headers=headers) as response:
                _expect(response.status == 200, f"a session's end got status {response.status}")

    def _judge(self, said: str, name: str, what: str) -> None:
        if any(words in said for words in LOST):
            self.heard["MCP call that was lost"] += 1
            return
        self.heard["MCP call"] += 1
        _expect(name in said, f"{what}: {said[:300]}")

    @property
    def conversations(self) -> tuple[Conversation, ...]:
        """Everything that clients do here."""
        return self.call_mcp_tool, self.come_and_go

    @property
    def counts(self) -> str:
        """How much of everything there was."""
        told = ", ".join(f"{count} {name}" for name, count in sorted(self.heard.items()))
        return f"{self.kills} MCP servers killed; {told}"


def _expect(right: bool, fault: str) -> None:
    if not right:
        raise WrongAnswerError(fault)
