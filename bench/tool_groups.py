"""``python -m bench.tool_groups``: many tools shown one by one, against the same behind the two tools of groups.

Fifty servers with twenty tools each, made up but of an ordinary size, as a source in this process. The client of the
SDK lists and calls them through our MCP server, over streams in memory: flat, then as ``vcp modular`` serves them.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from types import MappingProxyType

from mcp.client.client import Client

from app.extend import CallContext, Json, ToolCall, ToolCommand, ToolResult, ToolSpec
from app.mcp.groups.groups import Groups, ServerGroup
from app.mcp.groups.measure import Measured, measured
from app.mcp.groups.proxy import Expose, ProxyOffers
from app.mcp.groups.tools import GroupTools
from app.mcp.server.door import McpDoor, McpDoorRules
from app.observe.bus import EventBus
from app.tools.router import Router
from app.tools.schemas.check import check_of
from bench.child import BenchError, run

SERVERS = 50
TOOLS = 20
_VERBS = ("list", "read", "create", "update", "delete", "search", "export", "import", "watch", "count")
_THINGS = ("records", "reports", "messages", "events", "pictures", "branches", "orders", "places", "users", "tables")


class MadeUp:
    """A source of tools as servers have them; a call does nothing."""

    def __init__(self, servers: int, tools: int) -> None:
        self.names = [f"server-{number:02}" for number in range(servers)]
        specs = (_tool(server, number) for server in self.names for number in range(tools))
        self._specs = MappingProxyType({spec.name: spec for spec in specs})

    def tools(self) -> Mapping[str, ToolSpec]:
        """All of them."""
        return self._specs

    def changed(self, told: Callable[[], None]) -> None:
        """They never change."""

    def addressed(self, name: str) -> ToolSpec | None:
        """None: all are listed."""
        return None

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        """An empty answer."""
        started()
        return ToolResult(structured="", mcp={"content": [{"type": "text", "text": "done"}]})


def _tool(server: str, number: int) -> ToolSpec:
    verb, thing = _VERBS[number % len(_VERBS)], _THINGS[(number * 3 + len(server)) % len(_THINGS)]
    name = f"{verb}_{thing}_{number}"
    properties: dict[str, Json] = {
        "query": {"type": "string", "description": f"What the {thing} must hold; words are joined by AND"},
        "limit": {"type": "integer", "description": "Most of them that are returned", "minimum": 1, "maximum": 100},
        "order": {"type": "string", "enum": ["newest", "oldest", "relevance"], "description": "Which come first"},
        "since": {"type": "string", "format": "date-time", "description": "Only those that changed after this time"},
    }
    schema = {"type": "object", "properties": properties, "required": ["query"], "additionalProperties": False}
    text = f"{verb.capitalize()} {thing} of {server}. Returns names, times and a short summary of each, at most a page."
    command = ToolCommand(id=name, command="", description=text, parameters=schema, typed=True)
    return ToolSpec(f"{server}.{name}", f"mcp:{server}", name, (command,), groups=frozenset({server}))


class Bench:
    """Our server over the made up tools."""

    def __init__(self, source: MadeUp) -> None:
        self.expose = Expose.FLAT
        events = EventBus()
        servers = tuple(ServerGroup(name, f"Everything about the data that {name} keeps") for name in source.names)
        ids = iter(range(10**9))

        def new_id(kind: str) -> str:
            return f"{kind}-{next(ids)}"

        self.groups = Groups(lambda: (source,), tuple, lambda: servers)

        async def call_tool(call: ToolCall, context: CallContext) -> ToolResult:
            return await router.call(call, context)

        tools = GroupTools(self.groups, call_tool, events, new_id=new_id, always=True)
        router = Router((tools, source), (), events)
        self.door = McpDoor(
            offers=ProxyOffers(router.catalogue, lambda: self.expose),
            call_tool=router.call,
            events=events,
            changed=router.changed,
            rules=McpDoorRules,
            new_id=new_id,
            clock=time.time,
            validate=lambda schema, value: check_of(schema).fault(value),
        )

    @asynccontextmanager
    async def client(self, expose: Expose) -> AsyncIterator[Client]:
        """A client that sees the tools in this way."""
        self.expose = expose
        async with Client(self.door.server, mode="legacy") as client:
            yield client


async def _times(work: Callable[[], Awaitable[object]], repeats: int) -> float:
    """Median milliseconds of one run; the first one, which makes what is kept, does not count."""
    await work()
    spent: list[float] = []
    for _ in range(repeats):
        begun = time.perf_counter()
        await work()
        spent.append(time.perf_counter() - begun)
    return 1000 * median(spent)


async def _listed(client: Client) -> int:
    found, cursor = 0, None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += len(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return found


async def figures(servers: int, tools: int, repeats: int) -> tuple[Measured, dict[str, float]]:
    """Sizes, and median milliseconds of each kind of request."""
    source = MadeUp(servers, tools)
    bench = Bench(source)
    group, spec = source.names[0], next(iter(source.tools().values()))
    name, given = spec.name.partition(".")[2], {"query": "x"}
    told: dict[str, float] = {}
    async with bench.client(Expose.FLAT) as client:
        if await _listed(client) != servers * tools:
            raise BenchError("the flat list is not complete")
        told["tools/list, flat"] = await _times(lambda: _listed(client), repeats)
        flat = f"{group}__{name}"
        told["a call, flat"] = await _times(lambda: client.call_tool(flat, given), repeats)
    async with bench.client(Expose.MODULAR) as client:
        if await _listed(client) != 2:
            raise BenchError("the modular list is not two tools")
        told["tools/list, modular"] = await _times(lambda: _listed(client), repeats)
        told["get-modular-tools"] = await _times(
            lambda: client.call_tool("get-modular-tools", {"group": group}), repeats
        )
        arguments = {"group": group, "name": name, "args": given}
        if (await client.call_tool("call-modular-tool", arguments)).is_error:
            raise BenchError("a call was answered wrongly")
        told["a call, modular"] = await _times(lambda: client.call_tool("call-modular-tool", arguments), repeats)
    return measured(bench.groups.of_now()), told


def _printed(sizes: Measured, times: Mapping[str, float]) -> None:
    print(f"{sizes.groups} servers, {sizes.tools} tools; Python {platform.python_version()}")
    print(f"{'what a model reads':<34}{'bytes':>12}{'tokens, estimated':>20}")
    rows = (
        ("tools/list, flat", sizes.flat),
        ("tools/list, modular", sizes.modular),
        ("one group, when it is wanted", sizes.largest),
        ("{{VCPAllTools}}", sizes.flat_text),
        ("{{VCPToolGroups}}", sizes.modular_text),
    )
    for label, size in rows:
        print(f"{label:<34}{size.bytes:>12,}{size.tokens:>20,}")
    print(f"{'request of an MCP client':<34}{'median, ms':>12}")
    for label, spent in times.items():
        print(f"{label:<34}{spent:>12.2f}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``python -m bench.tool_groups``."""
    parser = argparse.ArgumentParser(prog="python -m bench.tool_groups", description=__doc__)
    parser.add_argument("--servers", type=int, default=SERVERS)
    parser.add_argument("--tools", type=int, default=TOOLS, help="of each server")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args(arguments)
    found: list[tuple[Measured, dict[str, float]]] = []

    async def work() -> None:
        found.append(await figures(options.servers, options.tools, options.repeats))

    try:
        run(work())
    except BenchError as error:
        sys.exit(f"bench: {error}")
    ((sizes, times),) = found
    _printed(sizes, times)
    if options.json is not None:
        options.json.write_text(json.dumps({"sizes": sizes.told(), "ms": times}, ensure_ascii=False), "utf-8")


if __name__ == "__main__":
    main()
