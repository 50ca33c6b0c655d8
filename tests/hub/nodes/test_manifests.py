"""What is read of hostile manifests and messages: limits, wrong types, and a server that goes on serving."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.extend import CallContext, Door, Found, PromptContext, ToolCall
from app.hub.nodes import manifests as node_manifests
from app.hub.nodes.manifests import Offered, is_tool_name, read_announced, read_tools
from app.hub.nodes.placeholders import MAX_ALL_CHARS, MAX_KEYS, NODE_VALUES, NodePlaceholders
from app.hub.nodes.results import result_of
from app.plugins.far_manifest import far_tool
from tests.hub.nodes.test_names import Board, settled
from tests.hub.nodes.wire_nodes import call, main_server, manifest, node
from tests.server import run

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
"""Any JSON value."""

FIELDS = [
    *("serverName", "tools", "requestId", "status", "result", "error", "localIPs", "publicIP", "placeholders"),
    *("callbackData", "version", "labels", "capabilities", "pluginName", "taskId", "name", "pluginType", "entryPoint"),
    *("communication", "timeout", "displayName", "webSocketPush", "enabled", "invocationCommands", "parameters"),
    *("description", "command", "idempotent", "maxRunning", "toolName", "typed", "example", "message", "content"),
]


def shaped(depth: int) -> st.SearchStrategy[Any]:
    """JSON with the fields that are looked at, in any place and with any value."""
    if depth == 0:
        return JSON
    inner = shaped(depth - 1)
    return st.one_of(JSON, st.dictionaries(st.sampled_from(FIELDS), inner, max_size=8), st.lists(inner, max_size=3))


TYPES = ("register_tools", "report_ip", "update_static_placeholders", "tool_result", "plugin_callback_forward", "odd")


def read(*entries: Any) -> Offered:
    steps = read_tools(entries, (), far_tool)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            offered: Offered = end.value
            return offered


@pytest.mark.parametrize(
    "name",
    ["", " ", " a", "a#b", "a{b", "}}", "a\nb", "a\0", "x" * 129, "\u202eabc", None, 7, ["a"], {}, "「始」"],
)
def test_names_that_could_not_be_called_or_stood_in_a_prompt_are_no_tools(name: Any) -> None:
    assert not is_tool_name(name)
    assert read(manifest("ok"), {**manifest("x"), "name": name}) == Offered(read(manifest("ok")).tools, 1)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        "text",
        [],
        {},
        {"name": "A"},
        {"name": "A", "pluginType": "synchronous"},
        {"name": "A", "pluginType": "", "entryPoint": {}},
        {"name": "A", "pluginType": ["x"], "entryPoint": {"a": 1}},
    ],
)
def test_what_lacks_name_type_or_entry_point_is_no_tool(entry: Any) -> None:
    assert read(entry) == Offered({}, 1)


def test_the_first_of_two_tools_with_one_name_counts() -> None:
    offered = read(manifest("A", displayName="one"), manifest("A", displayName="two"))
    assert (offered.tools["A"].display, offered.unusable) == ("[云端] one", 1)


def test_odd_fields_cost_themselves_and_nothing_else() -> None:
    odd = manifest(
        "A",
        displayName=["x"],
        communication="no",
        webSocketPush={"enabled": True, "messageType": "x" * 999},
        idempotent="maybe",
        maxRunning=-1,
        labels=["ok", "a#b", 7, "x" * 99],
        refreshIntervalCron="0 0 30 2 *",
        configSchema={str(number): 1 for number in range(1000)},
        capabilities={
            "invocationCommands": [
                "text",
                {"command": 7, "description": {"a": 1}, "parameters": "no", "toolName": "a#b"},
                {"command": "two\nlines", "description": "x" * 200_000, "parameters": {"a": "x" * 300_000}},
            ]
        },
    )
    spec = read(odd).tools["A"]
    assert (spec.display, spec.timeout, spec.push, spec.idempotent, spec.max_running) == (
        "[云端] A",
        60,
        None,
        False,
        None,
    )
    assert spec.labels == {"ok"}
    one, two = spec.commands
    assert (one.command, one.description, one.parameters, one.tool_name) == ("7", "", None, None)
    assert (two.command, len(two.description), two.parameters) == ("two lines", node_manifests.MAX_TEXT_CHARS, None)


def test_what_mcp_clients_are_told_of_a_command_comes_along_within_limits() -> None:
    """Title, output schema and annotations (MCP-20, MCP-23, MCP-25)."""
    good = {
        "command": "a",
        "title": "two\nlines",
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    }
    large = {"command": "b", "outputSchema": {"a": "x" * 300_000}, "annotations": {"a": "x" * 300_000}}
    one, two = read(manifest("A", capabilities={"invocationCommands": [good, large]})).tools["A"].commands
    assert (one.title, one.output_schema, one.annotations) == ("two lines", {"type": "object"}, {"readOnlyHint": True})
    assert (two.title, two.output_schema, two.annotations) == ("", None, None)


@pytest.mark.parametrize(("said", "seconds"), [(1e300, 86_400), (-5, 60), (0, 60), (True, 60), ("1500", 1.5), ([], 60)])
def test_time_limits_are_sane(said: Any, seconds: float) -> None:
    assert read(manifest("A", communication={"timeout": said})).tools["A"].timeout == seconds


def test_thousands_of_tools_and_gigabytes_of_words_are_cut() -> None:
    many = read(*({"name": f"T{n}", "pluginType": "synchronous", "entryPoint": {"a": 1}} for n in range(3000)))
    assert (len(many.tools), many.unusable) == (node_manifests.MAX_TOOLS, 2000)
    text = "x" * node_manifests.MAX_TEXT_CHARS
    commands = {"invocationCommands": [{"command": str(n), "description": text} for n in range(50)]}
    heavy = read(*(manifest(f"T{n}", capabilities=commands) for n in range(5)))
    assert (len(heavy.tools), heavy.unusable) == (1, 4)
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    command = {"command": "a", "description": "d", "parameters": deep}
    offered = read(manifest("A", capabilities={"invocationCommands": [command]}), manifest("B", communication=deep))
    assert offered.tools["A"].commands[0].parameters is None
    assert list(offered.tools) == ["A"]


def test_a_manifest_with_too_many_values_is_left_out() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [[] for _ in range(20_000)]}}}
    assert read(manifest("A", capabilities={"invocationCommands": [{"command": "a", "parameters": schema}]})).tools
    commands = [{"command": str(n), "description": "d", "parameters": schema} for n in range(10)]
    offered = read(manifest("A", capabilities={"invocationCommands": commands}), manifest("B"))
    assert (list(offered.tools), offered.unusable) == (["B"], 1)
    offered = read(manifest("A", communication={"x": [[] for _ in range(100_000)]}), manifest("B"))
    assert (list(offered.tools), offered.unusable) == (["B"], 1)


def test_half_surrogates_do_not_reach_those_who_write_utf8() -> None:
    command = {"command": "a", "description": "d\ud800", "parameters": {"x": "\udfff"}}
    spec = read(manifest("A", displayName="\ud800", capabilities={"invocationCommands": [command]})).tools["A"]
    assert (spec.display, spec.commands[0].description) == ("[云端] A", "d\ufffd")


@settings(max_examples=40)
@given(shaped(3))
def test_any_manifest_is_read_or_left_out(value: Any) -> None:
    offered = read(value, manifest("ok"))
    assert "ok" in offered.tools
    assert all(is_tool_name(name) and spec.display.startswith("[云端] ") for name, spec in offered.tools.items())


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8))
def test_any_result_and_any_introduction_is_read(data: dict[str, Any]) -> None:
    announced = read_announced(data)
    assert len(announced.name) <= 64
    result = result_of("T", data)
    assert result.ok is (data.get("status") == "success")
    assert isinstance(result.message, str)


def test_a_result_that_is_nested_too_deep_is_an_error() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    assert "nested too deep" in result_of("T", {"status": "success", "result": deep}).message
    assert result_of("T", {"status": "error", "error": deep}).message


def test_placeholders_have_limits() -> None:
    async def main() -> None:
        placeholders = NodePlaceholders(lambda: 10)
        left_out = placeholders.update("a", {f"{{{{K{n}}}}}": "x" for n in range(MAX_KEYS + 5)})
        assert left_out == MAX_KEYS + 5 - NODE_VALUES * 10
        placeholders.forget("a")
        assert placeholders.update("a", {"{{Long}}": "x" * 100, "{{a}b}}": "x", "{{}}": "x", "x" * 999: "x"}) == 4
        placeholders.forget("a")
        wide = NodePlaceholders(lambda: 1000)
        assert wide.update("a", {f"K{n}": "x" for n in range(MAX_KEYS + 5)}) == 5
        wide.update("a", {"K1": "x" * 1001, "K2": {"a": [1]}, "K3": "\ud800", "K4": True})
        found = [f"{{{{K{n}}}}}" for n in (1, 2, 3, 4)]
        texts = await wide.resolve([Found(text, (text[2:-2],)) for text in found], PromptContext("m", ()))
        assert texts[found[0]].startswith("x" * 1000 + "\n[K1 ")
        assert [texts[text] for text in found[1:]] == ['{"a":[1]}', "\ufffd", "true"]

    run(main())


def test_placeholders_of_all_nodes_and_entries_of_a_message_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.hub.nodes.placeholders.MAX_ALL_KEYS", 3)
    monkeypatch.setattr("app.hub.nodes.placeholders.MAX_ENTRIES", 4)
    placeholders = NodePlaceholders(lambda: 100)
    assert placeholders.update("a", {f"A{n}": "x" for n in range(7)}) == 3
    placeholders.update("b", {"B": "x"})
    assert placeholders.pattern.findall("{{A0}}{{A1}}{{A2}}{{A3}}{{B}}") == ["A0", "A1", "A2"]
    placeholders.forget("a")
    assert placeholders.pattern.findall("{{A0}}{{B}}") == ["B"]


def test_names_of_placeholders_are_bounded_together_and_of_any_characters() -> None:
    placeholders = NodePlaceholders(lambda: 1000)
    placeholders.update("a", {f"{n:03}" + "x" * 190: "v" for n in range(MAX_KEYS)})
    known = [f"{{{{{n:03}{'x' * 190}}}}}" for n in range(MAX_KEYS)]
    assert len(placeholders.pattern.findall("".join(known))) == MAX_ALL_CHARS // 193
    placeholders.forget("a")
    odd = ["[a", "]", "^b", "\\d", "-", "&&", "a|b", "天气", "a.b", "#", "~", "(x"]
    placeholders.update("a", dict.fromkeys(odd, "v"))
    text = "".join(f"{{{{{key}}}}}" for key in odd)
    assert placeholders.pattern.findall(text) == odd
    assert not placeholders.pattern.search("{{axb}}{{b}}{{}}{{a}}")


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(TYPES), shaped(2)), max_size=6))
def test_no_message_of_a_node_keeps_another_from_being_served(messages: list[tuple[str, Any]]) -> None:
    async def main() -> None:
        board = Board()
        good, odd = board.line("good", "Echo"), board.line("odd", "Echo")
        running = asyncio.create_task(
            board.nodes.call(
                board.nodes.tools()["Echo"],
                ToolCall("1", "good#Echo", {}),
                CallContext("t", Door.AGENT),
                lambda **_: None,
            )
        )
        await settled()
        for kind, data in messages:
            odd.hear(json.dumps({"type": kind, "data": data}))
            await settled()
        request = json.loads(good.sent[-1])["data"]
        good.say("tool_result", requestId=request["requestId"], status="success", result=1)
        assert (await running).ok
        assert "good" in board.names
        await board.nodes.stop()

    run(main())


def test_hostile_frames_over_a_real_connection_leave_the_server_serving(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "good", "Echo") as good, node(server, "bad") as bad:
            frames: list[str | bytes] = [
                "",
                "null",
                "[]",
                "{",
                '{"type":7}',
                '{"type":"register_tools"}',
                '{"type":"register_tools","data":{"tools":{}}}',
                '{"type":"tool_result","data":{"requestId":{}}}',
                '{"type":"update_static_placeholders","data":{"placeholders":[]}}',
                '{"type":"plugin_callback_forward","data":{"callbackData":{"pluginName":{},"taskId":[]}}}',
                '{"type":"' + "x" * 10_000 + '"}',
                '{"type":"register_tools","data":{"tools":' + "[" * 5000 + "]" * 5000 + "}}",
                '{"type":"report_ip","data":{"localIPs":"x","publicIP":[1]}}',
                b"\0\1",
                '{"type":"tool_result","data":{"requestId":"\\ud800","status":"success"}}',
            ]
            for frame in frames:
                await bad.send(frame)
            await (await bad.connection.ping())
            async with good.answering(lambda _: 1):
                assert (await call(server, "Echo")).ok

    run(main())
