"""Background plugins of a node: their results reach the main server, also after a broken line or a restart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from app.extend import BackgroundResult
from app.node.forwards import FORWARDS_FILE, MAX_WAITING, forwarded
from tests.node.bench import main_end, running_node, until
from tests.server import run, running, write_plugin

LATER = """
import json, os, sys, time, urllib.request
print(json.dumps({"status": "success", "result": {"task_id": "t-1"}}), flush=True)
sys.stdout.close()
while not os.path.exists("go"):
    time.sleep(0.005)
address = os.environ["CALLBACK_BASE_URL"] + "/Later/t-1"
body = json.dumps({"status": "Succeed", "message": "done", "requestId": "t-1"}).encode()
urllib.request.urlopen(urllib.request.Request(address, body, {"Content-Type": "application/json"}))
"""

EXPECTED = {"status": "Succeed", "message": "done", "requestId": "t-1", "pluginName": "Later", "taskId": "t-1"}


def test_the_callback_of_a_background_plugin_is_forwarded(tmp_path: Path) -> None:
    """The plugin calls its node back, whatever CALLBACK_BASE_URL its config.env has from older installations."""
    folder = write_plugin(tmp_path, "Later", LATER, pluginType="asynchronous")
    config = ["CALLBACK_BASE_URL=http://127.0.0.1:9/plugin-callback"]

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url, config=config):
            link, _ = await main.introduced()
            answer = await link.call("1", "Later")
            assert answer["result"] == {"task_id": "t-1"}
            (folder / "go").touch()
            told = await link.receive("plugin_callback_forward")
            assert told == {"serverName": "shed", "callbackData": EXPECTED}

    run(test())


def test_a_result_that_comes_while_the_line_is_down_is_sent_when_it_is_up_also_after_a_restart(tmp_path: Path) -> None:
    folder = write_plugin(tmp_path, "Later", LATER, pluginType="asynchronous")
    kept = tmp_path / FORWARDS_FILE

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url) as node:
            link, _ = await main.introduced()
            await link.call("1", "Later")
            main.status = 503
            await link.connection.close()
            await until(lambda: not node.node.connected)
            (folder / "go").touch()
            await until(kept.exists)
            assert json.loads(kept.read_text()) == [["Later", "t-1"]]
        async with main_end() as main, running_node(tmp_path, main.url):
            link, _ = await main.introduced()
            assert (await link.receive("plugin_callback_forward"))["callbackData"] == EXPECTED
            await until(lambda: json.loads(kept.read_text()) == [])

    run(test())


def test_a_result_on_a_line_that_loses_it_without_a_word_is_sent_again_on_the_next(tmp_path: Path) -> None:
    """P81: what the network has taken need not have arrived."""
    folder = write_plugin(tmp_path, "Later", LATER, pluginType="asynchronous")

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url) as node:
            link, _ = await main.introduced()
            await link.call("1", "Later")
            link.connection.transport.pause_reading()
            (folder / "go").touch()
            stored = tmp_path / "VCPAsyncResults" / "Later-t-1.json"
            await until(stored.exists)
            await until(lambda: (tmp_path / FORWARDS_FILE).exists())
            await asyncio.sleep(0.05)
            link.connection.transport.abort()
            await until(lambda: not node.node.connected)
            link, _ = await main.introduced()
            assert (await link.receive("plugin_callback_forward"))["callbackData"] == EXPECTED
            await until(lambda: json.loads((tmp_path / FORWARDS_FILE).read_text()) == [])

    run(test())


def test_a_newer_result_of_a_task_is_sent_after_the_one_that_is_on_its_way(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Later", LATER, pluginType="asynchronous")

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url) as node:
            link, _ = await main.introduced()
            link.connection.transport.pause_reading()
            results = node.services.background_results
            for state in ("half", "whole"):
                await results.store("Later", "t-1", {"state": state})
                node.services.events.publish(BackgroundResult("Later", "t-1", {"state": state}, None))
                await until(lambda: (tmp_path / FORWARDS_FILE).exists())
                await asyncio.sleep(0.05)  # the first is on its way, which nothing here can tell
            link.connection.transport.resume_reading()
            states = [(await link.receive("plugin_callback_forward"))["callbackData"]["state"] for _ in range(2)]
            assert states == ["half", "whole"]

    run(test())


@pytest.mark.parametrize(("count", "limit", "connections"), [(130, 120, 1), (70, 60, 3)])
def test_many_results_that_waited_all_reach_our_server(
    tmp_path: Path, count: int, limit: int, connections: int
) -> None:
    """More than a client may send in a second; what a server that hangs up has refused comes again."""
    home = tmp_path / "node"
    write_plugin(home, "Later", LATER, pluginType="asynchronous")
    names = [f"t-{number}" for number in range(count)]
    for folder in (home / "VCPAsyncResults", home / ".vcp"):
        folder.mkdir()
    for name in names:
        (home / "VCPAsyncResults" / f"Later-{name}.json").write_text('{"state": "done"}')
    (home / FORWARDS_FILE).write_text(json.dumps([["Later", name] for name in names]))
    stored = tmp_path / "server" / "VCPAsyncResults"

    async def test() -> None:
        async with (
            running(
                tmp_path / "server", "http://127.0.0.1:9", config=["VCP_Key=k", f"SocketFramesPerSecond={limit}"]
            ) as server,
            running_node(home, server.url, key=lambda: "k") as node,
        ):
            await until(lambda: len(list(stored.glob("Later-*.json"))) == count)
            assert sum("connected to" in text for text in node.told) <= connections, node.told

    run(test())


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}", b'[1, [2], [3, 4], ["a"]]', b"[" * 100_000])
def test_a_list_that_cannot_be_read_stops_nobody(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".vcp").mkdir()
    (tmp_path / FORWARDS_FILE).write_bytes(content)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url):
            await main.introduced()

    run(test())


def test_a_result_is_sent_also_where_the_list_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_plugin(tmp_path, "Later", LATER, pluginType="asynchronous")
    (tmp_path / FORWARDS_FILE).mkdir(parents=True)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url):
            link, _ = await main.introduced()
            await link.call("1", "Later")
            (folder / "go").touch()
            assert (await link.receive("plugin_callback_forward"))["callbackData"] == EXPECTED
        assert "cannot be written" in caplog.text

    run(test())


def test_a_result_whose_file_is_gone_does_not_hold_up_the_others(tmp_path: Path) -> None:
    (tmp_path / ".vcp").mkdir()
    (tmp_path / "VCPAsyncResults").mkdir()
    entries = [["Later", "gone"], ["Later", "../../x"], ["Later", "t-2"]]
    (tmp_path / FORWARDS_FILE).write_text(json.dumps(entries + [["Later", str(n)] for n in range(MAX_WAITING)]))
    (tmp_path / "VCPAsyncResults" / "Later-t-2.json").write_text('{"message": "here"}')

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url):
            link, _ = await main.introduced()
            assert (await link.receive("plugin_callback_forward"))["callbackData"]["message"] == "here"

    run(test())


def test_a_body_that_is_no_object_stands_in_data_and_names_cannot_be_forged() -> None:
    assert forwarded("shed", "P", "t", [1])["data"] == {
        "serverName": "shed",
        "callbackData": {"data": [1], "pluginName": "P", "taskId": "t"},
    }
    forged = forwarded("shed", "P", "t", {"pluginName": "Q", "taskId": "u"})
    assert json.loads(json.dumps(forged))["data"]["callbackData"] == {"pluginName": "P", "taskId": "t"}
