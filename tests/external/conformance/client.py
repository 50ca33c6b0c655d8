"""The client under test of the official conformance tool: a real server of ours with the tool's server in its file.

The tool starts a command for each of its scenarios, which would load the whole program each time. So the command is
``forward.py``, and the scenarios are played here, in the process of the tests.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from mcp.shared.exceptions import MCPError

from app.errors import VcpError
from app.extend import CallContext, Door, Json, ToolCall
from app.mcp.client.oauth.errors import SignInError
from app.mcp.client.oauth.sign_ins import SignInNeeded
from app.mcp.client.server_entry import ServerEntry
from app.mcp.client.servers_file import ServerTable, read_servers
from app.mcp.client.status import ServerState
from tests.server import Running, running

NAME = "peer"
FORWARD = Path(__file__).with_name("forward.py")
METADATA_DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The tool takes this client for one that a metadata document describes."""

ECHO = "json_schema_echo"
"""Wants to see the schema of the other tool as we have got it."""

SIGN_INS = 4
"""So often the person of a scenario signs in, if asked; the tool counts how often it was."""

AT_ONCE = 12
TIMED = ("sse-retry",)
"""The tool measures how quick we are in these: nothing else is played meanwhile."""

PATIENCE = 120.0
MAX_WORDS = 64 * 1024
CONFIG = ("MCPConnectSeconds=60", "MCPCallSeconds=60", "MCPQuestionSeconds=60", "MCPSamplingModel=m")


class Person:
    """Whoever uses the server: signs in where that is wanted, and says yes to forms as they stand."""

    def __init__(self, server: Running, entry: ServerEntry) -> None:
        self._server = server
        self._trust = server.services.mcp.trust
        self._entry = entry
        self._known: SignInNeeded | None = None
        self.signed_in = 0

    async def let_in(self) -> bool:
        """Whether the server lets us in, perhaps after signing in, where the browser is an HTTP client."""
        servers = self._server.services.mcp.upstream_servers
        while self.signed_in < SIGN_INS:
            async with asyncio.timeout(PATIENCE):
                (state,) = servers.states()
                while state.state in (ServerState.IDLE, ServerState.STARTING):
                    await asyncio.sleep(0.02)
                    (state,) = servers.states()
            if state.state is not ServerState.SIGN_IN:
                return state.state is ServerState.READY
            await self.sign_in()
            servers.retry(NAME)
            with suppress(VcpError):
                await servers.tools_of(NAME)
        return False

    async def sign_in(self) -> None:
        """Take the address that the server shows by itself, else do as ``vcp mcp-check NAME --sign-in``.

        Raises SignInError.
        """
        self.signed_in += 1
        needed = self._trust.needed(NAME)
        if needed is not None and needed is not self._known:
            self._known = needed
            async with asyncio.timeout(PATIENCE):
                while not needed.url and not needed.error:
                    await asyncio.sleep(0.02)
                if needed.url:
                    await visit(needed.url)
                while needed.url:
                    await asyncio.sleep(0.02)
            if needed.error:
                raise SignInError(needed.error)
            return
        browsers: list[asyncio.Task[None]] = []
        try:
            await self._trust.sign_ins.sign_in(
                self._entry, lambda address: browsers.append(asyncio.create_task(visit(address)))
            )
        finally:
            await asyncio.gather(*browsers)

    async def say_yes(self) -> None:
        """Accept every form without filling in anything, as long as this is not cancelled."""
        while True:
            for one in self._server.services.approvals.pending():  # seen here: asking for it all the time costs much
                answer = {"approved": True, "content": {}}
                await self._server.client.post(f"/v1/approvals/{one.id}", json=answer)
            await asyncio.sleep(0.05)


async def visit(address: str) -> None:
    """A browser whose user agrees to everything."""
    async with httpx.AsyncClient(follow_redirects=True, trust_env=False, timeout=PATIENCE) as browser:
        await browser.get(address)


async def play(home: Path, url: str, scenario: str, context: Mapping[str, Any]) -> list[str]:
    """Do with the server at ``url`` what a user of ours would do; what went wrong."""
    entry: dict[str, Any] = {"type": "http", "url": url, "sampling": True, "roots": ["."], "oauth": {}}
    if "client_id" in context:
        entry["oauth"] = {"clientId": context["client_id"], "clientSecret": context.get("client_secret", "")}
    elif scenario == "auth/basic-cimd":
        entry["oauth"] = {"clientId": METADATA_DOCUMENT}
    table = written(home, {"mcpServers": {NAME: entry}})
    async with running(home, "http://127.0.0.1:9", config=CONFIG) as server:
        person = Person(server, table.entries[NAME])
        yes = asyncio.create_task(person.say_yes())
        try:
            return await _play(server, person, context)
        except SignInError as error:
            return [f"sign-in: {error.message}"]
        finally:
            yes.cancel()


def written(home: Path, file: dict[str, Any]) -> ServerTable:
    """Make a home with this file of servers."""
    home.mkdir()
    (home / "mcp_servers.json").write_text(json.dumps(file), encoding="utf-8")
    table, problems = read_servers(json.dumps(file).encode(), {})
    assert not problems, problems
    return table


async def _play(server: Running, person: Person, context: Mapping[str, Any]) -> list[str]:
    servers = server.services.mcp.upstream_servers
    if not await person.let_in():
        return [f"{state.state}: {state.error}" for state in servers.states()]
    tools = {tool["name"]: tool for tool in await servers.tools_of(NAME)}
    calls = context.get("toolCalls") or [
        {"name": name, "arguments": sample(tool.get("inputSchema", {}))} for name, tool in tools.items()
    ]
    if ECHO in tools:
        calls = [{"name": ECHO, "arguments": {"schema": next(iter(tools.values()))["inputSchema"]}}]
    faults = []
    for call in calls:
        while True:
            fault = await called(server, call["name"], call["arguments"])
            if not fault or person.signed_in >= SIGN_INS or server.services.mcp.trust.needed(NAME) is None:
                break
            await person.sign_in()
            await person.let_in()
        faults += [fault] if fault else []
    if await person.let_in():
        await shelves(server)
    return faults


async def called(server: Running, tool: str, arguments: Mapping[str, Json]) -> str:
    """Call a tool of the server through the router; what was wrong."""
    call = ToolCall("call", f"{NAME}.{tool}", dict(arguments))
    result = await server.services.router.call(call, CallContext("turn", Door.OPENAPI))
    return "" if result.ok else f"{tool}: {result.message}"


async def shelves(server: Running) -> None:
    """Read the first resource and the first prompt, where the server has some."""
    async with server.services.mcp.upstream_servers.client(NAME) as client:
        offered = client.server_capabilities
        with suppress(MCPError):
            if offered.resources is not None:
                for resource in (await client.list_resources()).resources[:1]:
                    await client.read_resource(resource.uri)
            if offered.prompts is not None:
                for prompt in (await client.list_prompts()).prompts[:1]:
                    await client.get_prompt(prompt.name)


def sample(schema: Mapping[str, Any]) -> dict[str, Json]:
    """Arguments that fit a simple schema."""
    values: dict[str, Json] = {"string": "test", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    properties = schema.get("properties", {})
    return {
        name: values.get(properties[name].get("type"), "test")
        for name in properties
        if isinstance(properties[name], dict)
    }


@asynccontextmanager
async def scenarios(folder: Path) -> AsyncIterator[tuple[str, list[str]]]:
    """Plays what ``forward.py`` hands on, while the block runs: the command for the tool, and what went wrong."""
    told: list[str] = []
    short = tempfile.mkdtemp(prefix="vcp-")  # names of sockets have to be short
    socket = f"{short}/s"
    places = asyncio.Semaphore(AT_ONCE)
    count = 0

    @asynccontextmanager
    async def place(needed: int) -> AsyncIterator[None]:
        async with AsyncExitStack() as held:
            for _ in range(needed):
                await held.enter_async_context(places)
            yield

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        home = folder / f"home{count}"
        words = json.loads(await reader.readline())
        try:
            async with place(AT_ONCE if words["scenario"] in TIMED else 1):
                faults = await play(home, words["url"], words["scenario"], json.loads(words["context"] or "{}"))
        except (AssertionError, OSError, VcpError, httpx.HTTPError, LookupError, ValueError) as error:
            faults = [f"{type(error).__name__}: {error}"]
        except asyncio.CancelledError:
            writer.close()
            raise
        told.extend(f"{words['scenario']}: {fault}" for fault in faults)
        writer.write(json.dumps(faults).encode() + b"\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve, socket, limit=MAX_WORDS)
    try:
        async with server:
            yield shlex.join([sys.executable, "-I", "-S", str(FORWARD), socket]), told
    finally:
        shutil.rmtree(short)
