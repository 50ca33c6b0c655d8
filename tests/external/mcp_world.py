"""A server of ours in front of MCP servers of others, and the clients that use it."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from app.demo.script import Answer, Received, native_call, say
from app.demo.scripted import ScriptedUpstream
from tests.program import LONGEST, Program, environment, started

EXTERNAL = Path(__file__).parent
MODULES = EXTERNAL / "node_modules"
NODE = str(MODULES / ".bin" / "node")
EVERYTHING = str(MODULES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js")
FILES = str(MODULES / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js")
MEMORY = str(MODULES / "@modelcontextprotocol" / "server-memory" / "dist" / "index.js")
OLD_PYTHON = str(EXTERNAL / ".peer" / "bin" / "python")
OLD_SERVER = str(EXTERNAL / "old_server.py")
ERAS = ("legacy", "2026-07-28")

KEY = "external-key"
CONFIG = f"""
Key={KEY}
NativeTools=on
NativeToolsAllow=everything.get-sum
MCPSamplingModel=m
MCPQuestionSeconds=20
MCPConnectSeconds=50
RunStaticPlugins=false
ShutdownSeconds=3
"""


def until(reached: Callable[[], object], what: str = "it") -> Any:
    """Look until it is so; what it then is."""
    end = time.monotonic() + LONGEST
    while not (found := reached()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)
    return found


def lives(pid: int) -> bool:
    """Whether there is such a process, other than as a zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def begun(port: int, *words: str) -> subprocess.Popen[bytes]:
    """A server of others that is going to listen on a port."""
    return subprocess.Popen(
        words,
        env=environment({"PORT": str(port)}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def model(request: Received) -> Answer:
    """Calls what the user's last message says, in marked text or natively; then it has nothing more to say."""
    body: Any = request.json
    last = body["messages"][-1]
    content = str(last.get("content"))
    if last["role"] == "user" and content.startswith("<<<[TOOL_REQUEST]>>>"):
        return say(content)
    if last["role"] == "user" and content.startswith("NATIVE "):
        name, _, arguments = content.removeprefix("NATIVE ").partition(" ")
        offered = [one["function"]["name"] for one in body.get("tools", ())]
        chosen = next(one for one in offered if name in one)
        return say("", finish="tool_calls", tool_calls=[native_call("c1", chosen, json.loads(arguments))])
    return say("a word of the model")


@contextmanager
def model_api() -> Iterator[ScriptedUpstream]:
    """A model API in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    upstream = ScriptedUpstream(model)
    try:
        asyncio.run_coroutine_threadsafe(upstream.__aenter__(), loop).result(LONGEST)
        yield upstream
    finally:
        asyncio.run_coroutine_threadsafe(upstream.__aexit__(None, None, None), loop).result(LONGEST)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@dataclass(slots=True)
class World:
    """``http`` asks our server; ``upstream`` is its model API, ``home`` its home."""

    program: Program
    http: httpx.Client
    upstream: ScriptedUpstream
    home: Path
    ports: dict[str, int]
    others: dict[str, subprocess.Popen[bytes]]

    @property
    def url(self) -> str:
        return self.program.base_url.removesuffix("/v1")

    def server(self, name: str) -> Any:
        """What our server tells of one of the others."""
        listed = self.http.get("/v1/mcp/servers").json()["servers"]
        return next(one for one in listed if one["name"] == name)

    def tool(self, name: str, /, **arguments: Any) -> httpx.Response:
        """Call a tool at the door of OpenAPI."""
        return self.http.post(f"/tools/{name}", json=arguments)

    def human(self, block: str) -> Any:
        """Call a tool as a person does; what it says."""
        headers = {"Content-Type": "text/plain"}
        answer = self.http.post("/v1/human/tool", content=block.encode(), headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def chat(self, text: str) -> tuple[str, Any]:
        """A chat turn: what the model saw last, and the answer."""
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        answer = self.http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        last: Any = self.upstream.bodies[-1]
        return json.dumps(last["messages"][-1], ensure_ascii=False), answer.json()

    @asynccontextmanager
    async def client(self, era: str, **options: Any) -> AsyncIterator[Client]:
        """The SDK's client at our ``/mcp``."""
        headers = {"Authorization": f"Bearer {KEY}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=LONGEST) as http,
            Client(streamable_http_client(f"{self.url}/mcp", http_client=http), mode=era, **options) as client,
        ):
            yield client


def servers_of(home: Path, ports: Mapping[str, int]) -> dict[str, Any]:
    """The entries of all of the others."""
    return {
        "everything": {"command": NODE, "args": [EVERYTHING, "stdio"], "sampling": True, "roots": ["books"]},
        "web": {"url": f"http://127.0.0.1:{ports['web']}/mcp", "sampling": True},
        "sse": {"url": f"http://127.0.0.1:{ports['sse']}/sse"},
        "files": {"command": NODE, "args": [FILES], "roots": ["books"]},
        "memory": {
            "command": NODE,
            "args": [MEMORY],
            "env": {"MEMORY_FILE_PATH": str(home / "graph.jsonl")},
            "idleSeconds": 1,
        },
        "old": {"command": OLD_PYTHON, "args": [OLD_SERVER, "stdio", str(home / "old.notes")]},
        "oldweb": {"url": f"http://127.0.0.1:{ports['oldweb']}/mcp"},
    }


def commands_of(home: Path) -> dict[str, tuple[str, ...]]:
    """Those that are started beside our server."""
    return {
        "web": (NODE, EVERYTHING, "streamableHttp"),
        "sse": (NODE, EVERYTHING, "sse"),
        "oldweb": (OLD_PYTHON, OLD_SERVER, "streamable-http", str(home / "oldweb.notes")),
    }


@contextmanager
def world(home: Path, *names: str) -> Iterator[World]:
    """Our server as a process of its own, before others (all, or these); all of it is gone afterwards."""
    (home / "books").mkdir()
    (home / "books" / "a.txt").write_text("in the book", encoding="utf-8")
    (home / "secret.txt").write_text("secret", encoding="utf-8")
    commands = {name: command for name, command in commands_of(home).items() if not names or name in names}
    ports = {name: free_port() for name in commands_of(home)}
    servers = {name: entry for name, entry in servers_of(home, ports).items() if not names or name in names}
    with ExitStack() as stack:
        others = {name: begun(ports[name], *command) for name, command in commands.items()}
        # Those of now: a test may start one anew.
        stack.callback(lambda: [(one.kill(), one.wait()) for one in others.values()])
        for name in commands:
            until(lambda port=ports[name]: answers(port), f"the port of {name}")
        upstream = stack.enter_context(model_api())
        (home / "mcp_servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        (home / "config.env").write_text(f"API_URL={upstream.base_url}\n{CONFIG}", encoding="utf-8")
        program = stack.enter_context(started("serve", "--port", "0", cwd=home, longest=5 * LONGEST))
        headers = {"Authorization": f"Bearer {KEY}"}
        base = program.base_url.removesuffix("/v1")
        http = stack.enter_context(httpx.Client(base_url=base, headers=headers, trust_env=False, timeout=LONGEST))
        made = World(program, http, upstream, home, ports, others)
        until(lambda: all(made.server(name)["tools"] for name in servers), "all servers")
        yield made
        if program.process.poll() is None:
            program.stop()


def children(pid: int) -> list[int]:
    """The processes that this one has started and that still live."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found
