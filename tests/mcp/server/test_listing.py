"""What ``tools/list`` says, in which order, in pages, for each revision (MCP-15, MCP-20, MCP-25; D5, D68-D70)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from app.extend import ToolCommand, ToolSpec
from app.mcp.server.listing import PAGE_SIZE, ToolList, page
from app.tools.offers import DESCRIPTION_BYTES, Offered
from tests.mcp.server.bench import ERAS, MODERN, DoorBench, says
from tests.mcp.server.raw import connected, modern
from tests.server import run

SESSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


async def listed(bench: DoorBench, version: str) -> list[dict[str, Any]]:
    async with connected(bench.door) as raw:
        if version == MODERN:
            answer = await raw.ask("tools/list", modern())
        else:
            await raw.hello(version)
            answer = await raw.ask("tools/list")
        found: list[dict[str, Any]] = answer["result"]["tools"]
        return found


def command(word: str, **fields: Any) -> ToolCommand:
    return ToolCommand(id=word, command=word, description=f"Does {word}", **fields)


@pytest.mark.parametrize("era", ERAS)
def test_mcp_15_a_list_of_many_tools_comes_in_pages_of_200_and_nothing_is_lost(era: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            names = [f"T{number:04}" for number in range(2 * PAGE_SIZE + 1)]
            for name in reversed(names):
                bench.tools.add(name, says)
            async with bench.client(era) as client:
                found: list[str] = []
                sizes: list[int] = []
                cursor = None
                while True:
                    answer = await client.list_tools(cursor=cursor)
                    found += [tool.name for tool in answer.tools]
                    sizes.append(len(answer.tools))
                    cursor = answer.next_cursor
                    if cursor is None:
                        break
                    assert not cursor.startswith("T0")  # opaque
                assert (found, sizes) == (names, [200, 200, 1])

    run(main())


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "VDk5OTk=", "\ud83d\ude00", "é", "QQ", "A" * 10_000])
def test_mcp_15_an_unknown_cursor_is_invalid_parameters(era: str, cursor: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            bench.tools.add("One", says)
            async with bench.client(era) as client:
                with pytest.raises(MCPError) as caught:
                    await client.list_tools(cursor=cursor)
                assert caught.value.code == -32602

    run(main())


def test_mcp_15_pages_fit_together_while_tools_come_and_go() -> None:
    """Tools that come in front, or behind, neither repeat nor hide what is behind the cursor."""
    names = [f"T{number:04}" for number in range(PAGE_SIZE + 5)]
    first, cursor = page(names, None, str)
    grown = sorted([*names, "A", "T0003a", "Z"])
    second, end = page(grown, cursor, str)
    assert [*first, *second] == [*names, "Z"] and end is None
    with pytest.raises(Exception, match="cursor"):
        page(names[: PAGE_SIZE - 1], cursor, str)  # the tool of the cursor is gone: the client lists anew


@pytest.mark.parametrize("version", [*SESSIONS, MODERN])
def test_each_revision_is_told_what_it_knows(version: str) -> None:
    """MCP-23, MCP-25: annotations from 2025-03-26 on, titles and output schemas from 2025-06-18 on."""

    async def main() -> None:
        async with DoorBench() as bench:
            schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
            bench.tools.add(
                "Count",
                says,
                title="数",
                parameters=schema,
                output_schema={"type": "object"},
                annotations={"readOnlyHint": True, "title": 3, "unknown": True},
            )
            bench.tools.add("List", says, output_schema={"type": "array"})
            count, array = await listed(bench, version)
            assert count["inputSchema"] == schema
            assert count.get("annotations") == ({"readOnlyHint": True} if version >= "2025-03-26" else None)
            assert count.get("title") == ("数" if version >= "2025-06-18" else None)
            assert count.get("outputSchema") == ({"type": "object"} if version >= "2025-06-18" else None)
            assert array.get("outputSchema") == ({"type": "array"} if version == MODERN else None)
            assert "annotations" not in array  # MCP-25: absent is omitted

    run(main())


def test_std_33_d69_commands_keep_the_order_of_their_manifest_and_their_own_names() -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            bench.tools.add("Novel", says, command("z", tool_name="novel_z"), command("a", tool_name="novel_a"))
            bench.tools.add("Disk", says, command("write"), command("read"))
            names = [tool["name"] for tool in await listed(bench, MODERN)]
            assert names == ["Disk.write", "Disk.read", "novel_z", "novel_a"]
            assert names == [tool["name"] for tool in await listed(bench, "2025-11-25")]

    run(main())


def test_mcp_20_names_are_legal_and_descriptions_cut_at_8_kib() -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            bench.tools.add("天气 查询", says, description="长" * 5000)
            bench.tools.add("_____", says)
            first, second = await listed(bench, MODERN)
            assert {first["name"], second["name"]} == {"_____", "______2"[-7:]} or second["name"].startswith("_____")
            assert first["name"] != second["name"]
            text = next(tool["description"] for tool in (first, second) if "长" in tool["description"])
            assert DESCRIPTION_BYTES < len(text.encode()) <= DESCRIPTION_BYTES + 3
            async with bench.client(MODERN) as client:
                for tool in (first, second):
                    assert not (await client.call_tool(tool["name"], {})).is_error
            assert {call.tool for call in bench.tools.calls} == {"天气 查询", "_____"}

    run(main())


def test_d70_d5_schemas_are_those_of_the_manifest_or_open() -> None:
    """P86: no schema is callable; P88: names such as ``__top``, ``$filter``, ``a-b`` stay as they are."""

    async def main() -> None:
        async with DoorBench() as bench:
            bench.tools.add("Open", says)
            odd = {"properties": {"__top": {}, "$filter": {"$ref": "#/$defs/x"}, "a-b": {}}, "$defs": {"x": {}}}
            bench.tools.add("Odd", says, parameters=odd)
            odd_tool, open_tool = await listed(bench, MODERN)
            assert open_tool["inputSchema"] == {"type": "object", "additionalProperties": True}
            assert odd_tool["inputSchema"] == {**odd, "type": "object"}  # unchanged but for the root's type

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_mcp_20_the_commands_of_a_tool_are_one_mcp_tool_when_configured(era: str) -> None:
    """``MCPCommandEnum``: one tool with a ``command`` enum; single commands and own names stay as they are."""

    async def main() -> None:
        async with DoorBench() as bench:
            bench.rules = type(bench.rules)(command_enum=True)
            number = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
            bench.tools.add("Disk", says, command("write", parameters=number), command("read"), display="盘")
            bench.tools.add("Own", says, command("x", tool_name="own_x"), command("y"))
            bench.tools.add("Single", says)
            async with bench.client(era) as client:
                tools = {tool.name: tool for tool in (await client.list_tools()).tools}
                assert list(tools) == ["Disk", "own_x", "Own.y", "Single"]
                schema = tools["Disk"].input_schema
                assert schema["properties"] == {"command": {"type": "string", "enum": ["write", "read"]}}
                assert schema["required"] == ["command"]
                assert "write: Does write" in (tools["Disk"].description or "")
                assert not (await client.call_tool("Disk", {"command": "write", "n": 1})).is_error
                for wrong in ({}, {"command": "format"}, {"command": 1}, {"command": "write", "m": 1}):
                    refused = await client.call_tool("Disk", wrong)
                    assert refused.is_error
                with pytest.raises(MCPError):
                    await client.call_tool("Disk.write", {})
            (call,) = bench.tools.calls
            assert (call.command, dict(call.arguments)) == ("write", {"n": 1})

    run(main())


def test_d31_operator_values_are_put_into_descriptions_of_this_machine_only() -> None:
    async def main() -> None:
        values = {"port": "6005"}
        expanders = {port: (lambda text, port=port: text.replace("{{Port}}", port)) for port in ("6005", "7000")}
        async with DoorBench(expander=lambda: expanders[values["port"]]) as bench:
            bench.tools.add("Here", says, description="at {{Port}}, key {{Image_Key}}")
            bench.tools.add("There", says, description="at {{Port}}", origin="mcp:there")
            here, there = await listed(bench, MODERN)
            assert here["description"] == "at 6005, key {{Image_Key}}"
            assert there["description"] == "at {{Port}}"
            values["port"] = "7000"
            assert (await listed(bench, MODERN))[0]["description"] == "at 7000, key {{Image_Key}}"

    run(main())


@pytest.mark.parametrize("version", [*SESSIONS, MODERN])
def test_one_odd_tool_does_not_cost_a_client_the_list(version: str) -> None:
    """A manifest or an upstream with a schema that the protocol cannot write, half characters, endless nesting."""

    async def main() -> None:
        deep: dict[str, Any] = {}
        for _ in range(500):
            deep = {"properties": {"a": deep}}
        async with DoorBench() as bench:
            bench.tools.add("A", says, parameters={"type": "object", "properties": []})
            bench.tools.add("B", says, parameters={"type": "object", "$schema": 3})
            bench.tools.add("C", says, parameters=deep)
            bench.tools.add("D", says, description="half \ud83d", title="\ud83d", annotations={"readOnlyHint": "yes"})
            bench.tools.add("E", says, output_schema={"type": "object", "required": 7})
            bench.tools.add("F", says)
            tools = {tool["name"]: tool for tool in await listed(bench, version)}
            assert list(tools) == ["A", "B", "C", "D", "E", "F"]
            for name in "BC":
                assert tools[name]["inputSchema"] == {"type": "object", "additionalProperties": True}
            assert tools["D"]["description"] == "half \ufffd"

    run(main())


def test_titles_are_short() -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            bench.tools.add("A", says, title="t" * 5000)
            (tool,) = await listed(bench, MODERN)
            assert len(tool["title"]) == 200

    run(main())


class _Noted(dict[str, Any]):
    """A schema that notes that somebody has written it out."""

    written = False

    def __iter__(self) -> Iterator[str]:
        self.written = True
        return super().__iter__()

    def keys(self) -> Any:
        self.written = True
        return super().keys()


def test_a_page_costs_the_work_for_its_own_tools_and_no_others() -> None:
    """With ten thousand tools the first list would otherwise hold up everybody else for half a second."""
    schemas = [_Noted({"type": "object"}) for _ in range(2 * PAGE_SIZE)]
    offered = tuple(
        Offered(f"T{number:04}", f"T{number:04}", "", "says", schema, ToolSpec(f"T{number:04}", "mcp:x", "says"), None)
        for number, schema in enumerate(schemas)
    )
    tools = ToolList(lambda: offered, lambda: False)
    entries, cursor = tools.page(None, "2026-07-28")
    assert [entry["name"] for entry in entries] == [one.name for one in offered[:PAGE_SIZE]]
    assert [schema.written for schema in schemas] == [True] * PAGE_SIZE + [False] * PAGE_SIZE
    entries, end = tools.page(cursor, "2026-07-28")
    assert [entry["name"] for entry in entries] == [one.name for one in offered[PAGE_SIZE:]]
    assert end is None
