"""A node and our own server together: tools, placeholders, background results, files, cancelling, a broken line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from app.extend import CallContext, Door, ToolCall
from app.services.far_nodes import node_files
from tests.cli.commands import PLUGIN_SLEEPER
from tests.node.bench import running_node, until
from tests.node.test_forwards import LATER
from tests.node.test_texts import STATIC
from tests.plugins.watching import appears, vanishes
from tests.server import ECHO, Running, run, running, write_plugin

UPSTREAM = "http://127.0.0.1:9"
CONTEXT = CallContext(turn_id="t", door=Door.HUMAN_TOOL)


def call(tool: str, **arguments: str) -> ToolCall:
    return ToolCall(id="c", tool=tool, arguments=arguments, texts=arguments)


async def offers(server: Running, tool: str) -> None:
    await until(lambda: server.services.router.find_spec(tool) is not None)


def test_tools_texts_and_background_results_of_a_node_are_there_on_the_server(tmp_path: Path) -> None:
    home = tmp_path / "node"
    write_plugin(home, "Echo", ECHO)
    folder = write_plugin(home, "Later", LATER, pluginType="asynchronous")
    write_plugin(home, "Weather", "print('dry')", **STATIC)

    async def test() -> None:
        async with (
            running(tmp_path / "server", UPSTREAM, config=["VCP_Key=k"]) as server,
            running_node(home, server.url, key=lambda: "k", config=["RunStaticPlugins=true"]) as node,
        ):
            await offers(server, "Echo")
            assert "SciCalculator" not in server.services.nodes.tools()
            for name in ("Echo", "shed#Echo"):
                result = await server.services.router.call(call(name, text="hi", maid="Nova"), CONTEXT)
                assert result.structured == {"original_plugin_output": "hi"}, result
            result = await server.services.router.call(call("Later"), CONTEXT)
            assert result.structured == {"task_id": "t-1"}
            (folder / "go").touch()
            stored = tmp_path / "server" / "VCPAsyncResults" / "Later-t-1.json"
            await until(stored.exists)
            assert json.loads(stored.read_text())["message"] == "done"
            await node.left()
            await until(lambda: server.services.router.find_spec("Echo") is None)

    run(test())


def test_the_text_of_a_static_plugin_that_is_gone_goes_from_the_server(tmp_path: Path) -> None:
    home = tmp_path / "node"
    folder = write_plugin(home, "Weather", "print('dry')", **STATIC)

    async def test() -> None:
        async with (
            running(tmp_path / "server", UPSTREAM, config=["VCP_Key=k"]) as server,
            running_node(home, server.url, key=lambda: "k", config=["RunStaticPlugins=true"]) as node,
        ):
            pattern = "ShedWeather"
            await until(lambda: pattern in server.services.nodes.placeholders.pattern.pattern)
            (folder / "plugin-manifest.json").rename(folder / "plugin-manifest.json.block")
            await node.services.reload()
            await until(lambda: pattern not in server.services.nodes.placeholders.pattern.pattern)

    run(test())


def test_a_cancelled_call_ends_its_process_on_the_node_and_a_lost_node_ends_its_calls(tmp_path: Path) -> None:
    home = tmp_path / "node"
    folder = write_plugin(home, "Sleeper", PLUGIN_SLEEPER)

    async def test() -> None:
        async with (
            running(tmp_path / "server", UPSTREAM, config=["VCP_Key=k"]) as server,
            running_node(home, server.url, key=lambda: "k", config=["ShutdownSeconds=0.1"]) as node,
        ):
            await offers(server, "Sleeper")
            calling = asyncio.create_task(server.services.router.call(call("Sleeper"), CONTEXT))
            await appears(folder / "pid")
            calling.cancel()
            await vanishes(int((folder / "pid").read_text()))
            (folder / "pid").unlink()
            calling = asyncio.create_task(server.services.router.call(call("Sleeper"), CONTEXT))
            await appears(folder / "pid")
            await node.left()
            assert not (await calling).ok

    run(test())


def test_a_file_of_the_node_comes_in_pieces(tmp_path: Path) -> None:
    data = bytes(range(256)) * 20_000  # five million bytes: more than a message and more than a piece
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "big.bin").write_bytes(data)
    write_plugin(tmp_path / "node", "Echo", ECHO)
    shared = [f"NodeFileRoots={tmp_path / 'shared'}", "NodeMaxFrameMB=1"]

    async def test() -> None:
        async with (
            running(tmp_path / "server", UPSTREAM, config=["VCP_Key=k"]) as server,
            running_node(tmp_path / "node", server.url, key=lambda: "k", config=shared),
        ):
            await offers(server, "Echo")
            services = server.services
            fetcher = node_files(services.in_force, services.nodes.holder_for)
            found = await fetcher.fetch(f"file://shed{tmp_path}/shared/big.bin", CONTEXT, None)
            assert found is not None and found.content == data

    run(test())
