"""``python -m bench.mcp``: what calls of MCP tools cost through this server, beside calls without it.

1. Router to MCP server in one process, beside the SDK's client alone: a server in memory, and one that is a child: the
   least that speaks the protocol, and one made with the SDK, as most are.
2. The SDK's client to ``vcp mcp`` to each of these children (two hops), beside the SDK's client to the child (one hop).
3. The same tool at ``/mcp`` and at ``/v1/human/tool`` of ``vcp serve``; a turn with ``NativeTools`` on and off.

Both sides are measured in turn; a ratio is the median of those of neighbouring measurements.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, cast
from unittest.mock import patch

import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.lowlevel import Server
from mcp.shared.memory import create_client_server_memory_streams

from app.cli.options import NoModel
from app.config.home_folders import make_home
from app.config.snapshot import load
from app.extend import CallContext, Door, ToolCall
from app.mcp.client.connection import Connection
from app.mcp.client.link import Link
from app.services import Services
from bench.child import ROOT, BenchError, address_of, run, started
from bench.logs import be_like_a_server
from bench.mcp_scale import KEY, PEER, Measured, servers_file, serving

IN_FLIGHT = (1, 16)
TOOL = "list_things_0"
GIVEN = {"text": "hello", "limit": 3}
Call = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Figures:
    """One measurement: median time of a call and processor time of a call, in microseconds."""

    p50: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two ways to the same tool, and the clock of the processor time that counts; None where it says nothing."""

    name: str
    bare: Call
    ours: Call
    cpu: Callable[[], float] | None = time.process_time


async def measure(call: Call, cpu: Callable[[], float] | None, in_flight: int, calls: int) -> Figures:
    """Make ``calls`` calls, ``in_flight`` at a time; BenchError when one has a wrong answer."""
    times: list[float] = []
    left = itertools.repeat(None, calls)

    async def worker() -> None:
        for _ in left:
            begun = time.perf_counter()
            if not await call():
                raise BenchError("a call was answered wrongly")
            times.append(time.perf_counter() - begun)

    before = cpu() if cpu is not None else 0.0
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    used = cpu() - before if cpu is not None else 0.0
    return Figures(median(times) * 1e6, used / calls * 1e6)


async def compared(pair: Comparison, calls: int, repeats: int) -> dict[str, float]:
    """Medians of both, and of the ratios of neighbours."""
    told: dict[str, float] = {}
    for call in (pair.bare, pair.ours):
        await measure(call, None, 16, min(calls, 200))  # everything is loaded and warm
    for in_flight in IN_FLIGHT:
        pairs = [
            (
                await measure(pair.bare, pair.cpu, in_flight, calls),
                await measure(pair.ours, pair.cpu, in_flight, calls),
            )
            for _ in range(repeats)
        ]
        for field in ("p50", "cpu") if pair.cpu is not None else ("p50",):
            bare = [getattr(one, field) for one, _ in pairs]
            ours = [getattr(one, field) for _, one in pairs]
            label = f"{pair.name}, {in_flight} in flight, {field}"
            told[f"{label}: bare"], told[f"{label}: ours"] = median(bare), median(ours)
            told[f"{label}: ratio"] = median(one / other for one, other in zip(ours, bare, strict=True))
    return told


# ---------------------------------------------------------------- in one process


def memory_server() -> Server[Any]:
    """A server of the SDK whose tool gives its text back."""

    async def listed(context: Any, params: Any) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"text": {"type": "string"}, "limit": {"type": "integer"}}}
        return types.ListToolsResult(tools=[types.Tool(name=TOOL, description="Echo", input_schema=schema)])

    async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = str((params.arguments or {}).get("text", ""))
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("memory", version="1", on_list_tools=listed, on_call_tool=called)


@contextlib.asynccontextmanager
async def to_memory(server: Server[Any]) -> AsyncIterator[TransportStreams]:
    """The client's end of streams to a server that runs in this process."""
    async with create_client_server_memory_streams() as (ours, theirs):
        serving = asyncio.create_task(server.run(*theirs, server.create_initialization_options()))
        try:
            yield cast("TransportStreams", ours)
        finally:
            serving.cancel()
            await asyncio.wait({serving})


class MemoryLink:
    """A way to a server in this process, in place of one to a child."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self.gone = asyncio.Event()
        self.session_lost = False

    @property
    def pid(self) -> int | None:
        """None: it is no child."""
        return None

    def streams(self) -> Any:
        """The streams."""
        return to_memory(self._server)

    def trouble(self) -> str:
        """There is none."""
        return ""

    def details(self) -> str:
        """Nothing is known."""
        return ""


CHILDREN = {"child": ("-I", "-S", PEER, "20"), "child of the SDK": ("-m", "bench.mcp_sdk_peer")}
"""Arguments of Python for both kinds of children."""


def child(kind: str) -> Any:
    """The SDK's own way to a child."""
    return stdio_client(StdioServerParameters(command=sys.executable, args=list(CHILDREN[kind]), cwd=str(ROOT)))


def only_server(kind: str) -> str:
    """``mcp_servers.json`` with one of the children."""
    entry = {"command": sys.executable, "args": CHILDREN[kind], "cwd": str(ROOT)}
    return json.dumps({"mcpServers": {"server-000": entry}})


def asks(client: Client, tool: str) -> Call:
    """A call by the SDK's client."""

    async def call() -> bool:
        result = await client.call_tool(tool, GIVEN)
        part = result.content[0] if isinstance(result, types.CallToolResult) and result.content else None
        return isinstance(part, types.TextContent) and part.text == GIVEN["text"]

    return call


def routed(services: Services, tool: str) -> Call:
    """A call by our router."""
    context = CallContext(turn_id="bench", door=Door.MCP)

    async def call() -> bool:
        result = await services.router.call(ToolCall(services.new_id("call"), tool, GIVEN), context)
        return bool(result.structured == GIVEN["text"])

    return call


@contextlib.asynccontextmanager
async def services_in(home: Path, kind: str) -> AsyncIterator[Services]:
    """The parts of a server that has one MCP server, ``server-000``."""
    make_home(home)
    (home / "config.env").write_text(f"Key={KEY}\nRunStaticPlugins=false\nLiveReload=false\n", encoding="utf-8")
    (home / "mcp_servers.json").write_text(only_server(kind), encoding="utf-8")
    config = load(home, {"PATH": os.environ.get("PATH", os.defpath)})
    be_like_a_server(home, config)
    services = Services(config, KEY, resolver=NoModel())
    async with services.running_parts():
        await services.mcp.upstream_servers.wait_settled(30)
        yield services


async def in_one_process(folder: Path, calls: int, repeats: int) -> dict[str, float]:
    """Our router beside the SDK's client alone, over both kinds of transport."""
    told: dict[str, float] = {}
    server = memory_server()

    def memory_link(connection: Connection) -> Link:
        return MemoryLink(server)

    async with Client(to_memory(server)) as client:
        with patch.object(Connection, "_made_link", memory_link):
            async with services_in(folder / "memory", "child") as services:
                pair = Comparison("in memory", asks(client, TOOL), routed(services, f"server-000.{TOOL}"))
                told |= await compared(pair, calls, repeats)
    for kind in CHILDREN:
        async with Client(child(kind)) as client, services_in(folder / kind, kind) as services:
            pair = Comparison(kind, asks(client, TOOL), routed(services, f"server-000.{TOOL}"))
            told |= await compared(pair, calls, repeats)
    return told


# ---------------------------------------------------------------- further hops


async def over_vcp_mcp(folder: Path, calls: int, repeats: int) -> dict[str, float]:
    """Two hops beside one, to both kinds of children."""
    told: dict[str, float] = {}
    for kind in CHILDREN:
        told |= await _two_hops(folder / kind, kind, calls, repeats)  # where the tools are known from before
    return told


async def _two_hops(home: Path, kind: str, calls: int, repeats: int) -> dict[str, float]:
    front = StdioServerParameters(
        command=sys.executable, args=["-m", "app.cli", "mcp", "--home", str(home)], cwd=str(ROOT)
    )
    with (home / "front.log").open("w", encoding="utf-8") as errors:
        async with Client(child(kind)) as one, Client(stdio_client(front, errlog=errors)) as two:
            pair = Comparison(f"two hops to a {kind}", asks(one, TOOL), asks(two, f"server-000.{TOOL}"), None)
            return await compared(pair, calls, repeats)


def by_person(server: Measured) -> Call:
    """The tool at ``/v1/human/tool``."""
    fields = "".join(f",\n{name}:「始」{value}「末」" for name, value in GIVEN.items())
    text = f"<<<[TOOL_REQUEST]>>>\ntool_name:「始」server-000.{TOOL}「末」{fields}\n<<<[END_TOOL_REQUEST]>>>"

    async def call() -> bool:
        return str(GIVEN["text"]) in await server.human_tool(text)

    return call


def by_mcp(server: Measured) -> Call:
    """The tool at ``/mcp``."""

    async def call() -> bool:
        result = await server.ask("tools/call", name=f"server-000.{TOOL}", arguments=GIVEN)
        return bool(result["content"][0]["text"] == GIVEN["text"])

    return call


def turn(server: Measured) -> Call:
    """A turn without a tool call."""

    async def call() -> bool:
        await server.prompt("You are quick.")
        return True

    return call


async def over_http(folder: Path, calls: int, repeats: int) -> dict[str, float]:
    """``/mcp`` beside the door for people, and turns with native tools beside turns without."""
    told: dict[str, float] = {}
    async with contextlib.AsyncExitStack() as stack:
        model = await stack.enter_async_context(started("-m", "bench.upstream"))
        upstream = await address_of(model, "the canned model")
        servers = []
        for mode in ("off", "on"):
            home = folder / f"native-{mode}" / "home"
            home.mkdir(parents=True)
            lines = (f"API_URL={upstream}", "API_Key=none", f"Key={KEY}", f"NativeTools={mode}", "")
            (home / "config.env").write_text("\n".join(lines), encoding="utf-8")
            (home / "mcp_servers.json").write_text(servers_file(1, 20), encoding="utf-8")
            server = await stack.enter_async_context(serving(home))
            await server.wait_for(20)
            servers.append(server)
        off, on = servers
        told |= await compared(Comparison("/mcp beside /v1/human/tool", by_person(off), by_mcp(off)), calls, repeats)
        told |= await compared(Comparison("a turn, NativeTools on beside off", turn(off), turn(on)), calls, repeats)
    return {name: value for name, value in told.items() if ", cpu" not in name}


async def compare(calls: int, repeats: int) -> dict[str, float]:
    """All of it; microseconds and ratios."""
    with tempfile.TemporaryDirectory(prefix="vcp-bench-") as folder:
        told = await in_one_process(Path(folder), calls, repeats)
        told |= await over_vcp_mcp(Path(folder), calls, repeats)
        return told | await over_http(Path(folder), calls, repeats)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; exits with 1 when an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.mcp", description=__doc__)
    parser.add_argument("--calls", type=int, default=1000, help="calls of one measurement (1000)")
    parser.add_argument("--repeats", type=int, default=5, help="pairs of measurements (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    options = parser.parse_args(arguments)
    figures: dict[str, float] = {}

    async def work() -> None:
        figures.update(await compare(options.calls, options.repeats))

    try:
        run(work())
    except BenchError as error:
        sys.exit(f"bench: {error}")
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name.ljust(width)}  {value:10,.2f}")
    print(f"\nMicroseconds and ratios; {os.cpu_count()} cores, Python {platform.python_version()}.")
    if options.json:
        options.json.write_text(json.dumps(figures) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
