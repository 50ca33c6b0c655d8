"""What the soak connects over WebSockets: far nodes that are killed, readers, tool clients, people who approve.

Nodes are real ``vcp node`` processes; two have the same tools, so one of them may be killed at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from bench.child import lines_until, started, stop
from bench.conversations import Client, Conversation, WrongAnswerError
from bench.processes import offspring
from bench.workshop import INSIDE, INSIDE_PLUGIN, KEEPER, PROCESS, human_tool, lines_of, unique_name, write_plugin

NODES = ("north", "south")
READERS = 20
"""Clients that read the log all the time."""

CALLERS = 6
"""Clients that call tools of nodes all the time while nodes are killed."""

READY_SECONDS = 30.0
REST_SECONDS = 4.0
"""Between two kills of nodes."""

FILE_BYTES = 300_000
CHANGE_SECONDS = 6.0
"""A file that was fetched is taken as the same for five seconds."""

LOST = ("may have been carried out", "is not connected")
"""What the server says of a call whose node was killed."""

_DIGEST = """
import base64, hashlib, json, sys
arguments = json.loads(sys.stdin.read())
if "image_url" in arguments:
    print(json.dumps({"status": "error", "code": "FILE_NOT_FOUND_LOCALLY", "error": "no such file",
                      "fileUrl": arguments["image_url"]}))
else:
    data = base64.b64decode(arguments["image_base64"].partition(",")[2])
    print(json.dumps({"status": "success", "result": hashlib.sha256(data).hexdigest()}))
"""

_APPROVALS = {"enabled": True, "timeoutMinutes": 1, "approvalList": ["SoakAsk"]}


class Outposts:
    """Everything of one soak that is connected to its server; ``fault`` is told what went wrong.

    ``kills`` counts the nodes that were killed.
    """

    def __init__(self, home: Path, folder: Path, fault: Callable[[str], None]) -> None:
        self._homes = {name: folder / name for name in NODES}
        self._shared = folder / "shared"
        self._shared.mkdir(parents=True)
        self._fault = fault
        self._mark = ("VCP_SOAK_NODE", secrets.token_hex(8))
        self._nodes: dict[str, asyncio.subprocess.Process] = {}
        self._stack = contextlib.AsyncExitStack()
        self._log = folder / "nodes.log"
        self._ending = asyncio.Event()
        self._joined = 0
        self.done: set[str] = set()
        self.kills = 0
        self.heard: Counter[str] = Counter()
        for far in self._homes.values():
            write_plugin(far, "SoakFar", "plugin.py", INSIDE, {**INSIDE_PLUGIN, "idempotent": True})
            write_plugin(far, "SoakFarKeeper", "main.py", KEEPER, {"pluginType": "synchronous", **PROCESS})
            lines = (f"NodeFileRoots={self._shared}", "ShutdownSeconds=1", "")
            (far / "config.env").write_text("\n".join(lines), encoding="utf-8")
        write_plugin(home, "SoakDigest", "main.py", _DIGEST, {"pluginType": "synchronous", **PROCESS})
        write_plugin(home, "SoakAsk", "plugin.py", INSIDE, INSIDE_PLUGIN)
        (home / "toolApprovalConfig.json").write_text(json.dumps(_APPROVALS), encoding="utf-8")

    # ------------------------------------------------------------------ who is connected

    @contextlib.asynccontextmanager
    async def manned(self, address: str, key: str, nodes: Sequence[str] = NODES) -> AsyncIterator[None]:
        """Nodes, readers, a tool client and somebody who approves are connected, until the block ends."""
        self._ending.clear()
        self._joined = 0
        async with contextlib.AsyncExitStack() as self._stack:
            session = await self._stack.enter_async_context(aiohttp.ClientSession())
            client = Client(session, address, key)
            await asyncio.gather(*(self._start(name, client) for name in nodes))
            reading = [self._keep(client, "/VCPlog", self._read) for _ in range(READERS)]
            others = (self._keep(client, "/VCPlog", self._approve), self._keep(client, "/ws/tools", self._offer))
            tasks = [asyncio.create_task(work) for work in (*reading, *others)]
            try:
                await self._until(lambda: self._all_here(client, nodes, len(tasks)), "the outposts")
                yield
            finally:
                self.leave()
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                for task in tasks:
                    if not task.cancelled() and (error := task.exception()) is not None:
                        self._fault(f"an outpost failed: {type(error).__name__}: {error}")
        self._nodes.clear()
        if left := [pid for pid in offspring(os.getpid(), "=".join(self._mark)) if self._is_marked(pid)]:
            self._fault(f"{len(left)} processes outlived their nodes")

    def leave(self) -> None:
        """From now on connections may end: the server is stopped or killed."""
        self._ending.set()

    def _is_marked(self, pid: int) -> bool:
        with contextlib.suppress(OSError):
            return "=".join(self._mark).encode() in Path(f"/proc/{pid}/environ").read_bytes()
        return False

    async def _start(self, name: str, client: Client) -> None:
        variable, value = self._mark
        node = await self._stack.enter_async_context(
            started(
                *("-m", "app.cli", "node", "--home", str(self._homes[name]), "--url", client.address, "--name", name),
                environ={"VCP_KEY": client.key, variable: value},
                stderr=self._log,
            )
        )
        await lines_until(node, "vcp node", lambda text: "connected to" in text)
        self._nodes[name] = node

    async def _all_here(self, client: Client, nodes: Sequence[str], clients: int) -> bool:
        return self._joined == clients and await self._is_ready(client, nodes)

    async def _is_ready(self, client: Client, nodes: Sequence[str]) -> bool:
        async with client.session.get(client.address + "/v1/nodes", headers=client.headers) as response:
            tools = {node["name"]: node["tools"] for node in (await response.json())["nodes"]}
        return set(tools) == set(nodes) and all("SoakFarKeeper" in one for one in tools.values())

    async def _until(self, true: Callable[[], Awaitable[bool]], what: str) -> None:
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not await true():  # noqa: ASYNC110  only the server tells
                    await asyncio.sleep(0.1)
        except TimeoutError:
            self._fault(f"{what} did not get ready within {READY_SECONDS:g} s")

    async def _keep(
        self, client: Client, path: str, work: Callable[[aiohttp.ClientWebSocketResponse], Awaitable[None]]
    ) -> None:
        try:
            async with self._socket(client, path) as socket:
                self._joined += 1
                await work(socket)
                if not self._ending.is_set():
                    self._fault(f"a client of {path} was hung up on with {socket.close_code}")
        except (aiohttp.ClientError, OSError) as error:
            if not self._ending.is_set():
                self._fault(f"a client of {path} lost its server: {type(error).__name__}")

    def _socket(self, client: Client, path: str) -> Any:
        return client.session.ws_connect(f"{client.address}{path}/VCP_Key={client.key}", max_msg_size=0)

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            self.heard[json.loads(message.data)["type"]] += 1

    async def _approve(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Says yes to names that end with an even digit."""
        async for message in socket:
            told = json.loads(message.data)
            if told["type"] == "tool_approval_request":
                asked = told["data"]
                answer = {"requestId": asked["requestId"], "approved": _is_even(asked["args"]["name"])}
                await socket.send_json({"type": "tool_approval_response", "data": answer})

    async def _offer(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Brings a tool, and does its work."""
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        await socket.send_json({"type": "register_tool", "data": {"name": "soak_tool", "schema": schema}})
        async for message in socket:
            told = json.loads(message.data)
            if told["type"] == "execute_tool":
                run = told["data"]
                done = {"executionId": run["executionId"], "result": {"name": run["args"]["name"]}}
                await socket.send_json({"type": "tool_execution_completed", "data": done})

    # ------------------------------------------------------------------ what happens while there is load

    async def trouble(self, address: str, key: str, until: float, chance: random.Random) -> None:
        """Nodes are killed, a client does not read, a file changes, until the time has come."""
        async with aiohttp.ClientSession() as session:
            client = Client(session, address, key)
            pressing = (self._press(client, until, number) for number in range(CALLERS))
            others = (self._stick(client, until), self._change_file(client, until))
            await asyncio.gather(self._kill_nodes(client, until, chance), *pressing, *others)

    async def _press(self, client: Client, until: float, number: int) -> None:
        """Calls without a pause, so that a node which is killed has some."""
        while time.monotonic() < until:
            try:
                await (self.call_far_once if number % 2 else self.call_far)(client, number)
                self.heard["far call"] += 1
            except (WrongAnswerError, aiohttp.ClientError, TimeoutError, OSError) as error:
                self._fault(f"far call: {type(error).__name__}: {error}")

    async def _kill_nodes(self, client: Client, until: float, chance: random.Random) -> None:
        while time.monotonic() + REST_SECONDS < until:
            await asyncio.sleep(REST_SECONDS * chance.uniform(0.5, 1))
            name = chance.choice(NODES)
            self._nodes[name].send_signal(signal.SIGKILL)
            await stop(self._nodes[name])
            self.kills += 1
            await self._start(name, client)
            await self._until(lambda: self._is_ready(client, NODES), f"node {name}")

    async def _stick(self, client: Client, until: float) -> None:
        """A reader that takes nothing; the server gives it up when too much waits, and then it comes again."""
        reader_limit = 1024
        port = int(client.address.rpartition(":")[2])
        while time.monotonic() < until:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=reader_limit)
            writer.write(
                f"GET /VCPlog/VCP_Key={client.key} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\n\r\n".encode()
            )
            if not (await reader.readline()).startswith(b"HTTP/1.1 101"):
                self._fault("a reader that is slow was not let in")
            while time.monotonic() < until and not writer.transport.is_closing():  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.2)
            writer.transport.abort()

    async def _change_file(self, client: Client, until: float) -> None:
        """A file of a node changes; who asks later than the time for which it is taken as the same gets the new one."""
        path = self._shared / "changing.bin"
        while time.monotonic() + CHANGE_SECONDS < until:
            data = os.urandom(FILE_BYTES)
            await asyncio.to_thread(path.write_bytes, data)
            status, said = await human_tool(client, "SoakDigest", image_url=f"file://{path}")
            if _digest(data) in said:
                self.heard["changed file"] += 1
            elif not self.kills or "fetch failed" not in said:  # a fetch that failed is not tried again for a while
                self._fault(f"a changed file got status {status}: {said[:200]}")
            await asyncio.sleep(CHANGE_SECONDS)

    # ------------------------------------------------------------------ what clients do

    async def call_far(self, client: Client, number: int) -> None:
        """A tool on a node that may be repeated: it always works, whichever node is killed."""
        name = unique_name("far", number)
        status, said = await human_tool(client, "SoakFar", name=name)
        _expect(status == 200 and name in said, f"SoakFar got status {status}: {said[:200]}")

    async def call_far_once(self, client: Client, number: int) -> None:
        """A tool on a node that may not: it works, or the server says that it may have been carried out."""
        name = unique_name("once", number)
        status, said = await human_tool(client, "SoakFarKeeper", name=name)
        if status == 200 and name in said:
            self.done.add(name)
            return
        self.heard["far call that was lost"] += 1
        _expect(any(words in said for words in LOST), f"SoakFarKeeper got status {status}: {said[:200]}")

    async def fetch_file(self, client: Client, number: int) -> None:
        """A tool here gets a file that lies on a node."""
        path = self._shared / f"{unique_name('file', number)}.bin"
        data = os.urandom(FILE_BYTES)
        await asyncio.to_thread(path.write_bytes, data)
        killed = self.kills
        status, said = await human_tool(client, "SoakDigest", image_url=f"file://{path}")
        await asyncio.to_thread(path.unlink)
        if killed == self.kills:
            _expect(_digest(data) in said, f"a file of a node got status {status}: {said[:200]}")

    async def call_tool_client(self, client: Client, number: int) -> None:
        """A tool of a tool client, called by a person."""
        name = unique_name("client", number)
        status, said = await human_tool(client, "soak_tool", name=name)
        _expect(status == 200 and name in said, f"soak_tool got status {status}: {said[:200]}")

    async def bring_a_tool(self, client: Client, number: int) -> None:
        """A tool client that comes, brings a tool, calls it and one of a node, and goes."""
        own = unique_name("tool", number)
        async with self._socket(client, "/ws/tools") as socket:
            await socket.send_json({"type": "register_tool", "data": {"name": own, "schema": {"type": "object"}}})
            for tool in (own, "SoakFar"):
                run = {"executionId": f"run-{own}-{tool}", "name": tool, "args": {"name": own}}
                await socket.send_json({"type": "execute_tool", "data": run})
            ended = set()
            async for message in socket:
                told = json.loads(message.data)
                data = told.get("data", {})
                if told["type"] == "execute_tool" and data["name"] == own:
                    done = {"executionId": data["executionId"], "result": data["args"]}
                    await socket.send_json({"type": "tool_execution_completed", "data": done})
                _expect(told["type"] != "error", f"a tool client got an error: {message.data[:200]}")
                if told["type"].startswith("tool_execution_") and own in data["executionId"]:
                    _expect(told["type"] != "tool_execution_failed", f"a run failed: {message.data[:200]}")
                    if told["type"] == "tool_execution_completed":
                        _expect(own in json.dumps(data["result"]), f"a wrong result: {message.data[:200]}")
                        ended.add(data["executionId"])
                if len(ended) == 2:
                    return
            _expect(False, f"a tool client was hung up on with {socket.close_code}")

    async def ask(self, client: Client, number: int) -> None:
        """A call that somebody approves, or not."""
        name = f"{unique_name('ask', number)}-{number}"
        status, said = await human_tool(client, "SoakAsk", name=name)
        _expect((status == 200 and name in said) == _is_even(name), f"SoakAsk got status {status}: {said[:200]}")

    async def listen(self, client: Client, number: int) -> None:
        """A device that comes and goes; what it missed is kept for it."""
        path = f"{client.address}/VCPlog/VCP_Key={client.key}?deviceName=soak-{number % 8}"
        async with client.session.ws_connect(path, max_msg_size=0) as socket:
            told = await socket.receive_json()
            _expect(told["type"] == "connection_ack", f"a device was told {told} first")

    @property
    def conversations(self) -> tuple[Conversation, ...]:
        """Everything that clients do here."""
        far = (self.call_far, self.call_far_once, self.fetch_file)
        return (*far, self.call_tool_client, self.bring_a_tool, self.ask, self.listen)

    # ------------------------------------------------------------------ what must be true in the end

    @property
    def counts(self) -> str:
        """How much of everything there was."""
        told = ", ".join(f"{count} {name}" for name, count in sorted(self.heard.items()))
        return f"{len(self.done)} far calls acknowledged, {self.kills} nodes killed; heard {told}"

    def faults(self) -> list[str]:
        """Calls of nodes that were made twice, or acknowledged and not made."""
        runs = Counter(line for home in self._homes.values() for line in lines_of(home / "effects.log"))
        faults = [f"{name} ran {count} times on nodes" for name, count in runs.items() if count > 1]
        return [*faults, *(f"{name} was acknowledged and did not run" for name in self.done if not runs[name])]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _is_even(name: str) -> bool:
    return int(name[-1]) % 2 == 0


def _expect(right: bool, fault: str) -> None:
    if not right:
        raise WrongAnswerError(fault)
