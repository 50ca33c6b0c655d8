"""A node and a scripted main server: introduction, calls, and what happens when the line breaks (spec 6.4)."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from app import __version__
from app.extend import CallFinished, CallStarted, Door
from tests.cli.commands import PLUGIN_SLEEPER
from tests.node.bench import NODE_KEY, main_end, running_node, until
from tests.plugins.watching import appears, vanishes
from tests.server import ECHO, run, write_plugin

ALL = """
import json, sys
print(json.dumps({"status": "success", "result": json.loads(sys.stdin.read() or "null")}))
"""


def test_a_node_introduces_itself_in_the_order_of_the_protocol(tmp_path: Path) -> None:
    """Spec 6.4: register_tools, report_ip, then the texts of static plugins; the key stands in the path."""
    write_plugin(
        tmp_path,
        "Echo",
        ECHO,
        description="says it again",
        pluginSpecificEnvConfig={"SECRET": "s3cret"},
        basePath="/somewhere/here",
        idempotent=True,
        labels=["gpu"],
        capabilities={"invocationCommands": [{"command": "echo", "description": "d"}]},
    )
    (tmp_path / "Plugin" / "Echo" / "config.env").write_text("SECRET=s3cret\n")
    write_plugin(tmp_path, "internal_request_file", ECHO)
    write_plugin(tmp_path, "Broken", ECHO, pluginType="service")

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url, labels=("attic",), config=["NodeLabels=dry"]):
            link = await main.joined()
            assert link.path == f"/vcp-distributed-server/VCP_Key={NODE_KEY}"
            first, second = await link.receive(), await link.receive()
            assert first.keys() == {"serverName", "tools", "capabilities", "version", "labels"}
            assert (first["serverName"], first["version"], first["labels"]) == ("shed", __version__, ["attic", "dry"])
            assert first["capabilities"] == {"cancelTool": True, "filePieces": True}
            (manifest,) = first["tools"]
            assert manifest["name"] == "Echo"
            assert manifest["entryPoint"]["command"] == "python main.py"
            assert manifest["capabilities"]["invocationCommands"][0]["command"] == "echo"
            assert (manifest["idempotent"], manifest["labels"]) == (True, ["gpu"])
            assert "s3cret" not in json.dumps(first) and str(tmp_path) not in json.dumps(first)
            assert "/somewhere" not in json.dumps(first)
            assert second.keys() == {"serverName", "localIPs", "publicIP"}
            assert second["publicIP"] == ""
            assert not any(address.startswith("127.") for address in second["localIPs"])

    run(test())


def test_a_call_runs_through_this_homes_router_and_its_result_is_the_plugins_own(tmp_path: Path) -> None:
    """The composed example of spec 6.4, and 4.6: MaidName and timestamp are the main server's to add."""
    write_plugin(tmp_path, "Echo", ECHO)
    write_plugin(tmp_path, "All", ALL)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url) as node:
            link, _ = await main.introduced()
            events: list[object] = []
            node.services.events.listen(events.append, CallStarted, CallFinished)
            answer = await link.call("r-1", "Echo", maid="Nova", text="hi")
            assert answer == {"requestId": "r-1", "status": "success", "result": {"original_plugin_output": "hi"}}
            started, finished = events
            assert isinstance(started, CallStarted) and started.door is Door.NODE
            assert isinstance(finished, CallFinished) and finished.call.maid == "Nova"
            answer = await link.call("r-2", "All", n=7, flag=True, **{"_vcpContext": {"agentId": "forged"}})
            assert answer["result"] == {"n": "7", "flag": "true"}
            data = {"requestId": "r-3", "toolName": "All", "toolArgs": {"a": "b"}, "_vcpContext": {"depth": 2}}
            await link.send("execute_tool", data)
            assert (await link.receive("tool_result"))["result"] == {"a": "b"}
            assert isinstance(last := events[-1], CallFinished) and last.context.depth == 2

    run(test())


INSIDE = """
class Inside:
    async def call(self, call, context):
        if "boom" in call.arguments:
            raise ValueError("no boom today")
        return call.arguments.get("said")


def create(context):
    return Inside()
"""


def test_a_plugin_inside_the_node_serves_and_values_that_are_no_object_are_wrapped(tmp_path: Path) -> None:
    """Spec 4.6: a string is not parsed; the main server puts its fields into an object."""
    entry = {"entryPoint": {"type": "python", "script": "main.py"}, "communication": {"protocol": "direct"}}
    write_plugin(tmp_path, "Inside", INSIDE, pluginType="hybridservice", **entry)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url):
            link, registered = await main.introduced()
            assert [tool["name"] for tool in registered["tools"]] == ["Inside"]
            for number, said in enumerate(('{"a": 1}', 7, None, True)):
                answer = await link.call(str(number), "Inside", said=said)
                assert answer["result"] == {"original_plugin_output": said}
            assert (await link.call("l", "Inside", said=[1, {}]))["result"] == [1, {}]
            assert (await link.call("o", "Inside", said={"a": 1}))["result"] == {"a": 1}
            assert "no boom today" in (await link.call("b", "Inside", boom="1"))["error"]

    run(test())


def test_what_fails_is_answered_with_status_error_and_the_text(tmp_path: Path) -> None:
    write_plugin(tmp_path, "No", 'print(\'{"status":"error","error":"not today"}\')')
    write_plugin(tmp_path, "Slow", "import time\ntime.sleep(60)", communication={"protocol": "stdio", "timeout": 50})

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url):
            link, _ = await main.introduced()
            assert await link.call("1", "No") == {"requestId": "1", "status": "error", "error": "not today"}
            assert "timed out" in (await link.call("2", "Slow"))["error"]
            assert "Nowhere" in (await link.call("3", "Nowhere"))["error"]

    run(test())


def test_a_main_server_may_call_nothing_but_what_was_offered(tmp_path: Path) -> None:
    """Plugins that the program brings along are there, but not for the main server."""
    write_plugin(tmp_path, "Echo", ECHO)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url) as node:
            link, registered = await main.introduced()
            assert node.services.router.find_spec("SciCalculator") is not None
            assert [tool["name"] for tool in registered["tools"]] == ["Echo"]
            answer = await link.call("1", "SciCalculator", expression="1+1")
            assert answer["status"] == "error" and "no tool" in answer["error"]

    run(test())


def test_the_hourly_code_is_asked_for_here_too(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Echo", ECHO)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url, config=["VCPToolCode=true"]):
            link, _ = await main.introduced()
            answer = await link.call("1", "Echo", text="x", tool_password="000000")
            assert answer["status"] == "error"
            assert "original_plugin_output" not in json.dumps(answer)

    run(test())


def test_cancel_tool_kills_the_process_and_ends_the_call(tmp_path: Path) -> None:
    folder = write_plugin(tmp_path, "Sleeper", PLUGIN_SLEEPER)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url):
            link, _ = await main.introduced()
            await link.execute("r", "Sleeper")
            await appears(folder / "pid")
            await link.send("cancel_tool", {"requestId": "another"})
            await link.send("cancel_tool", {"requestId": "r"})
            answer = await link.receive("tool_result")
            assert (answer["requestId"], answer["status"]) == ("r", "error")
            await vanishes(int((folder / "pid").read_text()))

    run(test())


GATED = """
import json, os, time
open("begun.tmp", "w").close(); os.rename("begun.tmp", "begun")
while not os.path.exists("go"):
    time.sleep(0.005)
print(json.dumps({"status": "success", "result": "late"}))
"""


def test_a_result_is_never_sent_to_another_connection_than_the_one_it_was_asked_for_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    folder = write_plugin(tmp_path, "Gated", GATED)
    write_plugin(tmp_path, "Echo", ECHO)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url):
            link, _ = await main.introduced()
            await link.execute("r", "Gated")
            await appears(folder / "begun")
            await link.connection.close(1012)
            again, _ = await main.introduced()
            (folder / "go").touch()
            await until(lambda: "is dropped" in caplog.text)
            assert (await again.call("other", "Echo", text="x"))["status"] == "success"

    run(test())


def test_the_same_request_id_is_free_again_on_a_new_connection(tmp_path: Path) -> None:
    folder = write_plugin(tmp_path, "Gated", GATED)
    write_plugin(tmp_path, "Echo", ECHO)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url):
            link, _ = await main.introduced()
            await link.execute("r", "Gated")
            await appears(folder / "begun")
            await link.connection.close()
            again, _ = await main.introduced()
            assert (await again.call("r", "Echo", text="x"))["result"] == {"original_plugin_output": "x"}
            (folder / "go").touch()

    run(test())


def test_at_the_stop_running_calls_may_end_and_new_ones_are_refused(tmp_path: Path) -> None:
    """P83: bounded, and nothing that runs is cut while there is time."""
    folder = write_plugin(tmp_path, "Gated", GATED)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url, config=["ShutdownSeconds=10"]) as node:
            link, _ = await main.introduced()
            await link.execute("r", "Gated")
            await appears(folder / "begun")
            leaving = asyncio.create_task(node.left())
            await until(lambda: node.leaving.is_set())
            await asyncio.sleep(0)
            refused = await link.call("s", "Gated")
            assert refused["status"] == "error" and "stopping" in refused["error"]
            (folder / "go").touch()
            answer = await link.receive("tool_result")
            assert (answer["requestId"], answer["status"]) == ("r", "success")
            await leaving
            await link.connection.wait_closed()
            assert link.connection.close_code == 1001

    run(test())


def test_at_the_stop_a_call_that_does_not_end_is_cancelled_with_its_process(tmp_path: Path) -> None:
    folder = write_plugin(tmp_path, "Sleeper", PLUGIN_SLEEPER)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url, config=["ShutdownSeconds=0.05"]) as node:
            link, _ = await main.introduced()
            await link.execute("r", "Sleeper")
            await appears(folder / "pid")
            await node.left()
            assert (await link.receive("tool_result"))["status"] == "error"
            await vanishes(int((folder / "pid").read_text()))

    run(test())
