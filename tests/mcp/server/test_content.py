"""Results of tools as each revision has them (MCP-23, MCP-24, MCP-61)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types.methods import serialize_server_result

from app.extend import ErrorKind, ToolResult
from app.mcp.server.content import call_result, error_result

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
NEWEST = REVISIONS[-1]
PNG = "iVBORw0KGgo="


def content(result: ToolResult, revision: str = NEWEST, **more: Any) -> list[dict[str, Any]]:
    answer = call_result(result, revision, **more)
    serialize_server_result("tools/call", revision, answer)  # the protocol's own schema takes it
    found: list[dict[str, Any]] = answer["content"]
    return found


@pytest.mark.parametrize("revision", REVISIONS)
def test_mcp_24_a_text_is_a_text_and_nothing_else(revision: str) -> None:
    for structured in ("好 {}", {"original_plugin_output": "好 {}"}):
        answer = call_result(ToolResult(structured=structured), revision)
        assert answer["content"] == [{"type": "text", "text": "好 {}"}]
        assert "structuredContent" not in answer
        assert "isError" not in answer


@pytest.mark.parametrize("revision", REVISIONS)
def test_mcp_24_an_object_is_text_and_structured_content_from_2025_06_18_on(revision: str) -> None:
    """MCP-23, MCP-61: older sessions get the JSON as text only."""
    value = {"数": 1, "list": [None, True]}
    answer = call_result(ToolResult(structured=value), revision)
    assert json.loads(answer["content"][0]["text"]) == value
    assert "数" in answer["content"][0]["text"]
    assert ("structuredContent" in answer) == (revision >= "2025-06-18")
    assert answer.get("structuredContent", value) == value


def test_mcp_23_what_is_no_object_is_structured_only_where_a_schema_says_so_and_the_revision_can() -> None:
    result = ToolResult(structured=[1, 2])
    schema = {"type": "array"}
    assert "structuredContent" not in call_result(result, NEWEST)
    assert call_result(result, NEWEST, schema)["structuredContent"] == [1, 2]
    assert "structuredContent" not in call_result(result, "2025-11-25", schema)
    assert (
        call_result(ToolResult(structured={"original_plugin_output": 6}), NEWEST, {"type": "number"})[
            "structuredContent"
        ]
        == 6
    )


def test_mcp_23_there_is_always_a_text() -> None:
    assert content(ToolResult())[0]["type"] == "text"
    assert content(ToolResult(structured={}))[0]["text"] == "{}"


def test_std_34_texts_of_a_list_are_one_text() -> None:
    parts = ({"type": "text", "text": "一"}, {"type": "text", "text": "two"})
    assert content(ToolResult(structured={"content": list(parts)}, parts=parts)) == [
        {"type": "text", "text": "一\ntwo"}
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": f"data:image/png;charset=x;base64,{PNG}"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
    ],
)
def test_mcp_24_pictures_are_images(part: dict[str, Any]) -> None:
    """P96: a picture is an image part, never raw base64 as text."""
    blocks = content(ToolResult(parts=({"type": "text", "text": "see"}, part)))
    assert blocks == [{"type": "text", "text": "see"}, {"type": "image", "data": PNG, "mimeType": "image/png"}]


def test_mcp_24_a_result_that_is_a_data_uri_is_a_picture() -> None:
    result = ToolResult(structured={"original_plugin_output": f"data:image/png;base64,{PNG}"})
    assert content(result) == [{"type": "image", "data": PNG, "mimeType": "image/png"}]


@pytest.mark.parametrize("revision", REVISIONS)
def test_mcp_24_audio_is_audio_from_2025_03_26_on(revision: str) -> None:
    part = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}
    (block,) = content(ToolResult(parts=(part,)), revision)
    if revision < "2025-03-26":
        assert block["type"] == "text" and "audio/mpeg" in block["text"]
    else:
        assert block == {"type": "audio", "data": "AAAA", "mimeType": "audio/mpeg"}


@pytest.mark.parametrize("revision", REVISIONS)
def test_mcp_24_an_address_is_a_link_from_2025_06_18_on(revision: str) -> None:
    address = "https://pictures.example/a/b.png?x=1"
    (block,) = content(ToolResult(parts=({"type": "image_url", "image_url": {"url": address}},)), revision)
    if revision < "2025-06-18":
        assert block == {"type": "text", "text": address}
    else:
        assert block == {"type": "resource_link", "uri": address, "name": "b.png"}
    kinds = [block["type"] for block in content(ToolResult(structured=address), revision)]
    assert kinds == (["text"] if revision < "2025-06-18" else ["text", "resource_link"])


def test_a_file_in_a_data_uri_is_a_resource_and_an_odd_part_a_text() -> None:
    parts = (
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
        {"type": "odd", "odd": 1},
        {"type": "resource", "resource": {"neither": "text nor blob"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,***"}},
    )
    pdf, *odd = content(ToolResult(parts=parts))
    assert pdf["resource"] == {"uri": "data:application/pdf", "mimeType": "application/pdf", "blob": "AAAA"}
    assert [block["type"] for block in odd] == ["text"] * 3


# --- failures -----------------------------------------------------------------------------------------------------


def failed(kind: ErrorKind, message: str, **more: Any) -> str:
    answer = call_result(ToolResult(error_kind=kind, message=message, **more), NEWEST)
    assert answer["isError"] is True
    assert len(answer["content"]) == 1
    text: str = answer["content"][0]["text"]
    return text


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_mcp_24_a_failure_is_one_line_behind_the_fixed_prefix(kind: ErrorKind) -> None:
    """STD-35: ``isError`` and the prefix ``错误：``."""
    assert failed(kind, "no\n\n  such\tbook") == "错误：no such book"


def test_std_47_a_failure_has_no_stack_and_no_paths_of_this_machine_where_we_make_the_text() -> None:
    stack = 'it broke: Traceback (most recent call last):\n  File "/srv/a/b.py", line 3\nValueError: bad value'
    assert failed(ErrorKind.PLUGIN, stack) == "错误：it broke: ValueError: bad value"
    text = failed(ErrorKind.EXECUTION, "cannot start /opt/vcp/Plugin/X/main.py: [Errno 2] '/usr/bin/nope'")
    assert text == "错误：cannot start main.py: [Errno 2] 'nope'"
    assert failed(ErrorKind.EXECUTION, r"C:\Users\me\x.exe is missing") == "错误：x.exe is missing"
    assert "http://a.example/b/c" in failed(ErrorKind.EXECUTION, "see http://a.example/b/c")


def test_what_a_plugin_itself_says_of_a_path_is_told() -> None:
    """STD-49: a client may know a path that the tool tells it on purpose."""
    assert failed(ErrorKind.PLUGIN, "no file /books/a/b.txt") == "错误：no file /books/a/b.txt"


def test_a_failure_is_cut_and_keeps_what_the_tool_first_said() -> None:
    text = failed(ErrorKind.PLUGIN, "x" * 9000)
    assert len(text) < 2100 and text.endswith("…")
    assert failed(ErrorKind.PLUGIN, "help failed", original_error="the disk") == "错误：help failed (the disk)"
    assert error_result("a\nb")["content"][0]["text"] == "错误：a b"


# --- what an upstream answered ------------------------------------------------------------------------------------

UPSTREAM: dict[str, Any] = {
    "content": [
        {"type": "text", "text": "t", "annotations": {"audience": ["user"]}},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///x", "name": "x"},
    ],
    "structuredContent": {"a": 1},
    "_meta": {"mine/key": 1, "plain": 2, "io.modelcontextprotocol/serverInfo": {}, "dev.mcp/x": 1, "progressToken": 3},
}


@pytest.mark.parametrize("revision", REVISIONS)
def test_mcp_61_an_upstreams_result_passes_but_for_what_the_revision_cannot_have(revision: str) -> None:
    answer = call_result(ToolResult(mcp=UPSTREAM), revision)
    serialize_server_result("tools/call", revision, answer)
    assert answer["content"][0] == UPSTREAM["content"][0]
    assert answer["content"][1]["type"] == ("audio" if revision >= "2025-03-26" else "text")
    assert answer["content"][2]["type"] == ("resource_link" if revision >= "2025-06-18" else "text")
    assert ("structuredContent" in answer) == (revision >= "2025-06-18")
    assert "isError" not in answer


def test_mcp_60_keys_of_meta_that_the_protocol_keeps_for_itself_do_not_pass() -> None:
    assert call_result(ToolResult(mcp=UPSTREAM), NEWEST)["_meta"] == {"mine/key": 1, "plain": 2}
    assert "_meta" not in call_result(ToolResult(mcp={"content": [], "_meta": "odd"}), NEWEST)


def test_mcp_61_structured_content_that_cannot_be_had_is_told_as_text() -> None:
    only = ToolResult(mcp={"content": [], "structuredContent": [1, 2]})
    for revision in REVISIONS:
        answer = call_result(only, revision)
        assert json.loads(answer["content"][0]["text"]) == [1, 2]
        assert ("structuredContent" in answer) == (revision == NEWEST)


def test_an_upstreams_error_passes_as_it_is() -> None:
    result = ToolResult(
        error_kind=ErrorKind.PLUGIN,
        message="told to text models",
        mcp={"content": [{"type": "text", "text": "no\nsuch"}], "isError": True},
    )
    answer = call_result(result, NEWEST)
    assert answer["isError"] is True
    assert answer["content"] == [{"type": "text", "text": "no\nsuch"}]


def test_what_is_no_content_of_the_protocol_costs_nobody_the_whole_result() -> None:
    """A hostile or broken upstream: blocks that are none become texts, ``content`` that is none is left out."""
    odd = {"content": [{"type": "image"}, "text", {"type": "text", "text": 1}, {}], "isError": "yes"}
    blocks = content(ToolResult(mcp=odd))
    assert [block["type"] for block in blocks] == ["text"] * 3
    assert content(ToolResult(mcp={"content": "text"})) == []


def test_what_no_writer_can_take_is_taken_out_or_an_error() -> None:
    """Half characters, terminal codes, nesting without end: a connection must never break on a result."""
    half = ToolResult(structured={"a\ud83d": "\ud83d \x1b[31mred\x1b[0m"})
    answer = call_result(half, NEWEST)
    assert answer["structuredContent"] == {"a\ufffd": "\ufffd red"}
    json.dumps(answer, ensure_ascii=False).encode()
    assert failed(ErrorKind.PLUGIN, "half \ud83d") == "错误：half \ufffd"
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    for result in (ToolResult(structured={"deep": deep}), ToolResult(mcp={"content": [], "structuredContent": deep})):
        assert call_result(result, NEWEST)["isError"] is True


def test_what_looks_like_a_secret_is_masked_where_that_is_wanted() -> None:
    """Spec 7.6: ``privacyProtection`` holds for what MCP clients' models read."""
    token = "sk-" + "a" * 40
    for result in (
        ToolResult(structured={"text": token, "api_key": "x"}),
        ToolResult(mcp={"content": [{"type": "text", "text": token}]}),
        ToolResult(error_kind=ErrorKind.PLUGIN, message=token),
    ):
        assert token in json.dumps(call_result(result, NEWEST))
        assert token not in json.dumps(call_result(result, NEWEST, private=True))


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_result_that_is_none_of_the_protocol_is_an_error_and_stays_out_of_the_log(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    odd: list[dict[str, Any]] = [
        {"content": [{"type": "text", "text": "secret", "annotations": {"priority": 7}}]},
        {"content": [{"type": "resource_link", "uri": "x", "name": "y", "size": 1.5}]},
        {"content": [{"type": "text", "text": "secret", "_meta": [1]}]},
        {"content": [], "_meta": {"a/b": {"c": [None]}}},
    ]
    for answer in odd:
        told = call_result(ToolResult(mcp=answer), revision)
        serialize_server_result("tools/call", revision, told)
    assert "secret" not in caplog.text


def test_a_message_without_end_is_looked_at_in_bounded_time() -> None:
    text = failed(ErrorKind.EXECUTION, "/a/b" * 2_000_000 + "Traceback (most recent call last):\n" + "x" * 5_000_000)
    assert len(text) < 2100
