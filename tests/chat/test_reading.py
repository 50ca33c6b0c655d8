"""What a client gets of an upstream's events, and what the turn learns from them."""

import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chat.reading import AnswerState, RoundReader
from app.demo.script import Escape, EventStyle, Send, say
from app.errors import UpstreamBrokenError
from app.protocol.sse import SseEvent, SseReader
from app.protocol.tool_blocks import BlockScanner

MARKERS = st.sampled_from(
    ["<<<[TOOL_REQUEST]>>>", "<<<[END_TOOL_REQUEST]>>>", "tool_name:「始」A「末」", "<think>", "</think>", "\n\n", "😀"]
)
REPLIES = st.lists(MARKERS | st.text(max_size=8), max_size=8).map("".join)


def event(value: Any) -> SseEvent:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return SseEvent(data, b"data: " + data + b"\n\n", "")


def chunk(delta: Any, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}], **more}


def sent(out: bytes | None) -> Any:
    assert out is not None
    return json.loads(out.removeprefix(b"data: "))


def read(*values: Any, reader: RoundReader | None = None) -> tuple[RoundReader, list[bytes | None]]:
    reader = reader or RoundReader(AnswerState())
    out = [reader.take(event(value)) for value in values]
    reader.finish()
    return reader, out


def client_text(data: bytes) -> str:
    """The joined text as a client reads it; halves of characters join in its JSON parser's strings."""
    contents = [
        choice["delta"].get("content") or ""
        for one in SseReader().feed(data)
        for choice in json.loads(one.data)["choices"]
    ]
    return "".join(contents).encode("utf-16-le", "surrogatepass").decode("utf-16-le")


@settings(max_examples=60)
@given(
    REPLIES,
    st.sampled_from(list(Escape)),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.lists(st.integers(1, 7), min_size=1, max_size=4),
    st.lists(st.integers(1, 200), min_size=1, max_size=6),
)
def test_the_clients_text_is_the_models_text_and_the_same_calls_are_found_however_it_is_cut(
    text: str, escape: Escape, newline: str, space: bool, sizes: list[int], cuts: list[int]
) -> None:
    style = EventStyle(newline=newline, space=space, escape=escape, comment="OPENROUTER PROCESSING")
    answer = say(text, sizes=sizes, style=style)
    data = b"".join(step.data for step in answer.streamed().steps if isinstance(step, Send))
    source, reader, scanner = SseReader(), RoundReader(AnswerState()), BlockScanner()
    out, found, at, turn = [], [], 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        for one in source.feed(data[at : at + size]):
            out.append(reader.take(one) or b"")
        found += scanner.feed(reader.take_text())
        at, turn = at + size, turn + 1
    reader.finish()
    found += scanner.feed(reader.take_text()) + scanner.finish()
    assert client_text(b"".join(out)) == text
    assert reader.text == text
    whole = BlockScanner()
    assert [block.arguments for block in found] == [block.arguments for block in (*whole.feed(text), *whole.finish())]
    assert reader.done
    assert reader.finish_reasons == {0: "stop"}


@given(st.text(st.sampled_from("a汉😀🏳"), max_size=12))
def test_halves_of_characters_in_chunks_of_their_own_reach_client_and_scanner(text: str) -> None:
    units = text.encode("utf-16-be")
    contents = [f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)]
    reader = RoundReader(AnswerState())
    out = [
        reader.take(event(f'{{"choices":[{{"index":0,"delta":{{"content":"{content}"}}}}]}}'.encode()))
        for content in contents
    ]
    reader.finish()
    assert client_text(b"".join(one or b"" for one in out)) == text
    assert reader.take_text() == reader.text == text


def test_an_event_that_needs_no_change_goes_out_as_it_came() -> None:
    first = event(b'{"choices": [ {"delta":{"role":"assistant","content":"a"}} ], "x" : 1.50}')
    assert RoundReader(AnswerState()).take(first) == first.raw


def test_the_role_is_said_once_in_all_rounds_whoever_says_it() -> None:
    answer = AnswerState()
    _, out = read(chunk({"content": "a"}), chunk({"content": "b"}), reader=RoundReader(answer))
    assert sent(out[0])["choices"][0]["delta"] == {"role": "assistant", "content": "a"}
    assert "role" not in sent(out[1])["choices"][0]["delta"]
    _, out = read(
        chunk({"role": "assistant", "content": ""}),
        chunk({"role": "assistant", "content": "c"}),
        reader=RoundReader(answer),
    )
    assert out[0] is None
    assert sent(out[1])["choices"][0]["delta"] == {"content": "c"}


@pytest.mark.parametrize("role", [None, ""])
def test_an_empty_role_is_none(role: str | None) -> None:
    _, out = read(chunk({"role": role, "content": "a"}), chunk({"role": role, "content": "b"}))
    assert [sent(one)["choices"][0]["delta"] for one in out] == [
        {"role": "assistant", "content": "a"},
        {"content": "b"},
    ]


def test_the_finish_is_kept_for_the_end_and_text_beside_it_is_not_lost() -> None:
    reader, out = read(chunk({"role": "assistant"}), chunk({"content": "end"}, "length"), chunk({}, "length"))
    assert sent(out[1])["choices"][0] == {"index": 0, "delta": {"content": "end"}, "finish_reason": None}
    assert out[2] is None
    assert reader.finish_reason == "length"


def test_an_empty_finish_reason_in_every_chunk_is_none() -> None:
    reader, out = read(chunk({"role": "assistant", "content": "a"}, ""), chunk({"content": "b"}, ""), chunk({}, "stop"))
    assert [sent(one)["choices"][0]["finish_reason"] for one in out[:2]] == [None, None]
    assert reader.finish_reasons == {0: "stop"}
    assert read(chunk({"content": "a"}, ""))[0].finish_reasons == {}


@pytest.mark.parametrize("forward", [True, False])
def test_usage_in_every_chunk_counts_once_with_its_last_value(forward: bool) -> None:
    reader = RoundReader(AnswerState(), forward_usage=forward)
    out = [
        reader.take(event(chunk({"role": "assistant", "content": "a"}, usage={"total_tokens": 1}))),
        reader.take(event(chunk({"content": "b"}, usage={"total_tokens": 2}))),
        reader.take(event({"choices": [], "usage": {"total_tokens": 2}})),
    ]
    assert reader.usage == {"total_tokens": 2}
    assert [b"usage" in (one or b"") for one in out] == [forward] * 3
    assert (out[2] is None) is not forward


def test_empty_choices_first_are_passed_on_and_name_neither_model_nor_time() -> None:
    answer = AnswerState()
    azure = {"choices": [], "created": 0, "id": "", "model": "", "prompt_filter_results": [{"prompt_index": 0}]}
    _, out = read(azure, chunk({"content": "a"}, created=7, model="m"), reader=RoundReader(answer))
    assert out[0] == event(azure).raw
    assert (answer.created, answer.model) == (7, "m")
    assert sent(out[1])["choices"][0]["delta"]["role"] == "assistant"


def test_text_in_parts_is_scanned_and_goes_out_as_it_came() -> None:
    parts = [{"type": "thinking", "thinking": "no"}, {"type": "text", "text": "yes"}]
    reader, out = read(chunk({"role": "assistant", "content": parts}))
    assert out == [event(chunk({"role": "assistant", "content": parts})).raw]
    assert reader.text == "yes"


@pytest.mark.parametrize("data", [b"{oops", b"5", b'"text"', b"[]", b"\xff", b"[" * 10_000])
def test_what_is_no_json_object_is_dropped_and_logged(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        reader, out = read(data, chunk({"role": "assistant", "content": "good"}))
    assert (out[0], reader.text) == (None, "good")
    assert "dropped an event" in caplog.text


def test_a_flood_of_bad_events_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    read(*[b"{oops"] * 50)
    assert len(caplog.records) == 5


@pytest.mark.parametrize("data", [b'{"type":"ping"}', b'{"choices":null,"x":1}', b'{"object":"trace","choices":"no"}'])
def test_events_of_an_unknown_kind_are_passed_on(data: bytes) -> None:
    assert read(data)[1] == [event(data).raw]


@pytest.mark.parametrize("choice", [5, None, "x", []])
def test_a_choice_that_is_no_object_is_left_out(choice: Any) -> None:
    _, out = read({"choices": [choice, {"index": 0, "delta": {"role": "assistant", "content": "a"}}]})
    assert len(sent(out[0])["choices"]) == 1
    assert read({"choices": [choice]})[1] == [None]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"error": {"message": "overloaded", "code": 529}}, "overloaded"),
        ({"error": "plain words"}, "plain words"),
        ({"type": "error", "error": {"type": "overloaded_error"}}, "overloaded_error"),
        ({**chunk({"content": ""}, "error"), "error": {"message": "provider gone"}}, "provider gone"),
    ],
)
def test_an_error_in_the_stream_is_raised_with_its_words(value: Any, said: str) -> None:
    with pytest.raises(UpstreamBrokenError, match=said):
        read(value)


@pytest.mark.parametrize("field", ["tool_calls", "function_call"])
def test_native_calls_of_the_first_choice_pass_and_are_remembered(field: str) -> None:
    piece: Any = [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}]
    values = [chunk({"role": "assistant"}), *[chunk({field: piece})] * 3]
    reader, out = read(*values)
    assert reader.native_calls
    assert out == [event(value).raw for value in values]  # nothing is joined by us (P21)
    assert not read(chunk({field: piece}, index=1))[0].native_calls


def test_only_the_first_choice_is_collected() -> None:
    reader, out = read(chunk({"content": "a"}), chunk({"content": "b"}, index=1), chunk({}, "length", 1))
    assert reader.text == "a"
    assert sent(out[1])["choices"][0]["delta"] == {"content": "b", "role": "assistant"}
    assert reader.finish_reasons == {1: "length"}


def test_reasoning_is_passed_on_and_not_collected() -> None:
    value = chunk({"role": "assistant", "reasoning_content": "<<<[TOOL_REQUEST]>>>", "content": None})
    reader, out = read(value)
    assert (reader.text, out) == ("", [event(value).raw])


@pytest.mark.parametrize(
    "first", [{"content": "a"}, {"reasoning_content": "hm"}, {"tool_calls": [{"index": 0}]}, {"refusal": "no"}]
)
def test_the_first_piece_of_an_answer_is_told_once_whatever_it_is(first: Any) -> None:
    told: list[int] = []
    reader = RoundReader(AnswerState(), lambda: told.append(1))
    reader.take(event(chunk({"role": "assistant", "content": "", "refusal": None})))
    assert not told
    reader.take(event(chunk(first)))
    reader.take(event(chunk({"content": "b"})))
    assert told == [1]


def test_in_later_rounds_other_choices_are_left_out_whatever_the_upstream_sends() -> None:
    answer = AnswerState()
    RoundReader(answer).take(event(chunk({"role": "assistant", "content": "a"})))
    reader = RoundReader(answer, first_choice_only=True)
    both = chunk({"content": "b"})
    both["choices"] += [{"index": 1, "delta": {"content": "c"}, "finish_reason": "length"}]
    out = reader.take(event(both))
    assert out is not None
    assert [choice["index"] for choice in json.loads(out[6:])["choices"]] == [0]
    other = chunk({"content": "d"})
    other["choices"][0]["index"] = 1
    assert reader.take(event(other)) is None
    assert (reader.text, reader.finish_reasons) == ("b", {})
