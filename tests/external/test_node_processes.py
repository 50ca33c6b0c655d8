"""``vcp serve`` and ``vcp node`` as real processes: killed, cut off, come back, at work for each other."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from app.demo.scripted import ScriptedUpstream
from tests.cli.commands import PLUGIN_SLEEPER, command
from tests.node.processes import KEY, calls_what_it_is_told, configured, relay, run, server_process, until
from tests.node.test_forwards import LATER
from tests.node.test_program import Process, node_process
from tests.node.test_texts import STATIC
from tests.plugins.watching import appears, vanishes
from tests.server import call_text, write_plugin

pytestmark = pytest.mark.external  # it takes as long as ten others together

CALLS = 500

MEETING = f"""
import asyncio

class Plugin:
    def __init__(self):
        self.here, self.all_here = 0, asyncio.Event()

    async def call(self, call, context):
        self.here += 1
        if self.here == {CALLS}:
            self.all_here.set()
        await self.all_here.wait()
        return {{"number": call.arguments["number"]}}

def create(context):
    return Plugin()
"""
"""A plugin inside a node that answers nobody before all calls are there."""

INSIDE = {
    "pluginType": "hybridservice",
    "entryPoint": {"type": "python", "script": "main.py"},
    "communication": {"protocol": "direct", "timeout": 20_000},
}

WAITS = """
import json, os, sys, time
sys.stdin.read()
open("begun.tmp", "w").close()
os.rename("begun.tmp", "begun")
for _ in range(2000):
    if os.path.exists("go"):
        break
    time.sleep(0.01)
print(json.dumps({"status": "success", "result": os.path.basename(os.path.dirname(os.path.dirname(os.getcwd())))}))
"""
"""A plugin that says on which node it ran, when it is allowed to."""

DIGEST = """
import base64, hashlib, json, sys
arguments = json.loads(sys.stdin.read())
if "image_url" in arguments:
    print(json.dumps({"status": "error", "code": "FILE_NOT_FOUND_LOCALLY", "error": "no such file",
                      "fileUrl": arguments["image_url"]}))
else:
    data = base64.b64decode(arguments["image_base64"].partition(",")[2])
    print(json.dumps({"status": "success", "result": hashlib.sha256(data).hexdigest()}))
"""
"""A plugin that lacks a file and tells its digest when it gets it."""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_500_calls_at_once_and_kill_9_of_a_node_in_a_call(tmp_path: Path) -> None:
    """B32: the calls of a killed node fail at once, or go on at the other one where the manifest allows it."""
    homes = {name: configured(tmp_path / name, "PluginMaxRunning=1000") for name in ("a", "b")}
    for home in homes.values():
        write_plugin(home, "Again", WAITS, idempotent=True)
        write_plugin(home, "Careful", WAITS)
    write_plugin(homes["a"], "Meeting", MEETING, **INSIDE)

    def begun(tool: str) -> str:
        """The node on which a call of a tool runs."""
        return next((name for name, home in homes.items() if (home / "Plugin" / tool / "begun").exists()), "")

    async def test() -> None:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(server_process(tmp_path / "server", "http://127.0.0.1:9"))

            async def join(name: str) -> Process:
                words = ("--name", name, "--url", server.url)
                return await stack.enter_async_context(node_process(homes[name], *words, environ={"VCP_KEY": KEY}))

            async def server_has(*names: str) -> bool:
                return set(await server.nodes()) == set(names)

            nodes = {name: await join(name) for name in homes}
            await until(lambda: server_has("a", "b"))

            async def kill(name: str) -> None:
                nodes[name].process.kill()
                await nodes[name].process.wait()

            answers = await asyncio.gather(*(server.run_tool("Meeting", number=str(n)) for n in range(CALLS)))
            assert [json.loads(text)["number"] for _, text in answers] == [str(n) for n in range(CALLS)]

            calling = asyncio.create_task(server.run_tool("Again"))
            first = await until(lambda: begun("Again"))
            (homes[first] / "Plugin" / "Again" / "begun").unlink()
            await kill(first)
            second = await until(lambda: begun("Again"))
            for home in homes.values():
                (home / "Plugin" / "Again" / "go").touch()
            assert first != second
            assert second in (await calling)[1], "it was done by the other one"

            nodes[first] = await join(first)
            await until(lambda: server_has("a", "b"))
            calling = asyncio.create_task(server.run_tool("Careful"))
            first = await until(lambda: begun("Careful"))
            await kill(first)
            status, text = await calling
            assert status == 500
            assert "may have been carried out" in text
            second = "b" if first == "a" else "a"
            assert not (homes[second] / "Plugin" / "Careful" / "begun").exists(), "it was not repeated"
            await until(lambda: server_has(second))
            for home in homes.values():
                (home / "Plugin" / "Careful" / "go").touch()

    run(test())


def test_a_silent_line_a_late_result_a_file_in_pieces_and_a_key_that_is_taken_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P81, P82, 5.9, D60, D62: what a node brings is there again after its line was lost without a word."""
    home, main, shared = tmp_path / "node", tmp_path / "server", tmp_path / "far away"
    configured(home, "SocketPingSeconds=0.4", f"NodeFileRoots='{shared}'")
    sleeper = write_plugin(home, "Sleeper", PLUGIN_SLEEPER)
    later = write_plugin(home, "Later", LATER, pluginType="asynchronous")
    weather = write_plugin(home, "Weather", "print(open('now').read())", **STATIC)
    (weather / "now").write_text("dry")
    write_plugin(main, "Digest", DIGEST)
    shared.mkdir()
    picture = os.urandom(20 * 1024 * 1024)
    (shared / "picture.png").write_bytes(picture)
    ended = command(capsys, "keys", "node", "--home", main, "shed")
    environ = {"VCP_KEY": ended.out.strip()}

    async def test() -> None:
        async with (
            ScriptedUpstream(calls_what_it_is_told) as upstream,
            server_process(main, upstream.base_url, "SocketPingSeconds=0.4", "RunStaticPlugins=false") as server,
            relay(server.port) as line,
            node_process(home, "--url", line.url, environ=environ) as node,
        ):

            def told() -> str:
                return json.dumps(upstream.bodies[-1]["messages"], ensure_ascii=False)

            async def shown(placeholder: str, text: str) -> bool:
                await server.chat("look", system=placeholder)
                return text in told()

            async def has_tools() -> bool:
                return (await server.nodes()).get("shed") == ["Later", "Sleeper"]

            async def file_is(data: bytes) -> bool:
                await server.chat(call_text("Digest", image_url=f"file://{shared}/picture.png".replace(" ", "%20")))
                return digest(data) in told()

            async def node_is_gone() -> bool:
                return not await server.nodes()

            await until(has_tools)
            assert await file_is(picture), told()[-1000:]

            status, text = await server.run_tool("Later")
            assert (status, json.loads(text)["task_id"]) == (200, "t-1")
            await until(lambda: shown("{{ShedWeather}}", "dry"))

            chatting = asyncio.create_task(server.chat(call_text("Sleeper"), requestId="r-1"))
            await appears(sleeper / "pid")
            async with server.session.post("/v1/interrupt", json={"requestId": "r-1"}) as response:
                assert response.status == 200
            await vanishes(int((sleeper / "pid").read_text()))
            await chatting
            (sleeper / "pid").unlink()

            calling = asyncio.create_task(server.run_tool("Sleeper"))
            await appears(sleeper / "pid")
            line.silent.set()
            (later / "go").touch()
            status, text = await calling
            assert status == 500
            assert "may have been carried out" in text
            assert not await shown("{{ShedWeather}}", "dry"), "gone with its node"
            (shared / "picture.png").write_bytes(b"another")
            line.silent.clear()
            await until(has_tools)
            assert line.accepted == 2
            await until(lambda: shown("{{VCP_ASYNC_RESULT::Later::t-1}}", "done"))
            await until(lambda: shown("{{ShedWeather}}", "dry"))
            await until(lambda: file_is(b"another"))

            assert command(capsys, "keys", "node", "--home", main, "shed", "--revoke").code == 0
            await until(node_is_gone)
            await node.prints("401")
            assert await node.stop(signal.SIGTERM) == 0
            await vanishes(int((sleeper / "pid").read_text()))  # it went on: how it ends is its own affair

    run(test())
