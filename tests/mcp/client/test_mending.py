"""Answers that do not quite keep to the protocol (P86, MCP-54, MCP-55)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import methods

from app.mcp.client.mending import MAX_TOOLS, mended_result, mended_tools, tool_name_fault, with_defaults

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
TYPED = {"type": "object", "properties": {"a": {"type": "string"}}}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def tools(*listed: Any) -> tuple[list[dict[str, Any]], list[str]]:
    left_out: list[str] = []
    mended = mended_tools({"tools": list(listed)}, lambda name, why: left_out.append(name))
    for version in LEGACY:
        methods.validate_server_result("tools/list", version, mended)
    modern = {**mended, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    methods.validate_server_result("tools/list", MODERN, modern)
    return mended["tools"], left_out


@pytest.mark.parametrize("schema", [None, {}, {"properties": {}}, 5, "x", {"type": None}, {"type": ["object", "null"]}])
def test_p86_a_tool_without_a_schema_takes_any_object(schema: Any) -> None:
    (tool,), left_out = tools({"name": "a", "inputSchema": schema})
    assert tool["inputSchema"]["type"] == "object" and left_out == []
    (tool,), _ = tools({"name": "a"})
    assert tool == {"name": "a", "inputSchema": {"type": "object"}}


def test_p86_nulls_and_fields_of_a_wrong_kind_are_left_out() -> None:
    (tool,), _ = tools(
        {
            "name": "a",
            "title": None,
            "description": 5,
            "inputSchema": TYPED,
            "outputSchema": None,
            "annotations": {"readOnlyHint": None, "destructiveHint": True, "title": "T", "other": "x"},
            "icons": "none",
        }
    )
    assert tool == {"name": "a", "inputSchema": TYPED, "annotations": {"destructiveHint": True, "title": "T"}}


def test_mcp_55_tools_with_impossible_names_or_schemas_are_left_out_and_the_others_stay() -> None:
    found, left_out = tools(
        {"name": "good"},
        {"name": ""},
        {"name": "a b"},
        {"name": "x" * 129},
        {"name": 5},
        {"name": "a\nb"},
        {"name": "「a」"},
        {},
        5,
        {"name": "text", "inputSchema": {"type": "string"}},
        {"name": "good", "description": "twice"},
        {"name": "huge", "description": "x" * 300_000},
        {"name": "repo/search-2"},
    )
    assert [tool["name"] for tool in found] == ["good", "repo/search-2"]
    assert len(left_out) == 11


def test_mcp_54_there_is_an_end_to_the_tools_of_one_server() -> None:
    found, left_out = tools(*({"name": f"t{number}"} for number in range(MAX_TOOLS + 5)))
    assert len(found) == MAX_TOOLS and len(left_out) == 5


@given(json_values)
def test_a_list_of_anything_can_be_read_by_every_revision(value: Any) -> None:
    tools(value)
    mended_tools({"tools": value, "nextCursor": value}, lambda name, why: None)


@given(st.dictionaries(st.sampled_from(["content", "structuredContent", "isError", "_meta", "x"]), json_values))
def test_a_result_of_anything_can_be_read_by_every_revision(raw: dict[str, Any]) -> None:
    if not isinstance(raw.get("_meta"), dict):
        raw.pop("_meta", None)
    mended = mended_result(raw, legacy=True)
    for version in LEGACY:
        methods.validate_server_result("tools/call", version, mended)
    modern = mended_result(with_defaults("tools/call", raw), legacy=False)
    methods.validate_server_result("tools/call", MODERN, modern)


def test_mcp_57_a_result_without_a_type_is_complete() -> None:
    """And a list that says nothing of caching holds for now; what is said stays."""
    methods.validate_server_result("tools/list", MODERN, with_defaults("tools/list", {"tools": []}))
    asked = {"resultType": "input_required", "requestState": "s"}
    assert with_defaults("tools/call", asked) == asked


def test_parts_that_nobody_knows_become_texts() -> None:
    raw = {"content": [{"type": "video", "url": "x"}, "plain", {"type": "text", "text": "t", "annotations": None}]}
    assert mended_result(raw, legacy=True)["content"] == [
        {"type": "text", "text": '{"type":"video","url":"x"}'},
        {"type": "text", "text": "plain"},
        {"type": "text", "text": "t"},
    ]


def test_structured_content_that_is_no_object_is_text_for_older_revisions() -> None:
    assert mended_result({"structuredContent": [1]}, legacy=True) == {"content": [{"type": "text", "text": "[1]"}]}
    assert mended_result({"structuredContent": [1]}, legacy=False) == {"structuredContent": [1], "content": []}


@pytest.mark.parametrize("name", ["a", "A.b-c_1", "repo/search", "工具", "$filter"])
def test_names_that_a_call_can_write_are_good(name: str) -> None:
    assert tool_name_fault(name) == ""


@pytest.mark.parametrize("mark", ["\u202e", "\u200b", "\u2066", "\ufeff", "\U000e0041", "\xad"])
def test_a_name_that_people_would_read_as_another_one_is_none(mark: str) -> None:
    """Names stand in approvals, lists and log lines; such marks are not seen there, or turn round what follows."""
    assert "nobody sees" in tool_name_fault(f"read{mark}file")
