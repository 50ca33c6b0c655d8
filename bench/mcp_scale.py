"""``python -m bench.mcp_scale``: fifty MCP servers with a thousand tools behind one ``vcp serve``.

The servers are real processes (``bench/mcp_peer.py``). Measured are the start, without and with the lists that the
server kept from the last time, its memory, the list over ``/mcp``, and the placeholders that show all tools.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from bench.child import BenchError, address_of, cpu_seconds, run, started
from bench.processes import snapshot
from bench.replies import Shape
from bench.sides import serve_command

KEY = "key-of-the-scale"
PEER = str(Path(__file__).with_name("mcp_peer.py"))
KNOWN_SECONDS = 120.0
CLOSED = "VCP_BENCH_SCALE"


def servers_file(servers: int, tools: int, **entry: Any) -> str:
    """``mcp_servers.json`` with so many servers of so many tools each."""
    one = {"command": sys.executable, "args": ["-I", "-S", PEER, str(tools)], **entry}
    return json.dumps({"mcpServers": {f"server-{number:03}": one for number in range(servers)}})


class Measured:
    """One start of the server and what clients then wait for."""

    def __init__(self, process: asyncio.subprocess.Process, address: str, session: aiohttp.ClientSession) -> None:
        self._process = process
        self._address = address
        self._session = session
        self._numbers = iter(range(1, 10**9))

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of one request at ``/mcp``."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": {**params, "_meta": meta}}
        headers = {"Accept": "application/json, text/event-stream", "Mcp-Method": method}
        headers["MCP-Protocol-Version"] = "2026-07-28"
        if method == "tools/call":
            headers["Mcp-Name"] = params["name"]
        async with self._session.post(self._address + "/mcp", json=body, headers=headers) as response:
            text = await response.text()
        if response.status != 200:
            raise BenchError(f"{method} got status {response.status}: {text[:300]}")
        data = next((line[5:] for line in text.splitlines() if line.startswith("data:")), text)
        answer: dict[str, Any] = json.loads(data)
        if "result" not in answer:
            raise BenchError(f"{method}: {text[:300]}")
        result: dict[str, Any] = answer["result"]
        return result

    async def listed(self) -> int:
        """How many tools all pages of ``tools/list`` have."""
        found, cursor = 0, None
        while True:
            page = await self.ask("tools/list", **({"cursor": cursor} if cursor else {}))
            found += len(page["tools"])
            cursor = page.get("nextCursor")
            if cursor is None:
                return found

    async def wait_for(self, tools: int) -> None:
        """Until that many tools of MCP servers are known."""
        until = time.monotonic() + KNOWN_SECONDS
        while True:
            async with self._session.get(self._address + "/v1/mcp/servers") as response:
                known = sum(server["tools"] for server in (await response.json())["servers"])
            if known >= tools:
                return
            if time.monotonic() > until:
                raise BenchError(f"only {known} tools are known after {KNOWN_SECONDS:g} s")
            await asyncio.sleep(0.02)

    async def prompt(self, text: str) -> None:
        """A chat turn with this system prompt."""
        body = {
            "model": Shape(1).model,
            "messages": [{"role": "system", "content": text}, {"role": "user", "content": "hello"}],
        }
        async with self._session.post(self._address + "/v1/chat/completions", json=body) as response:
            if response.status != 200:
                raise BenchError(f"a turn got status {response.status}: {(await response.text())[:300]}")
            await response.read()

    async def human_tool(self, text: str) -> str:
        """What the door for people answers to a marked call."""
        headers = {"Content-Type": "text/plain"}
        async with self._session.post(self._address + "/v1/human/tool", data=text, headers=headers) as response:
            return await response.text()

    async def times(self, what: Any, repeats: int) -> tuple[float, float]:
        """Milliseconds of the first time and the median of the others."""
        spent = []
        for _ in range(repeats + 1):
            begun = time.perf_counter()
            await what()
            spent.append(1000 * (time.perf_counter() - begun))
        return spent[0], median(spent[1:])

    @property
    def memory(self) -> float:
        """Resident memory of the server alone, in MiB."""
        return snapshot(self._process.pid, CLOSED).memory

    @property
    def cpu(self) -> float:
        """Processor time of the server so far, in seconds."""
        return cpu_seconds(self._process.pid) or 0.0


@contextlib.asynccontextmanager
async def serving(home: Path) -> AsyncIterator[Measured]:
    """The server as a user starts it."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with (
        started(*serve_command(home), stderr=home.parent / "server.log") as process,
        aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=120)) as session,
    ):
        yield Measured(process, await address_of(process, "vcp serve"), session)


async def measure(servers: int, tools: int, repeats: int) -> dict[str, float]:
    """All figures; times in seconds or milliseconds and memory in MiB, as their names say."""
    told: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="vcp-bench-") as folder:
        home = Path(folder) / "home"
        home.mkdir()
        async with started("-m", "bench.upstream") as model:
            upstream = await address_of(model, "the canned model")
            lines = (f"API_URL={upstream}", "API_Key=none", f"Key={KEY}", "")
            (home / "config.env").write_text("\n".join(lines), encoding="utf-8")
            told |= await _start(home, "without servers", 0)
            (home / "mcp_servers.json").write_text(servers_file(servers, tools), encoding="utf-8")
            told |= await _start(home, "first start", servers * tools)
            told |= await _start(home, "next start", servers * tools)
            async with serving(home) as server:
                await server.wait_for(servers * tools)
                told |= await _waits(server, servers * tools, repeats)
    return told


async def _start(home: Path, label: str, tools: int) -> dict[str, float]:
    begun = time.perf_counter()
    async with serving(home) as server:
        up = time.perf_counter() - begun
        await server.wait_for(tools)
        known = time.perf_counter() - begun
        await asyncio.sleep(1.0)
        return {
            f"{label}: answers after, s": up,
            f"{label}: knows all tools after, s": known,
            f"{label}: processor time, s": server.cpu,
            f"{label}: memory, MiB": server.memory,
        }


async def _waits(server: Measured, tools: int, repeats: int) -> dict[str, float]:
    told: dict[str, float] = {}
    begun = time.perf_counter()
    if await server.listed() < tools:
        raise BenchError("the list is not complete")
    told["tools/list, all pages: the very first, with all imports, ms"] = 1000 * (time.perf_counter() - begun)
    asked: Mapping[str, Any] = {
        "tools/list, all pages": server.listed,
        "tools/list, one page": lambda: server.ask("tools/list"),
        "{{VCPToolGroups}}": lambda: server.prompt("{{VCPToolGroups}}"),
        "{{VCPAllTools}}": lambda: server.prompt("{{VCPAllTools}}"),
        "a turn without them": lambda: server.prompt("You are quick."),
    }
    for label, what in asked.items():
        told[f"{label}: first, ms"], told[f"{label}: median, ms"] = await server.times(what, repeats)
    told["in use: memory, MiB"] = server.memory
    return told


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.mcp_scale", description=__doc__)
    parser.add_argument("--servers", type=int, default=50)
    parser.add_argument("--tools", type=int, default=20, help="of each server")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    options = parser.parse_args(arguments)
    figures: dict[str, float] = {}

    async def work() -> None:
        figures.update(await measure(options.servers, options.tools, options.repeats))

    try:
        run(work())
    except BenchError as error:
        sys.exit(f"bench: {error}")
    print(f"{options.servers} servers, {options.servers * options.tools} tools")
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name.ljust(width)}  {value:10,.2f}")
    print(f"\n{os.cpu_count()} cores, Python {platform.python_version()}.")
    if options.json:
        options.json.write_text(json.dumps(figures) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
