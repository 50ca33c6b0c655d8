"""Results and tools of MCP servers as our own (P86, P88, P96, D68)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.extend import ErrorKind, ToolCall
from app.mcp.client.results import tool_result, tool_spec
from app.mcp.client.sent import SentArguments
from app.mcp.client.server_entry import ServerEntry, ServerKind

ENTRY = ServerEntry("fs", ServerKind.STDIO, command="x")


def test_texts_are_joined_and_the_original_stays() -> None:
    raw = {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "_meta": {"k": 1}}
    result = tool_result(raw)
    assert result.ok and result.structured == "a\nb" and result.parts is None and result.mcp is raw


def test_structured_content_is_what_a_model_reads() -> None:
    result = tool_result({"content": [{"type": "text", "text": "{}"}], "structuredContent": {"a": [1]}})
    assert result.structured == {"a": [1]}
    assert tool_result({"content": [], "structuredContent": {}}).structured == {}


def test_p96_a_failure_is_told_as_an_error() -> None:
    result = tool_result({"isError": True, "content": [{"type": "text", "text": "no such file"}]})
    assert result.error_kind is ErrorKind.PLUGIN and result.message == "no such file"
    assert result.mcp is not None and result.mcp["isError"] is True
    assert tool_result({"isError": True, "content": [], "structuredContent": {"code": 5}}).message == '{"code":5}'
    assert tool_result({"isError": True, "content": []}).message
    assert len(tool_result({"isError": True, "content": [{"type": "text", "text": "x" * 100_000}]}).message) <= 20_000


def test_p96_a_picture_is_a_part_beside_the_text() -> None:
    content = [{"type": "text", "text": "here"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]
    result = tool_result({"content": content})
    assert result.structured == "here"
    assert result.parts == (
        {"type": "text", "text": "here"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    )
    assert tool_result({"content": content[1:]}).parts == result.parts[1:]


def test_mcp_55_sounds_files_and_links_are_named_and_never_followed() -> None:
    content: list[Any] = [
        {"type": "audio", "data": "aGk=" * 30, "mimeType": "audio/wav"},
        {"type": "image", "data": "aGk=", "mimeType": "image/svg+xml"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGk=", "mimeType": "application/pdf"}},
        {"type": "resource", "resource": {"uri": "file:///c", "blob": "aGk=", "mimeType": "image/jpeg"}},
        {"type": "resource_link", "uri": "https://x.org/d", "name": "D", "description": "more"},
        {"type": "resource"},
        {"type": "image"},
        {"type": "novel", "a": 1},
        5,
    ]
    result = tool_result({"content": content})
    lines = str(result.structured).split("\n")
    assert "audio/wav" in lines[0] and "90" in lines[0] and "image/svg+xml" in lines[1]
    assert lines[2] == "inside" and "file:///b" in lines[3] and lines[4] == "file:///c"
    assert lines[5] == "D <https://x.org/d> more" and lines[6] == '{"type":"novel","a":1}'
    assert result.parts is not None and len(result.parts) == 2
    assert tool_result({}).structured is None and tool_result({"content": "x"}).ok


def test_d68_a_tool_is_one_tool_of_ours_under_the_servers_name() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tool = {
        "name": "read",
        "title": "Read",
        "description": "Reads",
        "inputSchema": schema,
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True, "title": "x"},
    }
    spec = tool_spec(ENTRY, tool, 60, prefix=True)
    (command,) = spec.commands
    assert (spec.name, spec.origin, spec.display, spec.groups) == ("fs.read", "mcp:fs", "Read", frozenset({"fs"}))
    assert command.id == "read" and command.typed and command.parameters == schema
    assert command.output_schema == {"type": "object"} and command.annotations == {"readOnlyHint": True}
    assert not spec.idempotent  # a hint of a server is no promise
    assert tool_spec(ENTRY, {"name": "read", "inputSchema": {}}, 60, prefix=False).name == "read"


def sent(tool: dict[str, Any], **arguments: Any) -> tuple[dict[str, Any], str]:
    call = ToolCall("c", "fs.x", arguments)
    return asyncio.run(SentArguments({"name": "x", **tool}).of(call))


def test_words_of_our_own_protocol_are_not_sent_unless_declared() -> None:
    given = {"maid": "Nova", "Tool_Password": "1", "a": "b", "command": "x"}
    assert sent({"inputSchema": {"type": "object"}}, **given) == ({"a": "b"}, "")
    declared = {"inputSchema": {"type": "object", "properties": {"maid": {}, "command": {}}}}
    assert sent(declared, **given)[0] == {"maid": "Nova", "a": "b", "command": "x"}
    assert sent({"inputSchema": {"type": "object"}}, command="other")[0] == {"command": "other"}


def test_p86_null_means_not_given_where_the_schema_wants_something_else() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": ["string", "null"]},
            "c": {},
            "d": {"anyOf": [{"type": "null"}]},
            "e": {"type": ["integer", "string"]},
        },
        "required": ["e"],
    }
    arguments, fault = sent({"inputSchema": schema}, a=None, b=None, c=None, d=None, e=5)
    assert arguments == {"b": None, "c": None, "d": None, "e": 5} and fault == ""
    assert "$.e" in sent({"inputSchema": schema}, e=None)[1]


def test_p88_names_go_out_as_they_are() -> None:
    names = {"__top": 1, "$filter": "x", "a-b": True, "@type": None}
    schema = {"type": "object", "properties": {"__top": {"type": "integer"}}}
    assert sent({"inputSchema": schema}, **names)[0] == names


@pytest.mark.parametrize(
    ("arguments", "place"), [({"n": "x"}, "$.n"), ({}, "$"), ({"n": 1, "more": 2}, "more"), ({"n": 99}, "$.n")]
)
def test_faults_name_the_place(arguments: dict[str, Any], place: str) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "maximum": 9}},
        "required": ["n"],
        "additionalProperties": False,
    }
    assert place in sent({"inputSchema": schema}, **arguments)[1]


def test_p87_a_schema_that_refers_to_itself_loads_and_checks() -> None:
    schema = {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    }
    assert sent({"inputSchema": schema}, node={"next": {"next": {}}}) == ({"node": {"next": {"next": {}}}}, "")
    assert "$.node.next" in sent({"inputSchema": schema}, node={"next": 5})[1]


@pytest.mark.parametrize("reference", ["https://example.org/schema.json", "file:///etc/passwd", "#/nowhere"])
def test_mcp_55_a_reference_to_elsewhere_is_never_followed_and_does_not_cost_the_tool(reference: str) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": reference}}}
    assert sent({"inputSchema": schema}, a=1) == ({"a": 1}, "")
