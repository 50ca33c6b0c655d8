"""The frames of the strict stdio front, one by one (mcp.md section 4; MCP-2 … MCP-11; P94)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import threading
from typing import Any

import pytest

from app.mcp.stdio.connection import Limits, StdioConnection
from app.mcp.stdio.descriptors import Input, Output
from tests.mcp.stdio.wires import (
    MODERN,
    Client,
    Tools,
    call,
    initialize,
    notification,
    request,
    talk,
)
from tests.plugins.watching import descriptors
from tests.waiting import until

SUPPORTED = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


def code(frame: Any) -> int:
    assert frame["jsonrpc"] == "2.0"
    return int(frame["error"]["code"])


def text(frame: Any) -> str:
    return str(frame["result"]["content"][0]["text"])


def test_lines_over_the_cap_in_bytes_are_refused_and_only_their_length_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """STD-16, STD-46, P94: the cap counts bytes, the answer is -32700 with id null, the next line works."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        secret = "密" * 2000  # 6000 bytes, 2000 UTF-16 units
        refused = await client.ask(json.dumps(call(1, "echo", text=secret), ensure_ascii=False).encode() + b"\n")
        assert (code(refused), refused["id"]) == (-32700, None)
        assert text(await client.ask(call(2, "echo", text="密" * 100))) == "密" * 100
        assert "密" not in caplog.text
        assert "bytes was dropped" in caplog.text

    talk(work, Limits(line_bytes=4096))


def test_a_line_of_nine_mebibytes_is_refused_and_the_next_call_works() -> None:
    """STD-16, P94: with the limits as they are."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(b"x" * (9 * 1024 * 1024) + b"\n")
        assert code(await client.next()) == -32700
        assert text(await client.ask(call(1, "echo", text="x" * 3_900_000))) == "x" * 3_900_000

    talk(work)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"{oops", id="broken"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"ping"', id="half"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"ping"} x', id="more behind it"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"ping\xff"}', id="STD-21 not UTF-8"),
        pytest.param(b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', id="NaN"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1e999}}', id="infinite"),
        pytest.param(b'{"id":' + b"9" * 5000 + b"}", id="digits without end"),
        pytest.param(b"[" * 100_000, id="nested without end"),
        pytest.param(b"[" * 200 + b"]" * 200, id="nested too deeply"),
        pytest.param(b'{"a":' * 200 + b"1" + b"}" * 200, id="objects nested too deeply"),
        pytest.param(b"\x00", id="NUL"),
        pytest.param(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}', id="byte-order mark"),
    ],
)
def test_what_is_no_json_is_told_and_the_next_line_works(line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """STD-17, STD-21, STD-46, P94."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        refused = await client.ask(line + b"\n")
        assert (code(refused), refused["id"]) == (-32700, None)
        assert (await client.begin())["protocolVersion"] == "2025-11-25"
        assert not caplog.text

    talk(work)


def test_empty_lines_are_ignored_and_carriage_returns_belong_to_the_newline() -> None:
    """STD-18, STD-20, STD-22: one frame for one request, each with one newline at its end and none inside."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(b"\n\r\n   \n", json.dumps(call(1, "echo", text="a\nb\r\n\u2028c")).encode() + b"\r\n")
        assert text(await client.next()) == "a\nb\r\n\u2028c"
        client.end()
        assert await client.rest() == []
        assert all(b"\n" not in line and b"\r" not in line for line in client.raw)

    talk(work)


def test_the_last_line_needs_no_newline() -> None:
    """STD-19, STD-40."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(json.dumps(call(1, "echo", text="last")).encode())
        client.end()
        assert [text(frame) for frame in await client.rest()] == ["last"]
        assert await task

    talk(work)


def test_frames_may_come_in_pieces_cut_anywhere() -> None:
    """A character and a frame may be cut where they like."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        line = json.dumps(call(1, "echo", text="密"), ensure_ascii=False).encode() + b"\n"
        for index in range(len(line)):
            os.write(client._write, line[index : index + 1])
        assert text(await client.next()) == "密"

    talk(work)


def test_notifications_get_no_reply() -> None:
    """STD-23, MCP-7: known, unknown, malformed, and a request without an id, which does not run either."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(
            notification("notifications/unknown", {"a": 1}),
            notification("notifications/cancelled", {"requestId": 77}),
            notification("notifications/cancelled", {"requestId": None}),
            notification("notifications/cancelled"),
            {"jsonrpc": "2.0", "method": "notifications/x", "params": [1]},
            {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "echo"}},
        )
        assert (await client.ask(request(1, "ping"))) == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert tools.seen == []

    talk(work)


@pytest.mark.parametrize(
    ("frame", "named"),
    [
        pytest.param({"jsonrpc": "2.0", "id": 5, "method": "notifications/initialized"}, 5, id="STD-24"),
        pytest.param({"id": 5, "method": "ping"}, 5, id="STD-25 no jsonrpc"),
        pytest.param({"jsonrpc": "1.0", "id": "a", "method": "ping"}, "a", id="STD-25 wrong jsonrpc"),
        pytest.param({"jsonrpc": 2.0, "id": "a", "method": "ping"}, "a", id="STD-25 a number"),
        pytest.param({"jsonrpc": "2.0", "id": None, "method": "ping"}, None, id="STD-25 id null"),
        pytest.param({"jsonrpc": "2.0", "id": {}, "method": "ping"}, None, id="STD-25 id object"),
        pytest.param({"jsonrpc": "2.0", "id": [1], "method": "ping"}, None, id="STD-25 id list"),
        pytest.param({"jsonrpc": "2.0", "id": True, "method": "ping"}, None, id="STD-25 id boolean"),
        pytest.param({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, None, id="MCP-4 id fraction"),
        pytest.param({"jsonrpc": "2.0", "id": 5, "method": 7}, 5, id="method a number"),
        pytest.param({"jsonrpc": "2.0", "id": 5}, 5, id="no method"),
        pytest.param({}, None, id="nothing"),
        pytest.param("ping", None, id="a string"),
        pytest.param(None, None, id="null"),
        pytest.param(7, None, id="a number"),
    ],
)
def test_what_is_no_request_is_refused_under_its_id_when_that_can_be_read(frame: Any, named: Any) -> None:
    """STD-24, STD-25, MCP-4."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        refused = await client.ask(frame)
        assert (code(refused), refused["id"]) == (-32600, named)
        assert (await client.ask(request("next", "ping")))["result"] == {}

    talk(work)


def test_params_that_are_no_object_are_bad_parameters() -> None:
    """MCP-5; null counts as absent, as the SDK has it."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        assert code(await client.ask({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]})) == -32602
        null = b'{"jsonrpc":"2.0","id":2,"method":"ping","params":null}\n'
        assert (await client.ask(null))["result"] == {}

    talk(work)


def test_arguments_that_are_no_object_are_bad_parameters() -> None:
    """STD-37, D71: by the SDK, before the tool is asked."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        for wrong in ([1], "text", 7):
            assert code(await client.ask(request(1, "tools/call", {"name": "echo", "arguments": wrong}))) == -32602
        assert tools.seen == []

    talk(work)


@pytest.mark.parametrize("named", [0, -1, "", "a b", "é", 2**70, "😀", 10**300])
def test_ids_come_back_as_they_were(named: Any) -> None:
    """MCP-4: strings and integers of any size."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        assert (await client.ask(request(named, "ping"))) == {"jsonrpc": "2.0", "id": named, "result": {}}

    talk(work)


def test_halves_of_characters_come_back_as_they_were() -> None:
    """JSON may hold them, UTF-8 may not."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        answer = await client.ask(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}\n')
        assert answer["id"] == "\ud800"
        answer = await client.ask(call(2, "echo", text="\udfff"))
        assert answer["id"] == 2

    talk(work)


def test_an_id_that_is_still_running_is_refused() -> None:
    """MCP-4; "7" and 7 are one id, since a cancellation could not tell them apart."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(call(7, "wait", text="first"))
        await until(lambda: tools.seen == ["wait"])
        for same in (7, "7"):
            refused = await client.ask(call(same, "echo", text="second"))
            assert (code(refused), refused["id"]) == (-32600, same)
        tools.release.set()
        assert text(await client.next()) == "first"
        assert text(await client.ask(call(7, "echo", text="again"))) == "again"
        assert tools.seen == ["wait", "echo"]

    talk(work)


def test_an_id_may_be_used_anew_as_soon_as_its_answer_is_there() -> None:
    """MCP-4."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        for number in range(50):
            assert text(await client.ask(call(1, "echo", text=str(number)))) == str(number)

    talk(work)


@pytest.mark.parametrize("version", SUPPORTED)
def test_initialize_echoes_a_supported_version(version: str) -> None:
    """STD-30, STD-31, MCP-2, MCP-9."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        result = await client.begin(version)
        assert result["protocolVersion"] == version
        assert result["serverInfo"] == {"name": "test", "version": "1"}
        assert "tools" in result["capabilities"]

    talk(work)


@pytest.mark.parametrize("version", ["2023-01-01", "2026-07-28", "x"])
def test_initialize_offers_the_newest_version_to_others(version: str) -> None:
    """STD-30, MCP-2."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        assert (await client.begin(version))["protocolVersion"] == "2025-11-25"

    talk(work)


def test_before_initialize_only_ping_is_served() -> None:
    """MCP-10, MCP-11, STD-32."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        assert (await client.ask(request(1, "ping")))["result"] == {}
        assert code(await client.ask(request(2, "tools/list"))) == -32602
        assert code(await client.ask(call(3, "echo"))) == -32602
        await client.begin()
        assert (await client.ask(request(4, "tools/list")))["result"]["tools"][0]["name"] == "echo"

    talk(work)


def test_a_client_may_send_the_next_request_behind_initialize_at_once() -> None:
    """MCP-6: what follows is judged by the version that comes of it, and answered in order."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.send(initialize(version="2025-03-26"), [request(1, "ping"), request(2, "tools/list")])
        assert (await client.next())["result"]["protocolVersion"] == "2025-03-26"
        assert sorted(entry["id"] for entry in await client.next()) == [1, 2]

    talk(work)


def test_unknown_methods_are_not_found() -> None:
    """STD-27, MCP-5; known methods that this server lacks too."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        for method in ("nothing/here", "prompts/list", "", "rpc.discover"):
            assert code(await client.ask(request(1, method))) == -32601

    talk(work)


def test_the_era_is_fixed_by_the_first_request() -> None:
    """MCP-3, MCP-11: a modern connection refuses initialize with -32022 and has no ping."""

    async def modern(client: Client, tools: Tools, task: Any) -> None:
        assert text(await client.ask(call(1, "echo", modern=True, text="hi"))) == "hi"
        refused = await client.ask(initialize(2))
        assert code(refused) == -32022
        assert refused["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}
        assert code(await client.ask(request(3, "ping", MODERN))) == -32601
        assert code(await client.ask(request(4, "tools/list"))) == -32602  # no envelope
        other = {"_meta": {**MODERN["_meta"], "io.modelcontextprotocol/protocolVersion": "2030-01-01"}}
        assert code(await client.ask(request(5, "tools/list", other))) == -32022

    async def legacy(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        assert code(await client.ask(call(1, "echo", modern=True, text="hi"))) == -32600
        assert (await client.ask(request(2, "ping")))["result"] == {}

    talk(modern)
    talk(legacy)


def test_what_is_refused_before_the_sdk_sees_it_decides_no_era() -> None:
    """MCP-3."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        assert code(await client.ask({"id": 1, "method": "initialize"})) == -32600
        assert code(await client.ask([initialize()])) == -32600
        assert text(await client.ask(call(1, "echo", modern=True, text="hi"))) == "hi"

    talk(work)


@pytest.mark.parametrize("version", SUPPORTED[:2])
def test_batches_of_the_revisions_that_have_them_are_answered_with_one_array(version: str) -> None:
    """STD-26, MCP-6."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin(version)
        answers = await client.ask(
            [
                call(1, "echo", text="one"),
                notification("notifications/unknown"),
                call("two", "echo", text="two"),
                {"jsonrpc": "2.0", "id": 3, "method": "nothing"},
                {"id": 4, "method": "ping"},
                initialize(5),
                [],
                7,
            ]
        )
        by_id = {answer["id"]: answer for answer in answers if answer["id"] is not None}
        assert (text(by_id[1]), text(by_id["two"])) == ("one", "two")
        assert [code(by_id[id]) for id in (3, 4, 5)] == [-32601, -32600, -32600]
        assert [code(answer) for answer in answers if answer["id"] is None] == [-32600, -32600]
        assert len(answers) == 7
        await client.send([notification("notifications/unknown"), notification("notifications/roots/list_changed")])
        assert (await client.ask(request(9, "ping")))["id"] == 9  # nothing came for the notifications

    talk(work)


@pytest.mark.parametrize("frame", [[], [[]] * 1001])
def test_empty_and_endless_batches_are_refused_as_a_whole(frame: Any) -> None:
    """STD-26, MCP-6: one object, not an array."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin("2025-03-26")
        refused = await client.ask(frame)
        assert (code(refused), refused["id"]) == (-32600, None)

    talk(work)


def test_arrays_are_refused_where_there_are_no_batches() -> None:
    """STD-26, MCP-6: before negotiation, from 2025-06-18 on, and in the modern era."""

    async def later(client: Client, tools: Tools, task: Any) -> None:
        assert code(await client.ask([request(1, "ping")])) == -32600
        for version in SUPPORTED[2:]:
            await client.begin(version)
            refused = await client.ask([call(1, "echo")])
            assert (code(refused), refused["id"]) == (-32600, None)

    async def modern(client: Client, tools: Tools, task: Any) -> None:
        await client.ask(call(1, "echo", modern=True))
        assert code(await client.ask([call(2, "echo", modern=True)])) == -32600

    talk(later)
    talk(modern)


def test_a_batch_waits_for_all_its_calls_and_not_for_cancelled_ones() -> None:
    """MCP-6, MCP-8: a cancelled entry has no reply; single frames pass meanwhile."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin("2025-03-26")
        await client.send([call(1, "wait", text="1"), call(2, "wait", text="2"), call(3, "echo", text="3")])
        await until(lambda: tools.seen.count("wait") == 2)
        assert (await client.ask(request(4, "ping")))["id"] == 4
        await client.send(notification("notifications/cancelled", {"requestId": 1}))
        await until(lambda: tools.cancelled == ["1"])
        tools.release.set()
        assert sorted(answer["id"] for answer in await client.next()) == [2, 3]
        await client.send([call(5, "wait")])
        assert [answer["id"] for answer in await client.next()] == [5]

    talk(work)


def test_cancelling_ends_the_call_without_a_reply_and_the_next_call_works() -> None:
    """STD-38, MCP-8, MCP-13."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(call(1, "wait", text="one"))
        await until(lambda: tools.seen == ["wait"])
        await client.send(notification("notifications/cancelled", {"requestId": 1, "reason": "enough"}))
        await until(lambda: tools.cancelled == ["one"])
        assert text(await client.ask(call(1, "echo", text="the same id"))) == "the same id"
        await client.send(notification("notifications/cancelled", {"requestId": 1}))  # finished: ignored
        await client.send(notification("notifications/cancelled", {"requestId": "init"}))
        assert (await client.ask(request(2, "ping")))["id"] == 2

    talk(work)


def test_a_modern_call_is_cancelled_like_that_too() -> None:
    """STD-38, MCP-13: over stdio the notification is the signal in both eras."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.send(call(1, "wait", modern=True, text="one"))
        await until(lambda: tools.seen == ["wait"])
        await client.send(notification("notifications/cancelled", {"requestId": 1}))
        await until(lambda: tools.cancelled == ["one"])
        assert text(await client.ask(call(2, "echo", modern=True, text="next"))) == "next"

    talk(work)


def test_calls_overlap_and_ping_is_answered_meanwhile() -> None:
    """STD-39, MCP-27."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(call(1, "wait", text="slow"), call(2, "wait", text="slow"))
        assert text(await client.ask(call(3, "echo", text="quick"))) == "quick"
        assert (await client.ask(request(4, "ping")))["id"] == 4
        tools.release.set()
        assert {(await client.next())["id"], (await client.next())["id"]} == {1, 2}

    talk(work)


def test_an_answer_over_the_cap_becomes_an_error_of_the_same_id() -> None:
    """STD-28: 8 MiB as it is."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        refused = await client.ask(call(1, "large", size=8 * 1024 * 1024))
        assert (code(refused), refused["id"]) == (-32603, 1)
        assert len(text(await client.ask(call(2, "large", size=8 * 1024 * 1024 - 1000)))) == 8 * 1024 * 1024 - 1000

    talk(work)


def test_in_a_batch_the_longest_answers_become_errors_until_the_array_fits() -> None:
    """STD-26, STD-28."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin("2025-03-26")
        large = 5 * 1024 * 1024
        answers = await client.ask(
            [call(1, "large", size=large), call(2, "large", size=10), call(3, "large", size=large)]
        )
        assert sorted("error" in answer for answer in answers) == [False, False, True]
        assert "result" in next(answer for answer in answers if answer["id"] == 2)

    talk(work)


def test_a_notification_over_the_cap_is_dropped_and_the_answer_comes(caplog: pytest.LogCaptureFixture) -> None:
    """STD-28."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        assert text(await client.ask(call(1, "notify", size=9000, text="done"))) == "done"
        assert "was dropped" in caplog.text

    talk(work, Limits(frame_bytes=4096))


def test_what_a_handler_raises_stays_inside() -> None:
    """STD-47, STD-49: an internal error, without the text and the place of the fault; and the process lives."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        broken = await client.ask(call(1, "broken"))
        assert (code(broken), broken["id"]) == (-32603, 1)
        assert "/secret" not in json.dumps(broken)
        assert text(await client.ask(call(2, "echo", text="alive"))) == "alive"

    talk(work)


def test_answers_to_questions_nobody_asked_and_broken_ones_are_never_answered() -> None:
    """MCP-4: an answer to an answer would never end."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(
            {"jsonrpc": "2.0", "id": 1, "result": {}},
            {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}},
            {"jsonrpc": "2.0", "id": 1, "error": "x"},
            {"jsonrpc": "2.0", "id": 1, "result": 5},
            {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}},
            {"id": 1, "result": {}},
        )
        assert (await client.ask(request(1, "ping"))) == {"jsonrpc": "2.0", "id": 1, "result": {}}

    talk(work)


def test_more_requests_than_may_run_are_refused_and_cancelling_makes_room() -> None:
    """MCP-27; each buffer has its limit."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(call(1, "wait"), call(2, "wait"))
        assert code(await client.ask(call(3, "echo"))) == -32603
        await client.send(notification("notifications/cancelled", {"requestId": 1}))
        await until(lambda: len(tools.cancelled) == 1)
        assert text(await client.ask(call(4, "echo", text="fits"))) == "fits"
        tools.release.set()

    talk(work, Limits(running=2))


def test_requests_that_run_may_not_hold_more_memory_than_the_limit() -> None:
    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(call(1, "wait", text="x" * 900))
        assert code(await client.ask(call(2, "echo", text="x" * 900))) == -32603
        tools.release.set()
        await client.next()
        assert text(await client.ask(call(3, "echo", text="x" * 2000))) == "x" * 2000  # alone, however long

    talk(work, Limits(running_bytes=1200))


def test_at_the_end_of_input_running_calls_finish_and_are_answered() -> None:
    """STD-40."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(call(1, "wait", text="done"))
        await until(lambda: tools.seen == ["wait"])
        client.end()
        asyncio.get_running_loop().call_later(0.05, tools.release.set)
        assert [text(frame) for frame in await client.rest()] == ["done"]
        assert await task is True

    talk(work)


def test_calls_that_do_not_finish_in_time_are_cancelled_and_told(caplog: pytest.LogCaptureFixture) -> None:
    """STD-40: after the limit."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(call(1, "wait", text="one"))
        await until(lambda: tools.seen == ["wait"])
        client.end()
        assert [(frame["id"], code(frame)) for frame in await client.rest()] == [(1, -32000)]
        assert await task is True
        assert tools.cancelled == ["one"]
        assert "1 requests were not done in time" in caplog.text

    talk(work, Limits(drain_seconds=0.05))


def test_a_stop_is_like_the_end_of_input() -> None:
    """STD-41: what is running finishes, what comes later is not read."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(call(1, "wait", text="done"))
        await until(lambda: tools.seen == ["wait"])
        client.connection.stop()
        await asyncio.sleep(0)
        tools.release.set()
        assert [text(frame) for frame in await client.rest()] == ["done"]
        assert await task is True

    talk(work)


def test_a_reader_that_is_slow_slows_us_down_and_loses_nothing() -> None:
    """STD-29: what waits is bounded, since whoever writes waits."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        size = 300_000
        for id in range(20):
            await client.send(call(id, "large", size=size))
        assert sorted([(await client.next())["id"] for _ in range(20)]) == list(range(20))

    talk(work)


def test_a_reader_that_takes_nothing_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """STD-29: after 30 s, here after less."""

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()
        await client.send(call(1, "large", size=4_000_000))  # more than a pipe holds, and nobody takes it
        assert await task is False
        assert "nobody has read the output" in caplog.text

    talk(work, stuck=0.1)


def test_a_connection_leaves_no_thread_and_no_descriptor_behind() -> None:
    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin()

    talk(work)
    before = descriptors(), threading.active_count()
    for _ in range(3):
        talk(work)
    assert descriptors() == before[0]
    assert threading.active_count() == before[1]


def test_a_client_that_is_gone_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)

    async def conversation() -> None:
        read_in, write_in = os.pipe()
        read_out, write_out = os.pipe()
        os.close(read_out)
        source, sink = Input(read_in), Output(write_out)
        os.write(write_in, b"{oops\n")
        assert await StdioConnection(source, sink).serve(Tools().drive) is False
        sink.close()
        os.close(write_in)
        for thread in (source.thread, sink.thread):
            await asyncio.to_thread(thread.join, 10)
        os.close(read_in)
        os.close(write_out)

    asyncio.run(conversation())
    assert "the output is closed" in caplog.text


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_sent_the_next_request_is_answered_and_nothing_stays_behind(seed: int) -> None:
    """P94: frames with bytes changed, put in and taken out."""
    chance = random.Random(seed)
    good = [
        json.dumps(frame).encode()
        for frame in (
            call(1, "echo", text="a"),
            request(2, "ping"),
            notification("notifications/cancelled", {"requestId": 1}),
            [call(3, "echo"), request(4, "ping")],
            request(5, "tools/list", {"cursor": 5}),
            initialize(6),
            {"jsonrpc": "2.0", "id": 1, "result": {}},
        )
    ]
    odd = [b'"', b"{", b"}", b"[", b"]", b",", b"null", b"1e400", b"\\ud800", b"\xff", b"true", b"-1", b"\0"]

    def spoilt() -> bytes:
        data = bytearray(chance.choice(good))
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(data))
            match chance.randrange(3):
                case 0:
                    data[at] = chance.randrange(256)
                case 1:
                    data[at:at] = chance.choice(odd)
                case _:
                    del data[at : min(at + chance.randrange(1, 8), len(data) - 1)]
        return bytes(data) + b"\n"

    async def work(client: Client, tools: Tools, task: Any) -> None:
        await client.begin("2025-03-26")
        await client.send(b"".join(spoilt() for _ in range(200)), request("the end", "ping"))
        while True:
            frame = await client.next()
            assert frame is not None
            if isinstance(frame, dict) and frame.get("id") == "the end":
                break
        client.end()
        await client.rest()
        assert await task is True
        assert client.connection._running == {}

    talk(work)
