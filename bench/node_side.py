"""The far side of ``bench.node_calls``: a node with a tool that does nothing, and a bare echo, in one process."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from functools import partial
from pathlib import Path

from websockets.asyncio.client import connect

from app.cli.node import as_node
from app.cli.options import NoModel
from app.config.home_folders import make_home
from app.config.snapshot import load
from app.node.main_server import main_server
from app.node.node import Node, NodeIdentity
from app.node.pauses import Pauses
from app.services import Services
from app.web.app import create_app
from app.web.server import serve
from bench.child import run
from bench.logs import be_like_a_server

KEY = "bench-key"
TOOL = "BenchNoop"
MANIFEST = {
    "name": TOOL,
    "displayName": TOOL,
    "pluginType": "hybridservice",
    "entryPoint": {"script": "noop.py"},
    "communication": {"protocol": "direct", "timeout": 30000},
    "capabilities": {"invocationCommands": [{"command": "noop", "description": "Does nothing."}]},
}
SOURCE = """
class Noop:
    async def call(self, call, context):
        return {"ok": True}


def create(context):
    return Noop()
"""


def make_node_home(home: Path) -> None:
    """A home whose only plugin does nothing."""
    make_home(home)
    folder = home / "Plugin" / TOOL
    folder.mkdir(parents=True)
    (folder / "plugin-manifest.json").write_text(json.dumps(MANIFEST), encoding="utf-8")
    (folder / "noop.py").write_text(SOURCE, encoding="utf-8")
    lines = ("Key=node-key", "RunStaticPlugins=false", "LiveReload=false")
    (home / "config.env").write_text("\n".join(lines), encoding="utf-8")


async def answer(address: str) -> None:
    """The bare echo: parse, answer with the same id."""
    async with connect(address, proxy=None, compression=None, max_size=None) as connection:
        async for text in connection:
            asked = json.loads(text)["data"]
            data = {"requestId": asked["requestId"], "status": "success", "result": {"ok": True}}
            await connection.send(json.dumps({"type": "tool_result", "data": data}))


async def serve_node(home: Path, url: str) -> None:
    """What ``vcp node`` runs."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    config = as_node(load(home, environ))
    be_like_a_server(home, config)
    services = Services(config, "node-key", resolver=NoModel())
    async with serve(create_app(services)) as own:
        services.served_at(own)
        identity = NodeIdentity("bench", main_server(url), lambda: KEY)
        node = Node(services, identity, Pauses(random.random), partial(print, file=sys.stderr), time.monotonic)
        await node.run(asyncio.Event())


async def main() -> None:
    home, url, echo = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    await asyncio.gather(serve_node(home, url), answer(echo))


if __name__ == "__main__":
    run(main())
