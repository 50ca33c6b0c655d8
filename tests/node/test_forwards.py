"""Background plugins of a node: their results reach the main server, also after a broken line or a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.node.forwards import FORWARDS_FILE, MAX_WAITING, forwarded
from tests.node.bench import main_end, running_node, until
from tests.server import run, write_plugin

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
