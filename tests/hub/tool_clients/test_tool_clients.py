"""The tool socket over real connections: WS-1 - WS-14, WS-19 (mcp.md 1.3; D62, D65)."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from app.config.settings import read
from app.protocol.tool_socket import MAX_TIMEOUT_SECONDS
from app.web.admission import admission
from app.web.server import serve
from app.web.socket_flow import FRAMES_WAITING, MISSED_PONGS
from app.web.tool_socket_port import tool_socket_app
from tests.hub.clients import Wire, address, bare, bearer, connected
from tests.hub.tool_clients.wire_tool_clients import (
    CONFIG,
    ROLL,
    UPSTREAM,
    completed,
    execute,
    failure,
    frame,
    refused,
    register,
    registered,
    told,
    tool_client,
)
from tests.server import KEY, run, running

NO_FRAMES = [
    b"\x00\x01",
    b'{"type":"list_tools"}',
    "",
    "no json",
    "NaN",
    "[]",
    "3",
    "null",
    "{}",
    '{"type":null}',
    '{"type":3}',
    '{"type":"list_tools"',
    '{"type":"list_tools","data":NaN}',
    "[" * 5000 + "\\ud800",
]

BAD_FRAMES = [
    ({"type": "register_tool"}, "INVALID_ARGUMENTS"),
    ({"type": "register_tool", "data": []}, "INVALID_ARGUMENTS"),
    (frame("register_tool"), "INVALID_NAME"),
    (register(name=""), "INVALID_NAME"),
    (register(name="   "), "INVALID_NAME"),
    (register(name="x" * 129), "INVALID_NAME"),
    (register(name="a\x00b"), "INVALID_NAME"),
    (register(name="a\nb"), "INVALID_NAME"),
    (register(name="a\x85b"), "INVALID_NAME"),
    (frame("register_tool", name=3, schema=ROLL), "INVALID_NAME"),
    (frame("register_tool", name="", schema=3), "INVALID_NAME"),
    (frame("register_tool", name="roll"), "INVALID_SCHEMA"),
    (frame("register_tool", name="roll", schema=None), "INVALID_SCHEMA"),
    (frame("register_tool", name="roll", schema=[]), "INVALID_SCHEMA"),
    (register(schema={"type": "thing"}), "INVALID_SCHEMA"),
    (register(timeoutMs="5"), "INVALID_ARGUMENTS"),
    (register(timeoutMs=0), "INVALID_ARGUMENTS"),
    (register(timeoutMs=True), "INVALID_ARGUMENTS"),
    ({"type": "unregister_tool"}, "INVALID_ARGUMENTS"),
    (frame("unregister_tool", name="roll"), "TOOL_NOT_FOUND"),
    (frame("unregister_tool", name=None), "INVALID_NAME"),
    ({"type": "execute_tool", "data": "x"}, "INVALID_ARGUMENTS"),
    (frame("execute_tool", name="roll"), "INVALID_ARGUMENTS"),
    (execute(""), "INVALID_ARGUMENTS"),
    (execute("x" * 1025), "INVALID_ARGUMENTS"),
    (frame("execute_tool", executionId=1, name=""), "INVALID_ARGUMENTS"),
    (execute(name=""), "INVALID_NAME"),
    (frame("execute_tool", executionId="e", name="", args=[]), "INVALID_NAME"),
    (execute(args=None), "INVALID_ARGUMENTS"),
    (execute(args=[]), "INVALID_ARGUMENTS"),
    (execute(args="{}"), "INVALID_ARGUMENTS"),
    ({"type": "tool_execution_completed"}, "INVALID_ARGUMENTS"),
    (frame("tool_execution_completed", executionId=None), "INVALID_ARGUMENTS"),
    (completed("nobody"), "TOOL_NOT_FOUND"),
    (frame("tool_execution_failed", executionId="nobody"), "TOOL_NOT_FOUND"),
    (frame("cancel_execution", executionId="nobody"), "TOOL_NOT_FOUND"),
    (frame("cancel_execution"), "INVALID_ARGUMENTS"),
]

FAILURES = [
    ({"code": "NO_DICE", "message": "lost", "stack": "secret"}, ("NO_DICE", "lost")),
    ({"code": "TOOL_EXECUTION_FAILED", "message": "lost"}, ("TOOL_EXECUTION_FAILED", "lost")),
    ({"message": "lost"}, ("TOOL_EXECUTION_FAILED", "lost")),
    ({"code": 5, "message": "lost"}, ("TOOL_EXECUTION_FAILED", "lost")),
    ({"code": "x" * 65, "message": "lost"}, ("TOOL_EXECUTION_FAILED", "lost")),
    ("lost", ("TOOL_EXECUTION_FAILED", "lost")),
    ({"code": "X", "message": {}}, ("X", None)),
    (None, ("TOOL_EXECUTION_FAILED", None)),
    ([], ("TOOL_EXECUTION_FAILED", None)),
]


def test_the_composed_example_is_the_same_to_the_byte(tmp_path: Path) -> None:
    """mcp.md 1.3, whose frames are compact JSON; C is somebody who only listens."""
    schema = '{"type":"object","properties":{"sides":{"type":"integer","minimum":2}},"required":["sides"]}'
    asked = '{"executionId":"e1","name":"roll","args":{"sides":6}}'

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as a,
            tool_client(server) as b,
            tool_client(server) as c,
        ):

            async def texts(client: Wire, *expected: str) -> None:
                for text in expected:
                    assert await client.connection.recv() == text
                await client.nothing_waits()

            await a.send('{"type":"register_tool","data":{"name":"roll","schema":' + schema + "}}")
            for client in (a, b, c):
                await texts(client, '{"type":"tool_registered","data":{"name":"roll","schema":' + schema + "}}")
            await b.send('{"type":"execute_tool","data":' + asked + "}")
            started = '{"type":"tool_execution_started","data":' + asked + "}"
            await texts(a, started, '{"type":"execute_tool","data":' + asked + "}")
            await texts(b, started)
            await texts(c, started)
            done = '{"type":"tool_execution_completed","data":{"executionId":"e1","result":4}}'
            await a.send(done)
            for client in (a, b, c):
                await texts(client, done)

    run(main())


def test_a_frame_that_is_none_is_answered_with_a_fixed_text_and_the_connection_stays(tmp_path: Path) -> None:
    """WS-1, WS-2: SERVER_ERROR without words of a parser."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as client:
            message = "消息必须是带有字符串 type 的 JSON 对象 / a message must be a JSON object with a string type"
            error = {"code": "SERVER_ERROR", "message": message}
            for sent in NO_FRAMES:
                await client.send(sent)
                assert await client.receive() == {"type": "error", "error": error, "data": error}, sent
                await client.send({"type": "list_tools"})
                assert await client.receive() == {"type": "tools_list", "data": {"tools": []}}

    run(main())


def test_an_unknown_type_is_named_cut_to_64_characters(tmp_path: Path) -> None:
    """WS-3."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as client:
            await client.send({"type": "x" * 1000, "requestId": 7})
            answer = await client.receive()
            assert answer["requestId"] == 7
            assert answer["error"]["code"] == "SERVER_ERROR"
            assert "x" * 64 in answer["error"]["message"]
            assert "x" * 65 not in answer["error"]["message"]

    run(main())


def test_each_request_has_one_answer_that_repeats_its_id_and_nobody_else_sees_the_id(tmp_path: Path) -> None:
    """WS-1: requestId is a string or a number; other values are as good as none."""

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as owner,
            tool_client(server) as caller,
        ):
            await owner.send({**register(), "requestId": "r1"})
            assert (await owner.receive())["requestId"] == "r1"
            assert "requestId" not in await caller.receive()
            await caller.send({"type": "list_tools", "requestId": 1.5})
            assert (await caller.receive())["requestId"] == 1.5
            await caller.send({**execute(args={"sides": 6}), "requestId": "r2"})
            started = await caller.receive()
            assert (started["type"], started["requestId"]) == ("tool_execution_started", "r2")
            assert [("requestId" in one) for one in await told(owner, 2)] == [False, False]
            await owner.send({**completed(), "requestId": 0})
            assert (await owner.receive())["requestId"] == 0
            assert "requestId" not in await caller.receive()
            await caller.send({**execute("e2", args={"sides": 6}), "requestId": "r3"})
            await told(caller, 1)
            await told(owner, 2)
            await caller.send({**frame("cancel_execution", executionId="e2"), "requestId": "r4"})
            assert (await caller.receive())["requestId"] == "r4"
            assert [one["type"] for one in await told(owner, 2)] == ["execution_cancelled", "tool_execution_failed"]
            for odd in (None, True, [1], {"a": 1}, "x" * 1025):
                await caller.send({"type": "list_tools", "requestId": odd})
                assert "requestId" not in await caller.receive()
            await owner.send({**frame("unregister_tool", name="roll"), "requestId": "r5"})
            assert (await owner.receive())["requestId"] == "r5"

    run(main())


def test_bad_frames_are_refused_in_the_order_of_the_checks_and_nobody_else_is_told(tmp_path: Path) -> None:
    """1.1, WS-2, WS-4 - WS-6, WS-8, WS-10, WS-14."""

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as client,
            tool_client(server) as other,
        ):
            for sent, code in BAD_FRAMES:
                assert await refused(client, sent) == code, sent
                await client.nothing_waits()
            await other.nothing_waits()
            assert server.services.tool_clients.running() == 0
            assert server.services.tool_clients.tools() == {}

    run(main())


def test_an_error_names_the_run_and_the_tool_that_it_is_about(tmp_path: Path) -> None:
    """WS-2: the original shape, and the same with executionId and name in data."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as client:
            await client.send({**execute("e7", "roll", args=[]), "requestId": "q"})
            answer = await client.receive()
            assert answer == {
                "type": "error",
                "error": {"code": "INVALID_ARGUMENTS", "message": "args 必须是对象 / args must be an object"},
                "data": {
                    "code": "INVALID_ARGUMENTS",
                    "message": "args 必须是对象 / args must be an object",
                    "executionId": "e7",
                    "name": "roll",
                },
                "requestId": "q",
            }

    run(main())


def test_a_name_is_trimmed_and_belongs_to_one_connection(tmp_path: Path) -> None:
    """WS-4, WS-5: the same connection replaces the schema, another one gets TOOL_EXISTS; unknown fields are dropped."""

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as owner,
            tool_client(server) as other,
        ):
            await owner.send(register("  掷骰 roll-1.0 ", ROLL, description="d", colour="red"))
            expected = {"type": "tool_registered", "data": {"name": "掷骰 roll-1.0", "schema": ROLL}}
            assert await told(owner, 1) == [expected]
            assert await told(other, 1) == [expected]
            assert await refused(other, register("掷骰 roll-1.0")) == "TOOL_EXISTS"
            await other.nothing_waits()
            await owner.nothing_waits()
            changed = {"type": "object", "x-note": {"kept": [1, None]}}
            await owner.send(register("掷骰 roll-1.0", changed))
            assert (await owner.receive())["data"]["schema"] == changed
            assert (await other.receive())["data"]["schema"] == changed
            assert await refused(other, frame("unregister_tool", name="掷骰 roll-1.0")) == "TOOL_NOT_FOUND"
            await owner.send(frame("unregister_tool", name="掷骰 roll-1.0"))
            gone = {"type": "tool_unregistered", "data": {"name": "掷骰 roll-1.0", "reason": "unregistered"}}
            assert await told(owner, 1) == [gone]
            assert await told(other, 1) == [gone]
            await registered(other, owner, name="掷骰 roll-1.0")

    run(main())


def test_the_list_comes_to_who_asks_for_it_and_to_nobody_else(tmp_path: Path) -> None:
    """WS-7: by ?snapshot=1 or list_tools, sorted by name."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as owner:
            for name in ("b", "a", "C"):
                await registered(owner, name=name)
            tools = [{"name": name, "schema": ROLL} for name in ("C", "a", "b")]
            async with tool_client(server, "?snapshot=1") as asking, tool_client(server, "?snapshot=0") as quiet:
                assert await told(asking, 1) == [{"type": "tools_list", "data": {"tools": tools}}]
                await quiet.nothing_waits()
                await quiet.send({"type": "list_tools", "data": 7})
                assert await told(quiet, 1) == [{"type": "tools_list", "data": {"tools": tools}}]
                await owner.nothing_waits()

    run(main())


def test_an_unknown_tool_and_wrong_arguments_fail_after_the_start_was_told_to_all(tmp_path: Path) -> None:
    """WS-8; the caller may be the owner; the path of the first fault is named; the owner is not asked."""

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as owner,
            tool_client(server) as other,
        ):
            await registered(owner, other)
            await owner.send(execute("e1", "nothing"))
            for client in (owner, other):
                started, failed = await told(client, 2)
                assert started == {
                    "type": "tool_execution_started",
                    "data": {"executionId": "e1", "name": "nothing", "args": {}},
                }
                assert failure(failed)[0] == "TOOL_NOT_FOUND"
            await other.send(execute("e1", args={"sides": 1}))  # the id is free again
            for client in (owner, other):
                _, failed = await told(client, 2)
                code, message = failure(failed)
                assert code == "INVALID_ARGUMENTS"
                assert "args.sides" in message
            await other.send(execute("e2"))
            for client in (owner, other):
                _, failed = await told(client, 2)
                assert failure(failed, "e2")[0] == "INVALID_ARGUMENTS"

    run(main())


def test_the_owner_may_call_its_own_tool_and_gets_empty_arguments_as_an_object(tmp_path: Path) -> None:
    """WS-9."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as owner:
            await registered(owner, schema={"type": "object"})
            await owner.send(execute())
            data = {"executionId": "e1", "name": "roll", "args": {}}
            assert await told(owner, 2) == [
                {"type": "tool_execution_started", "data": data},
                {"type": "execute_tool", "data": data},
            ]
            await owner.send(frame("tool_execution_completed", executionId="e1", extra=1))
            assert await told(owner, 1) == [frame("tool_execution_completed", executionId="e1", result=None)]

    run(main())


def test_an_id_that_is_running_is_refused_privately(tmp_path: Path) -> None:
    """WS-8."""

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as owner,
            tool_client(server) as other,
        ):
            await registered(owner, other)
            await other.send(execute(args={"sides": 6}))
            await told(owner, 2)
            await told(other, 1)
            assert await refused(owner, execute(args={"sides": 8})) == "INVALID_ARGUMENTS"
            await other.nothing_waits()

    run(main())


def test_a_failure_is_told_in_our_shape_whatever_the_owner_sent(tmp_path: Path) -> None:
    """WS-10."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as owner:
            await registered(owner)
            for error, expected in FAILURES:
                await owner.send(execute(args={"sides": 6}))
                await told(owner, 2)
                await owner.send(frame("tool_execution_failed", executionId="e1", error=error, more=1))
                code, message = failure(*await told(owner, 1))
                assert code == expected[0]
                assert message == expected[1] if expected[1] is not None else message

    run(main())


def test_only_the_owner_settles_a_run_and_only_once(tmp_path: Path) -> None:
    """WS-10: from anybody else, or for an id that is settled, TOOL_NOT_FOUND and no broadcast."""

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as owner,
            tool_client(server) as other,
        ):
            await registered(owner, other)
            await other.send(execute(args={"sides": 6}))
            await told(owner, 2)
            await told(other, 1)
            assert await refused(other, completed()) == "TOOL_NOT_FOUND"
            assert await refused(other, frame("tool_execution_failed", executionId="e1")) == "TOOL_NOT_FOUND"
            await owner.send(completed(result=[1, {"a": None}]))
            assert await told(other, 1) == [completed(result=[1, {"a": None}])]
            assert await told(owner, 1) == [completed(result=[1, {"a": None}])]
            assert await refused(owner, completed()) == "TOOL_NOT_FOUND"
            await other.nothing_waits()

    run(main())


def test_results_and_arguments_beyond_their_limits_are_refused(tmp_path: Path) -> None:
    """WS-10, D62: results over the limit fail the run, arguments over theirs are refused before anybody is told."""

    async def main() -> None:
        config = (*CONFIG, "ToolSocketResultMB=1", "ToolSocketArgumentsMB=1")
        async with (
            running(tmp_path, UPSTREAM, config=config) as server,
            tool_client(server) as owner,
            tool_client(server) as other,
        ):
            await registered(owner, other, schema={"type": "object"})
            assert await refused(other, execute(args={"a": "x" * 2**20})) == "INVALID_ARGUMENTS"
            await owner.nothing_waits()
            await other.send(execute(args={"a": "x" * (2**20 - 9)}))
            await told(owner, 2)
            await told(other, 1)
            await owner.send(completed(result="x" * 2**20))
            assert failure(*await told(other, 1))[0] == "TOOL_EXECUTION_FAILED"
            assert failure(*await told(owner, 1))[0] == "TOOL_EXECUTION_FAILED"
            await owner.send('{"type":"execute_tool","data":{"executionId":"d","name":"roll","args":{"a":' + "[" * 5000)
            assert (await owner.receive())["error"]["code"] == "SERVER_ERROR"

    run(main())


def test_a_frame_beyond_the_limit_ends_the_connection_with_1009(tmp_path: Path) -> None:
    """WS-1, D62."""

    async def main() -> None:
        config = (*CONFIG, "ToolSocketFrameMB=1")
        async with running(tmp_path, UPSTREAM, config=config) as server, tool_client(server) as client:
            await client.send(execute(args={"a": "x" * 2**21}))
            assert (await client.goodbye())[0] == 1009

    run(main())


def test_a_run_that_takes_too_long_fails_and_a_late_answer_is_refused(tmp_path: Path) -> None:
    """WS-11: the tool's own limit beats the setting."""

    async def main() -> None:
        config = (*CONFIG, "ToolSocketSeconds=0.05")
        async with running(tmp_path, UPSTREAM, config=config) as server, tool_client(server) as owner:
            await registered(owner)
            await registered(owner, name="quick", timeoutMs=10)
            await registered(owner, name="slow", timeoutMs=10**9)
            assert server.services.tool_clients.tools()["slow"].timeout == 600
            for name in ("slow", "roll", "quick"):
                await owner.send(execute(name, name, args={"sides": 6}))
            failed = []
            while len(failed) < 2:
                answer = await owner.receive_type("tool_execution_failed")
                failed.append(answer["data"]["executionId"])
                assert answer["data"]["error"]["code"] == "TOOL_EXECUTION_FAILED"
                assert "timed out" in answer["data"]["error"]["message"]
            assert sorted(failed) == ["quick", "roll"]
            assert await refused(owner, completed("roll")) == "TOOL_NOT_FOUND"
            await owner.send(completed("slow"))
            assert await told(owner, 1) == [completed("slow")]

    run(main())


def test_when_an_owner_goes_its_runs_fail_first_and_then_its_tools_are_gone(tmp_path: Path) -> None:
    """WS-12: the names are free at once."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as caller:
            async with tool_client(server) as owner:
                await registered(owner, caller, name="a")
                await registered(owner, caller, name="b")
                for number in (1, 2):
                    await caller.send(execute(f"e{number}", "a", args={"sides": 6}))
                await told(caller, 2)
                await told(owner, 4)
                owner.connection.transport.abort()
                frames = [await caller.receive() for _ in range(4)]
            assert [failure(one, f"e{number}")[0] for number, one in enumerate(frames[:2], 1)] == [
                "TOOL_EXECUTION_FAILED"
            ] * 2
            assert frames[2:] == [frame("tool_unregistered", name=name, reason="disconnected") for name in ("a", "b")]
            await registered(caller, name="a")

    run(main())


def test_an_owner_that_answers_no_ping_is_gone_like_one_that_hangs_up(tmp_path: Path) -> None:
    """WS-12, WS-15, P81: two missed pongs; the caller, who answers, stays."""

    async def main() -> None:
        config = (*CONFIG, "SocketPingSeconds=0.1")
        async with running(tmp_path, UPSTREAM, config=config) as server, tool_client(server) as caller:
            async with tool_client(server) as owner:
                await registered(owner, caller)
                await caller.send(execute(args={"sides": 6}))
                await told(caller, 1)
                await told(owner, 2)
                owner.connection.transport.pause_reading()  # the line stays, nobody reads
                assert failure(await caller.receive())[0] == "TOOL_EXECUTION_FAILED"
                assert await told(caller, 1) == [frame("tool_unregistered", name="roll", reason="disconnected")]
                owner.connection.transport.abort()
            await registered(caller)

    run(main())


def test_the_limits_are_those_of_the_protocol_unless_an_operator_says_otherwise() -> None:
    """D62, D63, WS-11, WS-15, WS-16: sizes in MiB, times in seconds; without a setting there is no extra port."""
    settings, _ = read({})
    assert (settings.tool_socket_frame_mb, settings.tool_socket_arguments_mb, settings.tool_socket_result_mb) == (
        8,
        1,
        4,
    )
    assert (settings.tool_socket_seconds, MAX_TIMEOUT_SECONDS) == (60, 600)
    assert (settings.tool_socket_port, settings.tool_socket_host, settings.tool_socket_token) == (0, "127.0.0.1", "")
    assert (settings.tool_socket_max_connections, settings.tool_socket_frames_per_second) == (64, 100)
    assert (settings.socket_max_connections, settings.socket_frames_per_second) == (2000, 200)
    assert (settings.socket_ping_seconds, MISSED_PONGS) == (30, 2)
    assert (settings.socket_queue_mb, FRAMES_WAITING) == (16, 1000)
    assert settings.node_max_frame_mb == 128
    assert settings.socket_max_frame_mb == 1


def test_when_the_caller_goes_the_run_goes_on_for_those_who_are_left(tmp_path: Path) -> None:
    """WS-13."""

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as owner,
            tool_client(server) as other,
        ):
            await registered(owner, other)
            async with tool_client(server) as caller:
                await caller.send(execute(args={"sides": 6}))
                await told(owner, 2)
                await told(other, 1)
            while len(server.services.tool_clients.clients()) > 2:
                await asyncio.sleep(0)
            await owner.send(completed())
            assert await told(other, 1) == [completed()]
            assert await told(owner, 1) == [completed()]

    run(main())


@pytest.mark.parametrize("by", ["caller", "owner"])
def test_the_caller_and_the_owner_may_cancel_a_run_and_nobody_else(tmp_path: Path, by: str) -> None:
    """WS-14."""

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as owner,
            tool_client(server) as caller,
            tool_client(server) as other,
        ):
            await registered(owner, caller, other)
            await caller.send(execute(args={"sides": 6}))
            await told(owner, 2)
            await told(caller, 1)
            await told(other, 1)
            assert await refused(other, frame("cancel_execution", executionId="e1")) == "TOOL_NOT_FOUND"
            await (caller if by == "caller" else owner).send(frame("cancel_execution", executionId="e1"))
            cancelled, failed = await told(owner, 2)
            assert cancelled == frame("execution_cancelled", executionId="e1")
            code, message = failure(failed)
            assert code == "TOOL_EXECUTION_FAILED"
            assert "cancelled" in message
            assert await told(caller, 1) == [failed]
            assert await told(other, 1) == [failed]
            assert await refused(owner, completed()) == "TOOL_NOT_FOUND"
            await caller.send(execute(args={"sides": 6}))
            await caller.send(frame("cancel_execution", executionId="e1"))
            assert [one["type"] for one in await told(caller, 2)] == ["tool_execution_started", "tool_execution_failed"]

    run(main())


def test_runs_are_concurrent_and_every_start_is_told_before_its_end(tmp_path: Path) -> None:
    """WS-19: twenty runs at once, answered backwards."""

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as owner,
            tool_client(server) as caller,
        ):
            await registered(owner, caller)
            for number in range(20):
                await caller.send(execute(f"e{number}", args={"sides": 6}))
            asked = [(await owner.receive_type("execute_tool"))["data"]["executionId"] for _ in range(20)]
            assert asked == [f"e{number}" for number in range(20)]
            for execution_id in reversed(asked):
                await owner.send(completed(execution_id, execution_id))
            frames = await told(caller, 40)
            ids = [(one["type"], one["data"]["executionId"]) for one in frames]
            assert ids[:20] == [("tool_execution_started", one) for one in asked]
            assert ids[20:] == [("tool_execution_completed", one) for one in reversed(asked)]
            assert [one["data"]["executionId"] for one in await told(owner, 20)] == [f"e{n}" for n in range(19, -1, -1)]

    run(main())


def test_neither_arguments_nor_results_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """WS-18."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as owner:
            await registered(owner, schema={"type": "object", "properties": {"a": {"type": "integer"}}})
            await owner.send(execute(args={"b": "secret-argument"}))
            await told(owner, 2)
            await owner.send(completed(result="secret-result"))
            await told(owner, 1)
            await owner.send(execute(args={"a": "secret-argument"}))
            await told(owner, 2)
            await owner.send(execute(args={"b": 1}))
            await told(owner, 2)
            await owner.send(frame("tool_execution_failed", executionId="e1", error={"message": "secret-failure"}))
            await told(owner, 1)

    with caplog.at_level(logging.DEBUG, "app.hub"):
        run(main())
    text = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("app.hub"))
    assert "'roll' as 'e1', arguments of 23 bytes" in text
    assert "secret" not in text


def test_halves_of_characters_are_mended_and_everything_stays_json(tmp_path: Path) -> None:
    """JavaScript can send a text that was cut within a character."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as owner:
            await registered(owner, schema={"type": "object"})
            await owner.send(
                '{"type":"execute_tool",'
                '"data":{"executionId":"e1","name":"roll","args":{"a":"\\ud83d\\ude00 \\ud83d"}}}'
            )
            assert [one["data"]["args"] for one in await told(owner, 2)] == [{"a": "😀 \ufffd"}] * 2

    run(main())


def test_both_keys_open_the_path_and_none_or_a_wrong_one_do_not(tmp_path: Path) -> None:
    """D63: the main port always wants a key."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server:
            async with tool_client(server):
                pass
            headers = {"Authorization": bearer(KEY)}
            async with connected(bare(server.url, "/ws/tools"), additional_headers=headers) as client:
                await client.send({"type": "list_tools"})
                assert (await client.receive())["type"] == "tools_list"
            for where in (bare(server.url, "/ws/tools"), address(server.url, "/ws/tools", key="wrong")):
                with pytest.raises(InvalidStatus) as refusal:
                    async with connected(where):
                        pass
                assert refusal.value.response.status_code == 401

    run(main())


def test_clients_of_both_ports_meet(tmp_path: Path) -> None:
    """D63: on the extra port a program of this machine needs no key."""

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            serve(tool_socket_app(server.services, admission(server.services))) as url,
            tool_client(server) as caller,
            connected(f"ws{url.removeprefix('http')}/?snapshot=1") as owner,
        ):
            assert await told(owner, 1) == [{"type": "tools_list", "data": {"tools": []}}]
            await registered(owner, caller)
            await caller.send(execute(args={"sides": 6}))
            await told(owner, 2)
            await owner.send(completed())
            assert (await told(caller, 2))[1] == completed()
            await told(owner, 1)

    run(main())


def test_when_the_server_stops_everybody_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            async with running(tmp_path, UPSTREAM, config=CONFIG) as server:
                owner = await stack.enter_async_context(tool_client(server))
                await registered(owner)
                await owner.send(execute(args={"sides": 6}))
                await told(owner, 2)
                clients = server.services.tool_clients
            assert (await owner.goodbye(after_more=True))[0] == 1001
        assert (clients.running(), clients.clients(), dict(clients.tools())) == (0, (), {})

    run(main())


def test_the_frames_of_the_server_are_compact_json(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as owner:
            await owner.send(register())
            text = await owner.connection.recv()
            assert text == json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)

    run(main())
