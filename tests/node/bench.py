"""A scripted main server made with the ``websockets`` library, and nodes inside the test that connect to it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from app.cli.node import as_node
from app.cli.options import NoModel
from app.config.home_folders import make_home
from app.config.snapshot import load
from app.node.main_server import main_server
from app.node.node import Node, NodeIdentity
from app.node.pauses import Pauses
from app.reload.watcher import Pace
from app.services import Services
from app.web.app import create_app
from app.web.server import serve as serve_app
from tests.waiting import until as until

NODE_KEY = "node-key"
SECONDS = 60
"""A wait that takes longer hangs."""


class Link:
    """The main server's end of one connection."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.path = connection.request.path if connection.request else ""
        self.headers = connection.request.headers if connection.request else {}

    async def send(self, kind: str, data: Any) -> None:
        await self.connection.send(json.dumps({"type": kind, "data": data}))

    async def receive(self, kind: str = "") -> Any:
        """The data of the next message, or of the next of this type."""
        async with asyncio.timeout(SECONDS):
            while True:
                message = json.loads(await self.connection.recv())
                assert message.keys() == {"type", "data"}
                if kind in ("", message["type"]):
                    return message["data"]

    async def execute(self, request_id: str, tool: str, /, **arguments: Any) -> None:
        data = {"requestId": request_id, "toolName": tool, "toolArgs": arguments}
        await self.send("execute_tool", data)

    async def call(self, request_id: str, tool: str, /, **arguments: Any) -> Any:
        """Ask for a call and wait for its answer."""
        await self.execute(request_id, tool, **arguments)
        answer = await self.receive("tool_result")
        assert answer["requestId"] == request_id
        return answer


class MainEnd:
    """A main server; ``joined`` gives the connections in the order in which they come.

    ``status`` refuses the next handshakes with it, ``hangs_up`` ends connections right after the handshake.
    """

    def __init__(self) -> None:
        self.url = ""
        self.status: int | None = None
        self.location = ""
        self.hangs_up = False
        self.tries = 0
        self._joined: asyncio.Queue[Link] = asyncio.Queue()

    async def joined(self) -> Link:
        async with asyncio.timeout(SECONDS):
            return await self._joined.get()

    async def introduced(self) -> tuple[Link, Any]:
        """The next connection, after its introduction; with what it registered."""
        link = await self.joined()
        registered = await link.receive("register_tools")
        await link.receive("report_ip")
        return link, registered

    def check(self, connection: ServerConnection, request: Request) -> Response | None:
        self.tries += 1
        if self.status is None:
            return None
        response = connection.respond(HTTPStatus(self.status), "no\n")
        if self.location:
            response.headers["Location"] = self.location
        return response

    async def serve(self, connection: ServerConnection) -> None:
        if self.hangs_up:
            return
        self._joined.put_nowait(Link(connection))
        await connection.wait_closed()


@asynccontextmanager
async def main_end(**options: Any) -> AsyncIterator[MainEnd]:
    end = MainEnd()
    async with serve(
        end.serve, "127.0.0.1", 0, process_request=end.check, max_size=None, close_timeout=1, **options
    ) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        end.url = f"ws://127.0.0.1:{port}"
        yield end


@dataclass(slots=True)
class RunningNode:
    """A node that runs; ``told`` is what a person reads of it."""

    node: Node
    services: Services
    told: list[str]
    leaving: asyncio.Event
    work: asyncio.Task[None]

    async def left(self) -> None:
        """Ask it to end and wait until it has."""
        self.services.stopping.begin(self.services.settings.shutdown_seconds)
        self.leaving.set()
        async with asyncio.timeout(SECONDS):
            await asyncio.shield(self.work)


@asynccontextmanager
async def running_node(
    home: Path,
    url: str,
    *,
    config: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
    pauses: Pauses | None = None,
    pace: Pace | None = None,
    **identity: Any,
) -> AsyncIterator[RunningNode]:
    """A node of ``home`` for the main server at ``url``; it connects again after a hundredth of a second."""
    make_home(home)
    lines = ["Key=own-key", "RunStaticPlugins=false", "ShutdownSeconds=1", *config]
    (home / "config.env").write_text("\n".join(lines) + "\n", encoding="utf-8")
    process = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}

    def read() -> Any:
        return as_node(load(home, {**process, **(environ or {})}))

    services = Services(read(), "own-key", resolver=NoModel(), read_config=None if pace is None else read, pace=pace)
    told: list[str] = []
    who = NodeIdentity("shed", main_server(url), lambda: NODE_KEY)
    node = Node(
        services,
        replace(who, **identity),
        pauses or Pauses(lambda: 0.5, first=0.01, longest=0.01, refused=0.01),
        told.append,
        asyncio.get_running_loop().time,
        first_texts_seconds=0.01,
        texts_seconds=0.01,
    )
    leaving = asyncio.Event()
    async with serve_app(create_app(services)) as address:
        services.served_at(address)
        work = asyncio.create_task(node.run(leaving))
        running = RunningNode(node, services, told, leaving, work)
        try:
            yield running
        finally:
            if not work.done():
                services.stopping.begin(0)
                leaving.set()
                await work
