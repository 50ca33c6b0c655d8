"""Function calls read from recorded streams, however the bytes are cut; what is offered beside the client's tools."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chat import native_intake
from app.chat.native_format import NativeCallFormat
from app.chat.native_intake import ReplyIntake
from app.chat.native_tools import NativeTools
from app.chat.reading import AnswerState, RoundReader
from app.chat.text_format import TextCallFormat
from app.demo.script import EventStyle, event_bytes
from app.errors import UpstreamBrokenError
from app.extend import FoundCall, Json, ToolCommand, ToolSpec
from app.protocol.chat import sse
from app.protocol.sse import SseEvent, SseReader
from app.tools.catalogue import Catalogue
from app.tools.offers import DoorRules, Offers, restricted_naming
from app.tools.rendering import ResultFormat
from tests.chat.native_calls import NUMBERS, WEATHER, Shelf, put_together
from tests.server import call_text

TOOLS = Shelf()


def native_tools(
    *specs: ToolSpec, limit: Callable[[], int] = lambda: 128, rules: Callable[[], DoorRules] = DoorRules
) -> NativeTools:
    source = TOOLS if not specs else Shelf()
    if specs:
        source.specs = {spec.name: spec for spec in specs}
    catalogue = Catalogue([(source, source.tools())])
    return NativeTools(Offers(lambda: catalogue, rules, restricted_naming), limit)


def fits(schema: Mapping[str, Json], value: Json) -> str:
    return ""


def new_format(tools: NativeTools | None = None) -> NativeCallFormat:
    ids = (f"c{number}" for number in itertools.count(1))
    text = TextCallFormat(lambda: next(ids), UTC, ResultFormat())
    return NativeCallFormat(text, tools or native_tools(), fits, lambda: next(ids))


def delta(index: int | None, id: str | None = None, name: str | None = None, arguments: str | None = None) -> Json:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = {"index": index, "id": id, "type": "function" if id else None, "function": function or None}
    return {"tool_calls": [{key: value for key, value in fields.items() if value is not None}]}


RECORDED: dict[str, list[Json]] = {
    "one after the other, arguments in pieces": [
        {"role": "assistant", "content": None},
        delta(0, "call_a", "Add", ""),
        *(delta(0, None, None, piece) for piece in ('{"', 'a":', " 1,", '"b":2', "}")),
        delta(1, "call_w", "weather", ""),
        *(delta(1, None, None, piece) for piece in ('{"city"', ':"北京"}')),
        delta(2, "call_b", "Note", ""),
        delta(2, None, None, "{}"),
    ],
    "whole calls in one piece, all number 0": [
        {"role": "assistant", "tool_calls": delta(0, "call_a", "Add", '{"a":1,"b":2}')["tool_calls"]},
        delta(0, "call_w", "weather", '{"city":"北京"}'),
        delta(0, "call_b", "Note", "{}"),
    ],
    "several calls in one delta, id and name repeated": [
        {
            "role": "assistant",
            "tool_calls": [
                *delta(0, "call_a", "Add", '{"a":1')["tool_calls"],
                *delta(1, "call_w", "weather", '{"city":')["tool_calls"],
            ],
        },
        {
            "tool_calls": [
                *delta(0, "call_a", "Add", ',"b":2}')["tool_calls"],
                *delta(1, "call_w", None, '"北京"}')["tool_calls"],
            ]
        },
        delta(2, "call_b", "Note", "{}"),
    ],
    "without numbers": [
        {"role": "assistant", "content": ""},
        delta(None, "call_a", "Add", '{"a":1,'),
        delta(None, None, None, '"b":2}'),
        delta(None, "call_b", "Note", ""),
    ],
    "names in pieces": [
        {"role": "assistant", "content": ""},
        delta(0, "call_a", "A"),
        delta(0, None, "dd"),
        delta(0, None, None, '{"a":1,"b":2}'),
        delta(1, "call_b", "No"),
        delta(1, None, "te"),
    ],
}
"""What providers were seen to send; the text of each begins with a marked call and ends in the middle of the calls."""


def read(data: bytes, sizes: list[int]) -> tuple[list[FoundCall], bytes, RoundReader]:
    """Calls and what the client gets, when the bytes come in pieces of these sizes."""
    found: list[FoundCall] = []
    form = new_format()
    form.offer({"messages": [], "tools": [WEATHER]})
    source, reader = SseReader(), RoundReader(AnswerState(), native=form.native)
    out, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        for event in source.feed(data[at : at + size]):
            out.append(reader.take(event) or b"")
        if reader.has_news:
            found += form.feed({"content": reader.take_text()})
        at, turn = at + size, turn + 1
    out.append(reader.finish() or b"")
    found += form.feed({"content": reader.take_text()})
    return [*found, *form.finish()], b"".join(out), reader


@settings(max_examples=40)
@given(
    st.sampled_from(sorted(RECORDED)),
    st.lists(st.integers(1, 300), min_size=1, max_size=8),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_a_recorded_stream_gives_the_same_calls_and_the_same_answer_however_its_bytes_are_cut(
    name: str, sizes: list[int], with_text: bool, newline: str
) -> None:
    deltas = list(RECORDED[name])
    text = f"Say {call_text('Draw')} done."
    if with_text:
        deltas[1:1] = [{"content": text[:20]}, {"content": text[20:50]}]
        deltas.append({"content": text[50:]})
    chunks: list[Json] = [{"id": "r", "choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in deltas]
    chunks.append({"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    found, out, reader = read(event_bytes(chunks, EventStyle(newline=newline)), sizes)
    natives = [(call.call.tool, dict(call.call.arguments)) for call in found if call.call.tool != "Draw"]
    assert natives == [("Add", {"a": 1, "b": 2}), ("Note", {})]
    assert [call.call.tool for call in found].count("Draw") == with_text
    assert reader.text == (text if with_text else "")
    theirs = any("weather" in json.dumps(one) for one in deltas)
    seen = [choice["delta"] for event in SseReader().feed(out) for choice in json.loads(event.data)["choices"]]
    passed = put_together([piece for one in seen for piece in one.get("tool_calls") or ()])
    assert [call["function"] for call in passed] == [{"name": "weather", "arguments": '{"city":"北京"}'}] * theirs
    assert "".join(one.get("content") or "" for one in seen) == reader.text
    assert reader.finish_reasons == {0: "tool_calls" if theirs else "stop"}
    assert reader.native_calls is theirs


def test_chunks_without_calls_of_ours_pass_byte_for_byte_also_where_some_are_offered() -> None:
    chunks = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "a"}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": delta(0, "w", "weather", "{}"), "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}, "finish_reason": None}]},
    ]
    data = event_bytes(chunks, EventStyle(done=False))
    assert read(data, [7])[1] == data


ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["Add", "Ad", "weather", "", "{", "}", "call_a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["index", "id", "type", "function", "name", "arguments", "custom", "x"]), inner, max_size=5
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60)
@given(st.lists(st.lists(ODD, max_size=3) | ODD, max_size=6), st.booleans())
def test_whatever_stands_in_tool_calls_the_stream_goes_on_and_no_call_is_ours_and_the_clients(
    said: list[Any], whole: bool
) -> None:
    form = new_format()
    form.offer({"messages": [], "tools": [WEATHER]})
    reader = RoundReader(AnswerState(), native=form.native)
    out = []
    kind = "message" if whole else "delta"
    for calls in said:
        data = json.dumps({"choices": [{"index": 0, kind: {"tool_calls": calls}, "finish_reason": None}]}).encode()
        out.append(reader.take(SseEvent(data, sse(data), "")) or b"")
    out.append(reader.finish() or b"")
    found = [*form.feed({"content": ""}), *form.finish()]
    body = form.append({"messages": []}, "", [])
    assert {call.call.tool for call in found} <= {"Add"}
    asked = body["messages"][0].get("tool_calls", [])
    assert len(asked) == len(found) == len({call["id"] for call in asked})
    assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in asked)
    for event in SseReader().feed(b"".join(out)):
        for choice in json.loads(event.data)["choices"]:
            passed = choice[kind].get("tool_calls")
            if whole and isinstance(passed, list):  # a piece may write any name into a call that is the client's
                assert not any(_name(call) == "Add" for call in passed)


def _name(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    return function.get("name") if isinstance(function, dict) else None


@pytest.mark.parametrize("calls", [None, {}, "x", [], 7])
def test_tool_calls_of_other_kinds_are_left_alone(calls: Any) -> None:
    said = {"tool_calls": calls}
    intake = ReplyIntake(["Add"], [])
    assert not intake.take(0, said)
    assert not intake.take_whole(0, said)
    assert said == {"tool_calls": calls}


def test_thoughts_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_intake, "MAX_REPLY_CHARS", 10)
    monkeypatch.setattr(native_intake, "MAX_REASONING_PARTS", 10)
    with pytest.raises(UpstreamBrokenError, match="10 characters"):
        ReplyIntake([], []).take(0, {"reasoning_content": "x" * 11})
    with pytest.raises(UpstreamBrokenError, match="10 parts"):
        ReplyIntake([], []).take(0, {"reasoning_details": [0] * 11})


# --- what is offered -------------------------------------------------------------------------------------------------


def names_of(body: Json) -> list[str]:
    return [tool["function"]["name"] for tool in body["tools"]]


def test_a_tool_of_ours_that_has_the_name_of_a_clients_is_not_offered_and_never_called() -> None:
    form = new_format()
    custom = {"type": "custom", "custom": {"name": "Note"}}
    named = {"type": "function", "function": {"name": "Box.Open"}}  # as the router writes it
    body = form.offer({"messages": [], "tools": [custom, named, 7, {"function": 7}]})
    assert [tool["function"]["name"] for tool in body["tools"][4:]] == ["Add", "Box__Open", "Box__Shut", "Draw", "Shy"]
    assert form.native is not None
    message = {"tool_calls": [{"id": "a", "function": {"name": name}} for name in ("Note", "Box.Open", "Box.Shut")]}
    assert form.native.take_whole(0, message)
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["Note", "Box.Open"]
    assert [found.call.tool for found in form.finish()] == ["Box.Shut"]  # the router's own name for it will do


def test_the_limit_counts_the_clients_tools_too_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    most = [3]
    tools = native_tools(limit=lambda: most[0])
    for _ in range(2):
        assert names_of(new_format(tools).offer({"tools": [WEATHER]})) == ["weather", "Add", "Box__Open"]
    assert caplog.text.count("over NativeToolsMax") == 1
    most[0] = 1
    own: Json = {"tools": [WEATHER]}
    form = new_format(tools)
    assert form.offer(own) is own
    assert form.native is None


def test_allowed_and_denied_tools_follow_the_settings_of_now() -> None:
    rules = [DoorRules(allow=("Box*",))]
    tools = native_tools(rules=lambda: rules[0])
    assert names_of(new_format(tools).offer({})) == ["Box__Open", "Box__Shut"]
    rules[0] = DoorRules(deny=("Box.Shut", "Add", "Note", "S*"))
    assert names_of(new_format(tools).offer({})) == ["Box__Open", "Draw"]
    rules[0] = DoorRules(allow=("Nothing",))
    assert new_format(tools).offer({}) == {}


def test_the_offer_is_made_once_and_the_body_of_the_client_is_not_changed() -> None:
    tools = native_tools()
    body: Json = {"messages": [], "tools": [WEATHER], "x": 1}
    first, second = new_format(tools).offer(body), new_format(tools).offer(body)
    assert body == {"messages": [], "tools": [WEATHER], "x": 1}
    assert list(first) == ["messages", "tools", "x"]
    assert all(one is other for one, other in zip(first["tools"], second["tools"], strict=True))


def test_a_tool_without_a_description_and_one_with_a_foreign_name_are_offered_soundly() -> None:
    command = ToolCommand("go", "", "", parameters={**NUMBERS, "examples": ({"a": 1},)})
    odd = ToolSpec("工具.x", "test", "", (command,))
    (tool,) = new_format(native_tools(odd)).offer({})["tools"]
    assert set(tool["function"]) == {"name", "parameters"}
    assert tool["function"]["name"].isascii()
    assert json.loads(json.dumps(tool))["function"]["parameters"]["examples"] == [{"a": 1}]
    shown = replace(odd, display="Shown")
    (tool,) = new_format(native_tools(shown)).offer({})["tools"]
    assert tool["function"]["description"] == "Shown"


def parameters_of(schema: Json, *, code: bool = False) -> Json:
    tool = ToolSpec("T", "test", "T", (ToolCommand("go", "", "goes", parameters=schema),))
    offer = native_tools(tool).offer({}, code_wanted=code)
    assert offer is not None
    (entry,) = offer.entries
    return entry["function"]["parameters"]


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf", "allOf", "not", "enum", "$schema", "$id"])
def test_what_model_apis_refuse_at_the_root_of_a_schema_is_left_out_there(keyword: str) -> None:
    inner = {"properties": {"a": {keyword: [1]}}, "required": ["a"]}
    assert parameters_of({keyword: [{}], **inner}) == {"type": "object", **inner}


def deep(levels: int) -> Json:
    schema: Json = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        deep(5000),
        deep(40),
        {"properties": {"a": {"description": "x" * 70_000}}},
        {"properties": [1]},
        {"properties": 7},
    ],
)
def test_a_schema_that_no_upstream_would_take_does_not_spoil_the_request(schema: Json) -> None:  # P86, P87
    found = parameters_of(schema, code=True)
    assert found["type"] == "object"
    assert list(found["properties"]) == ["tool_password"]
    assert len(json.dumps(found)) < 1000


def test_before_anything_is_offered_and_after_a_reply_without_calls_the_text_alone_counts() -> None:
    form = new_format()
    assert form.native is None
    form.offer({"messages": []})
    (found,) = form.feed({"content": call_text("Note", x="1")})
    body = form.append({"messages": [], "n": 3}, "reply", [])
    assert found.call.tool == "Note"
    assert body["n"] == 1
    assert [message["role"] for message in body["messages"]] == ["assistant", "user"]
    assert "tool_calls" not in body["messages"][0]
