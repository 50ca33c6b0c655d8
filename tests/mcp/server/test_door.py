"""The door as clients of both eras see it: life cycle, calls, faults."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from app.extend import CallContext, Door, ErrorKind, ToolCall, ToolResult
from app.mcp.server.door import Asker
from tests.mcp.server.bench import ERAS, MODERN, DoorBench, answering, says
from tests.mcp.server.raw import connected, modern
from tests.server import run
from tests.waiting import until

# --- life cycle -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_mcp_1_mcp_2_a_supported_version_is_echoed(version: str) -> None:
    async def main() -> None:
        async with DoorBench(instructions="read me") as bench, connected(bench.door) as raw:
            result = (await raw.hello(version))["result"]
            assert result["protocolVersion"] == version
            assert result["serverInfo"].keys() >= {"name", "version", "title"}
            assert result["instructions"] == "read me"

    run(main())


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", "x"])
def test_mcp_2_any_other_version_is_answered_with_the_newest_that_has_sessions(version: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            assert (await raw.hello(version))["result"]["protocolVersion"] == "2025-11-25"

    run(main())


def test_mcp_9_only_what_is_there_is_promised() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            capabilities = (await raw.hello())["result"]["capabilities"]
            assert capabilities == {"tools": {"listChanged": True}, "logging": {}}
            for method in ("resources/list", "prompts/list", "completion/complete", "resources/subscribe"):
                assert (await raw.ask(method, {"uri": "x"}))["error"]["code"] in (-32601, -32602)

    run(main())


def test_mcp_31_discover_tells_versions_capabilities_and_how_long_it_holds() -> None:
    async def main() -> None:
        async with DoorBench(instructions="read me") as bench, connected(bench.door) as raw:
            result = (await raw.ask("server/discover", modern()))["result"]
            assert result["supportedVersions"] == [MODERN]
            assert result["capabilities"]["tools"] == {"listChanged": True}
            assert result["instructions"] == "read me"
            assert (result["ttlMs"], result["cacheScope"], result["resultType"]) == (0, "private", "complete")
            listed = (await raw.ask("tools/list", modern()))["result"]
            assert (listed["ttlMs"], listed["cacheScope"], listed["resultType"]) == (0, "private", "complete")

    run(main())


def test_mcp_31_a_modern_request_without_its_envelope_is_refused() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            await raw.ask("tools/list", modern())
            assert (await raw.ask("tools/list", {}))["error"]["code"] == -32602
            half = {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}}
            assert (await raw.ask("tools/list", half))["error"]["code"] == -32602
            other = modern(meta={"io.modelcontextprotocol/protocolVersion": "2027-01-01"})
            error = (await raw.ask("tools/list", other))["error"]
            assert error["code"] == -32022
            assert error["data"] == {"supported": [MODERN], "requested": "2027-01-01"}

    run(main())


def test_mcp_5_a_method_that_is_none_is_32601_in_both_eras() -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            async with connected(bench.door) as raw:
                await raw.hello()
                assert (await raw.ask("tools/eat"))["error"]["code"] == -32601
            async with connected(bench.door) as raw:
                assert (await raw.ask("tools/eat", modern()))["error"]["code"] == -32601

    run(main())


def test_mcp_10_before_the_handshake_only_ping_is_served() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            assert (await raw.ask("ping"))["result"] == {}
            assert (await raw.ask("tools/list"))["error"]["code"] in (-32602, -32600)

    run(main())


def test_mcp_11_ping_is_answered_at_any_time_of_a_session_and_unknown_to_the_newest_revision() -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            async with connected(bench.door) as raw:
                await raw.hello()
                assert (await raw.ask("ping"))["result"] == {}
            async with connected(bench.door) as raw:
                await raw.ask("server/discover", modern())
                assert (await raw.ask("ping", modern()))["error"]["code"] == -32601

    run(main())


def test_mcp_7_unknown_notifications_and_fields_are_passed_by() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Echo", says)
            await raw.hello()
            await raw.send("notifications/unheard/of", {"a": 1})
            await raw.send("notifications/tools/list_changed")
            params = {"name": "Echo", "arguments": {"a": 1}, "_meta": {"x/y": {"z": 1}}, "extra": [1]}
            result = (await raw.ask("tools/call", params))["result"]
            assert result["structuredContent"] == {"said": {"a": 1}}

    run(main())


# --- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_a_tool_is_listed_and_called(era: str) -> None:
    """D68: the router hears the full name, D66: the door is the MCP server's."""

    async def main() -> None:
        async with DoorBench(asker=lambda _: Asker("me", "10.0.0.7", 2)) as bench:
            bench.tools.add("Echo", says, display="回声")
            async with bench.client(era) as client:
                (tool,) = (await client.list_tools()).tools
                assert (tool.name, tool.title, tool.description) == ("Echo", "回声", "Runs Echo")
                result = await client.call_tool("Echo", {"a": [1, None], "maid": "Nova"})
                assert result.structured_content == {"said": {"a": [1, None], "maid": "Nova"}}
                assert not result.is_error
                assert [part.type for part in result.content] == ["text"]
            (call,), (context,) = bench.tools.calls, bench.tools.contexts
            assert (call.tool, call.maid, context.turn_id) == ("Echo", "Nova", call.id)
            assert (context.door, context.client_ip, context.depth) == (Door.MCP, "10.0.0.7", 2)
            assert context.caller is not None

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_mcp_21_an_unknown_or_hidden_tool_is_an_error_of_the_protocol_with_a_hint(era: str) -> None:
    """STD-36: -32602, ``data.hint``, ``data.availableToolCount``."""

    async def main() -> None:
        async with DoorBench() as bench:
            bench.tools.add("Echo", says)
            bench.tools.add("Hidden", says)
            bench.shown = type(bench.shown)(deny=("Hidden",))
            async with bench.client(era) as client:
                for name in ("Nobody", "Hidden", "", "x" * 100_000):
                    with pytest.raises(MCPError) as caught:
                        await client.call_tool(name, {})
                    assert caught.value.code == -32602
                    assert len(caught.value.message) < 1000
                    assert caught.value.data["availableToolCount"] == 1
                    assert "tools/list" in caught.value.data["hint"]
            assert bench.tools.calls == []

    run(main())


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", MODERN])
def test_mcp_22_std_37_d71_arguments_that_are_no_object_are_invalid_parameters(version: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Echo", says)
            if version != MODERN:
                await raw.hello(version)
            for arguments in ([], [1], "text", 1, True):
                params: Any = {"name": "Echo", "arguments": arguments}
                answer = await raw.ask("tools/call", modern(params) if version == MODERN else params)
                assert answer["error"]["code"] == -32602
            params = {"name": "Echo"}
            answer = await raw.ask("tools/call", modern(params) if version == MODERN else params)
            assert "isError" not in answer["result"]  # absent is {}
            assert [dict(call.arguments) for call in bench.tools.calls] == [{}]

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_p86_null_for_an_argument_that_was_left_open_is_none_at_all(era: str) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "u": {"type": ["string", "null"]}, "need": {"type": "string"}},
        "required": ["need"],
        "additionalProperties": False,
    }

    async def main() -> None:
        async with DoorBench() as bench:
            bench.tools.add("Echo", says, parameters=schema)
            async with bench.client(era) as client:
                assert not (await client.call_tool("Echo", {"n": None, "u": None, "need": "x"})).is_error
                refused = await client.call_tool("Echo", {"need": None})
                assert refused.is_error and "$.need" in refused.content[0].text
            assert [dict(call.arguments) for call in bench.tools.calls] == [{"u": None, "need": "x"}]

    run(main())


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25", MODERN])
def test_mcp_22_d71_all_other_faults_are_results_that_name_the_path(version: str) -> None:
    """STD-37: keys that a closed schema does not know are refused too."""

    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            schema = {
                "type": "object",
                "properties": {
                    "a": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "null"}}}}
                },
                "required": ["a"],
                "additionalProperties": False,
            }
            bench.tools.add("Strict", says, parameters=schema)
            if version != MODERN:
                await raw.hello(version)
            for arguments, path in (
                ({}, "$"),
                ({"a": [], "z": 1}, "$"),
                ({"a": 1}, "$.a"),
                ({"a": [{"b": 1}]}, "$.a[0].b"),
            ):
                params: Any = {"name": "Strict", "arguments": arguments}
                result = (await raw.ask("tools/call", modern(params) if version == MODERN else params))["result"]
                assert result["isError"] is True
                assert f" {path} " in result["content"][0]["text"]
                assert result["content"][0]["text"].startswith("错误：")
            assert bench.tools.calls == []

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_mcp_23_a_structured_result_fits_the_declared_schema_or_is_an_error(era: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
            bench.tools.add("Good", answering(ToolResult(structured={"n": 1})), output_schema=schema)
            bench.tools.add("Bad", answering(ToolResult(structured={"n": "1"})), output_schema=schema)
            bench.tools.add("Text", answering(ToolResult(structured="1")), output_schema=schema)
            refused = ToolResult(error_kind=ErrorKind.PLUGIN, message="no")
            bench.tools.add("Fails", answering(refused), output_schema=schema)
            async with bench.client(era) as client:
                await client.list_tools()  # the SDK's client checks results against the listed schemas itself
                good = await client.call_tool("Good", {})
                assert (good.is_error, good.structured_content) == (False, {"n": 1})
                assert '"n": 1' in good.content[0].text  # type: ignore[union-attr]
                for name, path in (("Bad", "$.n"), ("Text", "$")):
                    bad = await client.call_tool(name, {})
                    assert bad.is_error and path in bad.content[0].text  # type: ignore[union-attr]
                assert (await client.call_tool("Fails", {})).content[0].text == "错误：no"  # type: ignore[union-attr]

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_the_code_of_the_hour_is_no_argument_of_the_tool(era: str) -> None:
    """D30: with ``VCPToolCode`` every door asks for it; a closed schema does not refuse it."""

    async def main() -> None:
        async with DoorBench() as bench:
            bench.tools.add("Closed", says, parameters={"type": "object", "additionalProperties": False})
            async with bench.client(era) as client:
                assert (await client.call_tool("Closed", {"tool_password": "123"})).is_error
                bench.rules = type(bench.rules)(password_wanted=True)
                assert not (await client.call_tool("Closed", {"tool_password": "123"})).is_error
                assert not (await client.call_tool("Closed", {"tool_password": 7})).is_error
            first, second = bench.tools.calls
            assert (first.password, dict(first.arguments), second.password) == ("123", {}, None)

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_is_refused_as_a_whole_is_told_why(era: str) -> None:
    async def main() -> None:
        async with DoorBench(asker=lambda _: Asker(refusal="too deep")) as bench:
            bench.tools.add("Echo", says)
            async with bench.client(era) as client:
                result = await client.call_tool("Echo", {})
                assert result.is_error and result.content[0].text == "错误：too deep"  # type: ignore[union-attr]
            assert bench.tools.calls == []

    run(main())


def slow_tool(bench: DoorBench) -> asyncio.Event:
    """Add the tool Slow, whose calls end when the event is set."""
    ended = asyncio.Event()

    async def work(call: ToolCall, context: CallContext) -> ToolResult:
        await ended.wait()
        return ToolResult(structured="done")

    bench.tools.add("Slow", work)
    return ended


@pytest.mark.parametrize("era", ERAS)
def test_mcp_27_std_39_calls_overlap_the_rest_waits_and_lists_and_pings_do_not(era: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            bench.rules = type(bench.rules)(max_running=3, max_running_per_client=2)
            ended = slow_tool(bench)
            async with bench.client(era) as client:
                calls = [asyncio.create_task(client.call_tool("Slow", {})) for _ in range(5)]
                await until(lambda: len(bench.tools.calls) == 2 and bench.door.running == 5)
                assert len((await client.list_tools(cache_mode="bypass")).tools) == 1
                if era == "legacy":
                    with pytest.warns(MCPDeprecationWarning):  # the newest revision has none
                        await client.send_ping()
                assert len(bench.tools.calls) == 2
                ended.set()
                for result in await asyncio.gather(*calls):
                    assert not result.is_error
            assert bench.door.running == 0

    run(main())


def test_mcp_27_two_sessions_have_their_limits_each() -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            bench.rules = type(bench.rules)(max_running=3, max_running_per_client=2)
            ended = slow_tool(bench)
            async with bench.client("legacy") as one, bench.client("legacy") as two:
                calls = [asyncio.create_task(client.call_tool("Slow", {})) for client in (one, one, one, two, two)]
                await until(lambda: len(bench.tools.calls) == 3 and bench.door.running == 5)
                ended.set()
                await asyncio.gather(*calls)

    run(main())


def test_a_tool_that_breaks_is_an_error_result_without_its_stack() -> None:
    """MCP-24, STD-47."""

    async def main() -> None:
        async def breaks(call: ToolCall, context: CallContext) -> ToolResult:
            raise RuntimeError("at /srv/secret/place.py\nline two")

        async with DoorBench() as bench:
            bench.tools.add("Breaks", breaks)
            async with bench.client(MODERN) as client:
                result = await client.call_tool("Breaks", {})
                text = result.content[0].text  # type: ignore[union-attr]
                assert result.is_error and text == "错误：RuntimeError: at place.py line two"

    run(main())
