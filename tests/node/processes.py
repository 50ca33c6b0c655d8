"""A main server and nodes as processes of their own, and a line between them that can fall silent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from app.demo.script import Answer, Received, say
from tests.program import VCP, environment
from tests.server import call_text, chat_body

KEY = "0123456789abcdef"
LONGEST = 40.0
POLL_SECONDS = 0.05


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine; several programs start in it, so it may take longer than others."""
    asyncio.run(asyncio.wait_for(main, 4 * LONGEST))


class Server:
    """``vcp serve`` in another process, and a client of it."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, session: aiohttp.ClientSession) -> None:
        self.process = process
        self.url = url
        self.session = session

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port is not None
        return port

    async def run_tool(self, tool: str, /, **fields: str) -> tuple[int, str]:
        """Status and text of the answer to a person's call."""
        block = call_text(tool, **fields).encode()
        plain = {"Content-Type": "text/plain"}
        async with self.session.post("/v1/human/tool", data=block, headers=plain) as response:
            return response.status, await response.text()

    async def chat(self, text: str, **body: Any) -> str:
        """The whole answer to a chat."""
        system = body.pop("system", "none")
        asked = chat_body({"role": "system", "content": system}, text, **body)
        async with self.session.post("/v1/chat/completions", json=asked) as response:
            assert response.status == 200
            return await response.text()

    async def nodes(self) -> dict[str, list[str]]:
        """The tools of each connected node."""
        async with self.session.get("/v1/nodes") as response:
            return {node["name"]: node["tools"] for node in (await response.json())["nodes"]}


def calls_what_it_is_told(received: Received) -> Answer:
    """A model that writes down the call which its user writes, and else says that it is done."""
    text = received.json["messages"][-1]["content"]
    asked = isinstance(text, str) and text.startswith("<<<[TOOL_REQUEST]>>>")
    return say(text if asked else "done", sizes=(40,))


@asynccontextmanager
async def server_process(home: Path, upstream: str, *config: str) -> AsyncIterator[Server]:
    """The server in its home; killed with the block."""
    configured(home, f"API_URL={upstream}", "API_Key=any", f"Key={KEY}", *config)
    with (home.parent / "server.log").open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *VCP,
            *("serve", "--home", str(home), "--port", "0"),
            env=environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    try:
        assert process.stdout is not None
        printed = ""
        async with asyncio.timeout(LONGEST):
            while (found := re.search(r"http://127\.0\.0\.1:\d+", printed)) is None or "curl " not in printed:
                line = await process.stdout.readline()
                assert line, f"it ended: {printed} {(home.parent / 'server.log').read_text(encoding='utf-8')}"
                printed += line.decode()
        headers = {"Authorization": f"Bearer {KEY}"}
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(found[0], headers=headers, connector=connector) as session:
            yield Server(process, found[0], session)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def configured(home: Path, *config: str) -> Path:
    """A home with these settings."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.env").write_text("\n".join((*config, "ShutdownSeconds=0.2", "")), encoding="utf-8")
    return home


async def until(true: Callable[[], Any]) -> Any:
    """Ask until the answer is yes; coroutines are waited for."""
    async with asyncio.timeout(LONGEST):
        while True:
            answer = true()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return answer
            await asyncio.sleep(POLL_SECONDS)


class Relay:
    """What carries bytes between a node and its server; while ``silent`` it keeps lines open and loses what is sent."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lines: set[asyncio.Task[None]] = set()
        self.url = ""
        self.accepted = 0
        self.silent = asyncio.Event()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        lost = self.silent.is_set()

        async def one_way(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            nonlocal lost
            with suppress(ConnectionError):
                while data := await source.read(65536):
                    lost = lost or self.silent.is_set()  # a line that lost something is never whole again
                    if not lost:
                        sink.write(data)
                        await sink.drain()
            if not lost:
                sink.close()

        ways = [asyncio.create_task(one_way(*way)) for way in ((reader, far_writer), (far_reader, writer))]
        self._lines.update(ways)
        try:
            await asyncio.wait(ways)
        finally:
            self._lines.difference_update(ways)
            for sink in (writer, far_writer):
                sink.close()

    def end(self) -> Iterable[asyncio.Task[None]]:
        for line in (ended := set(self._lines)):
            line.cancel()
        return ended


@asynccontextmanager
async def relay(port: int) -> AsyncIterator[Relay]:
    """A relay to a port of this machine."""
    one = Relay(port)
    server = await asyncio.start_server(one.carry, "127.0.0.1", 0)
    one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield one
    finally:
        server.close()
        if ended := one.end():
            await asyncio.wait(ended)
        await server.wait_closed()
