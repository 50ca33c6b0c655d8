"""A hostile main server: the node lives, says what is wrong, and holds no more than its limits."""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from app.node.session import MAX_COMPLAINTS
from tests.hub.test_frames import JSON
from tests.node.bench import main_end, running_node, until
from tests.server import ECHO, run, write_plugin

INSIDE = """
class Plugin:
    async def call(self, call, context):
        return dict(call.arguments)

def create(context):
    return Plugin()
"""

IN_PROCESS: dict[str, Any] = {
    "entryPoint": {"type": "python", "script": "main.py"},
    "communication": {"protocol": "direct"},
}

JUNK: tuple[Any, ...] = (
    "",
    "no json",
    "[]",
    "null",
    "1e999",
    "[" * 100_000,
    '{"type": ' + "[" * 5_000,
    b"\xff\xfe\x00",
    b"{}",
    {},
    {"type": None},
    {"type": 7, "data": {}},
    {"type": "connection_ack", "message": "hello"},
    {"type": "vcp_log", "data": {"x": 1}},
    {"type": "execute_tool"},
    {"type": "execute_tool", "data": []},
    {"type": "execute_tool", "data": {"requestId": 7, "toolName": "Echo", "toolArgs": {}}},
    {"type": "execute_tool", "data": {"requestId": "", "toolName": "Echo"}},
    {"type": "execute_tool", "data": {"requestId": "x" * 1000, "toolName": "Echo"}},
    {"type": "cancel_tool"},
    {"type": "cancel_tool", "data": {"requestId": ["a"]}},
    {"type": "cancel_tool", "data": {"requestId": "never was"}},
)


def test_messages_that_are_none_are_logged_a_few_times_and_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write_plugin(tmp_path, "Echo", ECHO)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url):
            link, _ = await main.introduced()
            for junk in JUNK * 3:
                await link.connection.send(junk if isinstance(junk, str | bytes) else json.dumps(junk))
            assert (await link.call("1", "Echo", text="alive"))["result"] == {"original_plugin_output": "alive"}
            assert main.tries == 1
        told = [record for record in caplog.records if record.name == "app.node.session"]
        assert MAX_COMPLAINTS < len(told) <= MAX_COMPLAINTS + 3

    run(test())


def test_values_without_number_are_neither_read_from_the_main_server_nor_sent_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.hub.clients.MAX_VALUES", 1000)
    monkeypatch.setattr("app.node.calls.MAX_VALUES", 1000)
    many = """
    import json, sys
    arguments = json.loads(sys.stdin.read())
    print(json.dumps({"status": "success", "result": [[]] * int(arguments["count"])}))
    """
    write_plugin(tmp_path, "Many", many)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url):
            link, _ = await main.introduced()
            await link.connection.send(
                '{"type":"execute_tool","data":{"requestId":"lost","toolName":"Many","toolArgs":{"x":['
                + "[]," * 1000
                + "[]]}}}"
            )
            answer = await link.call("1", "Many", count="900")
            assert (answer["requestId"], answer["status"]) == ("1", "error")
            assert "more than 1000 values" in answer["error"]
            assert len((await link.call("2", "Many", count="300"))["result"]) == 300

    run(test())


IDS = st.sampled_from(["1", "2", "", "\x00", "x" * 300])
NAMES = st.sampled_from(["Echo", "echo", "Echo.run", "internal_request_file", "internal_request_cancel", "\ud800"])
ARGUMENTS = JSON | st.fixed_dictionaries(
    {}, optional={"text": JSON, "fileUrl": JSON | st.just("file:///etc/passwd"), "offset": JSON, "length": JSON}
)
MESSAGES = st.builds(
    lambda kind, data: {"type": kind, "data": data},
    st.sampled_from(["execute_tool", "cancel_tool"]),
    st.fixed_dictionaries(
        {},
        optional={
            "requestId": IDS | JSON,
            "toolName": NAMES | JSON,
            "toolArgs": ARGUMENTS,
            "_vcpContext": JSON | st.fixed_dictionaries({"depth": JSON, "turnId": JSON, "source": JSON}),
        },
    ),
)


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.large_base_example])
@given(messages=st.lists(MESSAGES, min_size=20, max_size=60))
def test_whatever_stands_in_a_request_the_next_one_is_served_over_the_same_line(
    caplog: pytest.LogCaptureFixture, messages: list[dict[str, Any]]
) -> None:
    async def test(home: Path) -> None:
        write_plugin(home, "Echo", INSIDE, pluginType="hybridservice", **IN_PROCESS)
        async with main_end() as main, running_node(home, main.url):
            link, _ = await main.introduced()
            for message in messages:
                await link.connection.send(json.dumps(message))
            await link.execute("last", "Echo", text="alive")
            while (answer := await link.receive("tool_result"))["requestId"] != "last":
                assert answer["status"] in ("success", "error")
            assert answer["result"] == {"text": "alive"}
            assert main.tries == 1

    with tempfile.TemporaryDirectory() as folder:
        run(test(Path(folder)))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    "data",
    [
        {"toolName": None, "toolArgs": {}},
        {"toolName": "", "toolArgs": {}},
        {"toolName": ["Echo"], "toolArgs": {}},
        {"toolName": "E" * 1000, "toolArgs": {}},
        {"toolName": "../Echo", "toolArgs": {}},
        {"toolName": "Echo\0", "toolArgs": {}},
        {"toolName": "Echo\nERROR forged", "toolArgs": {}},
        {"toolName": "Echo", "toolArgs": []},
        {"toolName": "Echo", "toolArgs": "text"},
        {"toolName": "Echo.no", "toolArgs": {}},
        {"toolName": "shed#Echo", "toolArgs": {}},
    ],
)
def test_a_call_that_cannot_be_begun_is_answered_at_once(
    tmp_path: Path, data: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    write_plugin(tmp_path, "Echo", ECHO)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url):
            link, _ = await main.introduced()
            await link.send("execute_tool", {"requestId": "r", **data})
            answer = await link.receive("tool_result")
            assert (answer["requestId"], answer["status"]) == ("r", "error")
            assert "/" in answer["error"], "in both languages"
        assert "\nERROR forged" not in caplog.text

    run(test())


def test_strange_arguments_reach_the_plugin_as_text_or_are_told(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Echo", ECHO)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url):
            link, _ = await main.introduced()
            await link.connection.send(
                '{"type":"execute_tool","data":{"requestId":"r","toolName":"Echo","toolArgs":{"text":"\\ud800","n":1e999}}}'
            )
            assert (await link.receive("tool_result"))["requestId"] == "r"
            answer = await link.call("s", "Echo", text="x\0y", maid=["n"], **{"n" * 1000: None})
            assert answer["result"] == {"original_plugin_output": "x\0y"}

    run(test())


GATED = """
import json, os, time
while not os.path.exists("go"):
    time.sleep(0.01)
print(json.dumps({"status": "success", "result": "done"}))
"""


def test_ten_thousand_calls_at_once_are_each_answered_and_only_a_few_run(tmp_path: Path) -> None:
    """PluginMaxRunning run, PluginQueueLimit wait, the rest are refused at once."""
    folder = write_plugin(tmp_path, "Gated", GATED)
    config = ["PluginMaxRunning=2", "PluginQueueLimit=3"]

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url, config=config):
            link, _ = await main.introduced()

            async def ask() -> None:
                for number in range(10_000):
                    await link.execute(str(number), "Gated")

            asking = asyncio.create_task(ask())
            answers = [await link.receive("tool_result") for _ in range(9_995)]
            assert {answer["status"] for answer in answers} == {"error"}
            assert "too many" in answers[0]["error"]
            await asking
            (folder / "go").touch()
            rest = [await link.receive("tool_result") for _ in range(5)]
            assert {answer["status"] for answer in rest} == {"success"}
            ids = [answer["requestId"] for answer in (*answers, *rest)]
            assert sorted(map(int, ids)) == list(range(10_000))

    run(test())


def test_a_request_id_that_still_runs_is_not_begun_twice(tmp_path: Path) -> None:
    folder = write_plugin(tmp_path, "Gated", GATED)
    write_plugin(tmp_path, "Echo", ECHO)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url):
            link, _ = await main.introduced()
            await link.execute("r", "Gated")
            await link.execute("r", "Echo", text="second")
            await link.call("s", "Echo", text="x")
            (folder / "go").touch()
            assert (await link.receive("tool_result"))["result"] == {"original_plugin_output": "done"}

    run(test())


def test_a_frame_over_the_limit_closes_the_line_and_the_node_comes_back(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Echo", ECHO)

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url, config=["NodeMaxFrameMB=1"]) as node:
            link, _ = await main.introduced()
            with pytest.raises(ConnectionClosed):
                await link.execute("r", "Echo", text="x" * 1024 * 1024)
                await link.receive("tool_result")
            assert link.connection.close_code == 1009
            again, _ = await main.introduced()
            assert "1009" in " ".join(node.told)
            assert (await again.call("s", "Echo", text="x" * 500_000))["status"] == "success"

    run(test())


def test_a_result_over_the_limit_is_an_error_that_names_it(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Huge", 'import json\nprint(json.dumps({"status": "success", "result": "x" * 2_000_000}))')

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url, config=["NodeMaxFrameMB=1"]):
            link, _ = await main.introduced()
            answer = await link.call("r", "Huge")
            assert answer["status"] == "error" and "NodeMaxFrameMB" in answer["error"]

    run(test())


def test_a_main_server_that_does_not_read_is_given_up_before_memory_fills(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_plugin(tmp_path, "Big", 'import json\nprint(json.dumps({"status": "success", "result": "x" * 1_000_000}))')

    async def test() -> None:
        config = ["NodeMaxFrameMB=1", "SocketPingSeconds=60"]
        async with main_end(max_queue=1) as main, running_node(tmp_path, main.url, config=config):
            link, _ = await main.introduced()
            link.connection.transport.pause_reading()
            for number in range(16):
                await link.execute(str(number), "Big")
            await until(lambda: "does not take" in caplog.text)
            link.connection.transport.resume_reading()
            await main.introduced()

    run(test())
