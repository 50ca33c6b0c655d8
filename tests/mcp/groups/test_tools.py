"""The two tools (mcp.md 2.4 and 2.5, column "Ours")."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from app.config.approval_rules import read_rules
from app.errors import VcpError
from app.extend import (
    CallContext,
    CallFinished,
    CallProgress,
    Door,
    ErrorKind,
    ToolCall,
    ToolCommand,
    ToolResult,
    ToolSpec,
)
from app.hub.approval.guard import Approvals
from app.mcp.groups.groups import ServerGroup
from app.mcp.groups.tools import CALL_TOOL, GET_TOOLS
from app.observe.bus import EventBus
from app.tools.offers import DESCRIPTION_BYTES
from tests.mcp.groups.tables import CONTEXT, SCHEMA, Bench, Working, plugin, served, table, text_of
from tests.waiting import until

FILES = ServerGroup("files", "Reads and writes files")
DEAD = ServerGroup("dead", "Nobody home", "spawn failed: /opt/secret/run\n   at x (/opt/y.js:1)")


def command(bench: Bench, tool: str) -> ToolCommand:
    (one,) = bench.tools.tools()[tool].commands
    return one


def test_the_two_tools_are_there_as_soon_as_there_is_a_group() -> None:
    tools = Working(plugin("Sums"))
    bench = Bench(tools)
    assert bench.names() == ["Sums"]
    tools.replace(plugin("Sums", groups="maths"))
    assert bench.names() == ["Sums", CALL_TOOL, GET_TOOLS]


def test_where_nothing_else_is_shown_they_are_always_there_with_an_empty_enum() -> None:  # MOD-9
    bench = Bench(always=True)
    assert bench.names() == [CALL_TOOL, GET_TOOLS]
    for tool in (GET_TOOLS, CALL_TOOL):
        parameters = command(bench, tool).parameters
        assert parameters is not None
        assert parameters["properties"]["group"] == {"type": "string", "enum": []}


def test_the_description_names_the_groups_and_those_that_failed() -> None:  # mcp.md 2.4
    bench = Bench(Working(served("files", "read")), servers=(FILES, DEAD))
    purpose, empty, use, blank, heading, *groups = command(bench, GET_TOOLS).description.split("\n")
    assert purpose
    assert CALL_TOOL in use
    assert (empty, blank, heading) == ("", "", "Available groups:")
    assert groups == [
        "- files: Reads and writes files",
        "",
        "Unavailable groups (connection failed):",
        "- dead: Nobody home (Error: spawn failed: run)",
    ]


def test_the_schemas_list_connected_groups_in_the_order_of_the_configuration() -> None:  # mcp.md 2.4
    servers = (ServerGroup("z"), DEAD, ServerGroup("a"))
    bench = Bench(Working(), declared=table(mine={}), servers=servers)
    group = {"type": "string", "enum": ["mine", "z", "a"]}
    assert command(bench, GET_TOOLS).parameters == {
        "type": "object",
        "properties": {"group": group, "detail": {"type": "string", "enum": ["brief", "full"]}},
        "required": ["group"],
    }
    assert command(bench, CALL_TOOL).parameters == {
        "type": "object",
        "properties": {
            "group": group,
            "name": {"type": "string"},
            "args": {"type": "object", "additionalProperties": True},
        },
        "required": ["group", "name"],
    }


def test_many_groups_are_described_in_fewer_words_so_that_none_is_lost() -> None:  # MCP-20: doors cut at 8 KiB
    servers = tuple(ServerGroup(f"server-{number}", "words " * 60) for number in range(150))
    text = command(Bench(Working(), servers=servers), GET_TOOLS).description
    assert len(text.encode()) <= DESCRIPTION_BYTES
    assert all(f"- {server.name}: words" in text for server in servers)


def test_a_group_is_shown_as_a_list_of_names_descriptions_and_schemas() -> None:  # mcp.md 2.5, row 1
    async def main() -> None:
        bench = Bench(Working(served("files", "read", "Reads <a> file「字」")), servers=(FILES,))
        result = await bench.get("files")
        bare = {key: value for key, value in SCHEMA.items() if key != "$schema"}
        shown = [{"name": "read", "description": "Reads <a> file「字」", "inputSchema": bare}]
        assert text_of(result) == json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
        assert result.mcp is not None
        assert result.mcp["structuredContent"] == {"group": "files", "tools": shown}
        assert "isError" not in result.mcp
        assert result.structured == {"group": "files", "tools": shown}  # for models that read text

    asyncio.run(main())


def test_further_fields_come_only_when_they_are_asked_for() -> None:  # mcp.md 2.5: detail "full"
    async def main() -> None:
        rich = served("files", "read", "Reads", title="Read a file", output_schema={"type": "object"})
        poor = served("files", "stat", annotations={"readOnlyHint": True})
        bench = Bench(Working(rich, poor), servers=(FILES,))
        brief = json.loads(text_of(await bench.get("files", detail="brief")))
        assert [list(tool) for tool in brief] == [["name", "description", "inputSchema"], ["name", "inputSchema"]]
        full = json.loads(text_of(await bench.get("files", detail="full")))
        assert full[0]["title"] == "Read a file"
        assert full[0]["outputSchema"] == {"type": "object"}
        assert full[1]["annotations"] == {"readOnlyHint": True}
        assert "title" not in full[1]

    asyncio.run(main())


def test_plugins_without_parameters_are_described_by_their_text() -> None:  # D70
    async def main() -> None:
        bench = Bench(Working(plugin("Sums", "Adds. 参数 a, b", groups="maths")))
        assert json.loads(text_of(await bench.get("maths"))) == [
            {
                "name": "Sums",
                "description": "Adds. 参数 a, b",
                "inputSchema": {"type": "object", "additionalProperties": True},
            }
        ]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("tool", "arguments", "paths"),
    [
        (GET_TOOLS, {}, [["group"]]),
        (GET_TOOLS, {"group": 7}, [["group"]]),
        (GET_TOOLS, {"group": None}, [["group"]]),
        (CALL_TOOL, {}, [["group"], ["name"]]),
        (CALL_TOOL, {"group": "files", "name": ["read"]}, [["name"]]),
        (CALL_TOOL, {"group": "files", "name": "read", "args": [1]}, [["args"]]),
        (CALL_TOOL, {"group": "files", "name": "read", "args": 7}, [["args"]]),
    ],
)
def test_missing_arguments_are_told_as_issues(tool: str, arguments: dict[str, Any], paths: list[Any]) -> None:
    """mcp.md 2.5, rows 2 and 8: ``{"success":false,"error":[ISSUES]}``."""

    async def main() -> None:
        bench = Bench(Working(served("files", "read")), servers=(FILES,))
        result = await bench.router.call(ToolCall("outer", tool, arguments), CONTEXT)
        assert result.mcp is not None
        assert result.mcp["isError"] is True
        told = json.loads(text_of(result))
        assert told["success"] is False
        assert [issue["path"] for issue in told["error"]] == paths
        assert all(sorted(issue) == ["code", "expected", "message", "path"] for issue in told["error"])
        assert result.error_kind is ErrorKind.PLUGIN

    asyncio.run(main())


def fault_of(result: ToolResult) -> str:
    """The error of an answer ``{"success":false,"error":"…"}``."""
    assert result.mcp is not None
    assert result.mcp["isError"] is True
    told = json.loads(text_of(result))
    assert list(told) == ["success", "error"]
    assert told["success"] is False
    text: str = told["error"]
    return text


def test_unknown_and_failed_groups_are_told_so_that_a_model_can_read_it() -> None:  # mcp.md 2.5, rows 3 and 4
    async def main() -> None:
        async def tools_of(server: str) -> None:
            raise VcpError("connection refused: /opt/secret/run")

        bench = Bench(Working(), servers=(FILES, DEAD), tools_of=tools_of)
        assert "there is no group nobody; there are: files" in fault_of(await bench.get("nobody"))
        failed = fault_of(await bench.get("dead"))
        assert "group dead failed to connect: connection refused: run" in failed
        assert "/opt" not in failed
        assert "group dead failed to connect" in fault_of(await bench.run(group="dead", name="x"))
        assert "there is no group" in fault_of(await bench.run(group="n" * 5000, name="x"))

    asyncio.run(main())


def test_a_server_that_nobody_has_used_yet_is_asked_for_its_tools() -> None:  # MOD-12: a dead one again at its next use
    async def main() -> None:
        far = Working()
        asked: list[str] = []

        async def tools_of(server: str) -> None:
            asked.append(server)
            far.replace(served("files", "read"))

        bench = Bench(far, servers=(FILES,), tools_of=tools_of)
        assert (await bench.run(group="files", name="read", args={"path": "x"})).ok
        assert asked == ["files"]
        assert [tool["name"] for tool in json.loads(text_of(await bench.get("files")))] == ["read"]

    asyncio.run(main())


def test_a_call_goes_through_the_router_under_the_tools_own_name() -> None:
    async def main() -> None:
        seen: list[str] = []

        class Watching:
            async def check(self, spec: ToolSpec | None, call: ToolCall, context: CallContext) -> ToolResult | None:
                seen.append(call.tool)
                return None

        tools = Working(served("files", "read"))
        bench = Bench(tools, servers=(FILES,), guards=(Watching(),))
        context = replace(CONTEXT, client_ip="1.2.3.4", depth=3, eager=True)
        result = await bench.run(context, group="files", name="read", args={"path": "x", "lines": 2})
        assert result.structured == {"called": "files.read", "with": {"path": "x", "lines": 2}}
        assert seen == [CALL_TOOL, "files.read"]
        ((call, inner),) = tools.calls
        assert (inner.turn_id, inner.door, inner.client_ip, inner.depth) == ("turn-1", Door.MCP, "1.2.3.4", 3)
        assert (inner.parent_call_id, inner.eager, call.id) == ("outer", False, "inner-1")
        ended = [event for event in bench.heard if isinstance(event, CallFinished)]
        assert [event.call.tool for event in ended] == ["files.read", CALL_TOOL]

    asyncio.run(main())


def test_absent_args_are_an_empty_object() -> None:  # mcp.md 2.4
    async def main() -> None:
        bench = Bench(Working(plugin("Sums", groups="maths")))
        assert (await bench.run(group="maths", name="Sums")).structured == {"called": "Sums", "with": {}}
        assert (await bench.run(group="maths", name="Sums", args=None)).structured == {"called": "Sums", "with": {}}

    asyncio.run(main())


def test_a_tool_that_is_not_in_the_group_is_not_called() -> None:
    async def main() -> None:
        tools = Working(plugin("Sums", groups="maths"), plugin("Secret"), served("files", "read"))
        bench = Bench(tools, servers=(FILES,))
        assert "has no tool Secret; it has: Sums" in fault_of(await bench.run(group="maths", name="Secret"))
        assert "has no tool" in fault_of(await bench.run(group="maths", name=CALL_TOOL))
        assert "has no tool" in fault_of(await bench.run(group="maths", name="x" * 100_000))
        assert tools.calls == []
        assert (await bench.run(group="files", name="files.read", args={})).ok  # its name at other doors does too
        assert (await bench.run(group=" FILES ", name="read ", args={})).ok

    asyncio.run(main())


def test_what_a_door_denies_is_denied_behind_the_two_tools_too() -> None:
    async def main() -> None:
        tools = Working(plugin("Sums", groups="maths"), plugin("Shell", groups="maths"), served("files", "drop"))
        denied = {Door.MCP: ("Shell", "group:files")}
        bench = Bench(tools, servers=(FILES,), denied=lambda door: denied.get(door, ()))
        assert [tool["name"] for tool in json.loads(text_of(await bench.get("maths")))] == ["Sums"]
        assert json.loads(text_of(await bench.get("files"))) == []
        assert "has no tool Shell" in fault_of(await bench.run(group="maths", name="Shell"))
        assert "has no tool drop" in fault_of(await bench.run(group="files", name="drop"))
        assert tools.calls == []
        assert (await bench.run(replace(CONTEXT, door=Door.STREAM), group="maths", name="Shell")).ok

    asyncio.run(main())


def test_results_pass_as_they_are_without_what_belongs_to_the_connection() -> None:  # mcp.md 2.5, rows 5 and 6
    async def main() -> None:
        answer = {
            "content": [{"type": "text", "text": "t", "annotations": {"priority": 1}}],
            "structuredContent": {"n": 1},
            "isError": True,
            "_meta": {"progressToken": 7, "io.modelcontextprotocol/x": 1, "example.com/y": 2},
            "further": "field",
        }
        failed = ToolResult(error_kind=ErrorKind.PLUGIN, message="t", mcp=answer)
        bare = ToolResult(structured="x", mcp={"content": [], "_meta": {"progressToken": 7}})
        tools = Working(served("files", "read"), served("files", "list"), **{"files.read": failed, "files.list": bare})
        bench = Bench(tools, servers=(FILES,))
        assert (await bench.run(group="files", name="read")).mcp == {**answer, "_meta": {"example.com/y": 2}}
        assert (await bench.run(group="files", name="list")).mcp == {"content": []}

    asyncio.run(main())


@pytest.mark.parametrize("kind", [ErrorKind.EXECUTION, ErrorKind.TIMEOUT, ErrorKind.QUEUE, ErrorKind.REFUSED])
def test_errors_on_the_way_are_told_as_errors_of_the_proxy(kind: ErrorKind) -> None:  # mcp.md 2.5, row 7
    async def main() -> None:
        gone = ToolResult(error_kind=kind, message="the server is gone")
        bench = Bench(Working(served("files", "read"), **{"files.read": gone}), servers=(FILES,))
        result = await bench.run(group="files", name="read")
        assert fault_of(result) == "the server is gone"
        assert result.error_kind is kind  # what models of other doors are told is as in a call without groups

    asyncio.run(main())


def test_what_a_plugin_says_is_left_to_the_door() -> None:
    async def main() -> None:
        said = ToolResult(error_kind=ErrorKind.PLUGIN, message="no such planet")
        bench = Bench(Working(plugin("Sums", groups="maths"), Sums=said))
        assert await bench.run(group="maths", name="Sums") == said

    asyncio.run(main())


# ---------------------------------------------------------------------- calls that were written as text


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"args": '{"path": "x", "lines": 3}'}, {"path": "x", "lines": 3}),
        ({"args": '{"path": "x", "lines": "3"}'}, {"path": "x", "lines": 3}),  # converted by the tool's schema
        ({"args": '// mine\n{"path": "x",}'}, {"path": "x"}),
        ({"path": "x", "lines": "3"}, {"path": "x", "lines": 3}),  # flat, as in any call of text
        ({"path": "x", "args": '{"path": "y"}'}, {"path": "y"}),
        ({"args": ""}, {}),
        ({}, {}),
    ],
)
def test_calls_of_text_bring_arguments_as_json_or_flat(written: dict[str, str], expected: dict[str, Any]) -> None:
    async def main() -> None:
        bench = Bench(Working(served("files", "read")), servers=(FILES,))
        result = await bench.text(group="files", name="read", **written)
        assert result.structured == {"called": "files.read", "with": expected}

    asyncio.run(main())


@pytest.mark.parametrize("args", ["{oops", "[1]", "7", "[" * 50_000, '{"a": NaN}'])
def test_arguments_that_are_no_object_are_refused_with_the_reason(args: str) -> None:
    async def main() -> None:
        tools = Working(served("files", "read"))
        bench = Bench(tools, servers=(FILES,))
        assert "args" in fault_of(await bench.text(group="files", name="read", args=args))
        assert tools.calls == []

    asyncio.run(main())


def test_the_password_and_the_caller_go_on_with_the_call() -> None:
    async def main() -> None:
        tools = Working(plugin("Sums", groups="maths"))
        bench = Bench(tools)
        arguments = {"group": "maths", "name": "Sums"}
        call = ToolCall("outer", CALL_TOOL, arguments, arguments, password="123", maid="Nova")
        assert (await bench.router.call(call, CONTEXT)).ok
        assert (tools.calls[0][0].password, tools.calls[0][0].maid) == ("123", "Nova")

    asyncio.run(main())


# ---------------------------------------------------------------------- approvals, progress, cancelling


def test_with_approve_all_the_tool_itself_is_asked_about_and_once_only() -> None:
    async def main() -> None:
        rules, _ = read_rules(b'{"enabled": true, "approveAll": true}')
        tools = Working(plugin("Sums", groups="maths"))
        guard = Approvals(lambda: rules, EventBus(), clock=lambda: 0.0, new_id=lambda kind: "approval-1")
        guard.open = True
        bench = Bench(tools, guards=(guard,))
        running = asyncio.create_task(bench.run(group="maths", name="Sums"))
        await until(guard.pending)
        asked = [pending.call.tool for pending in guard.pending()]
        guard.answer("approval-1", approved=True, by="test")
        assert (await running).ok
        assert asked == ["Sums"]
        assert (await bench.get("maths")).ok

    asyncio.run(main())


def test_progress_of_the_tool_is_that_of_the_call_that_led_to_it() -> None:  # MCP-60
    async def main() -> None:
        class Slow(Working):
            async def call(self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Any) -> ToolResult:
                bench.events.publish(CallProgress(context.turn_id, call.id, 1, 2, "half"))
                return ToolResult(structured="done")

        bench = Bench(Slow(served("files", "read")), servers=(FILES,))
        bench.events.listen(bench.tools.progressed, CallProgress)
        assert (await bench.run(group="files", name="read")).ok
        told = [event for event in bench.heard if isinstance(event, CallProgress)]
        assert {event.call_id: (event.progress, event.total, event.message) for event in told} == {
            "inner-1": (1, 2, "half"),
            "outer": (1, 2, "half"),
        }
        bench.events.publish(CallProgress("turn-1", "inner-1", 2, 2))
        assert [event.call_id for event in bench.heard if isinstance(event, CallProgress)].count("outer") == 1

    asyncio.run(main())


def test_cancelling_the_call_cancels_the_tools_work() -> None:  # MCP-13, MCP-60
    async def main() -> None:
        cancelled: list[str] = []

        class Endless(Working):
            async def call(self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Any) -> ToolResult:
                started()
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.append(call.tool)
                raise AssertionError

        begun = asyncio.Event()
        bench = Bench(Endless(served("files", "read")), servers=(FILES,))
        running = asyncio.create_task(bench.run(group="files", name="read"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert cancelled == ["files.read"]

    asyncio.run(main())


def test_who_wants_to_know_is_told_when_groups_change() -> None:
    bench = Bench(Working(plugin("Sums", groups="maths")))
    told: list[str] = []
    bench.tools.changed(lambda: told.append("changed"))
    bench.tools.look()
    bench.tools.look()
    assert told == []
    bench.declared = table(mine={"description": "d"})
    bench.tools.look()
    bench.tools.look()
    assert told == ["changed"]
