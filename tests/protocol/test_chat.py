"""Shapes of the OpenAI chat API and joining of streamed answers (pitfalls P21, P25)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.chat import (
    DONE,
    CompletionJoiner,
    chunk,
    completion,
    completion_to_chunks,
    error_object,
    sse,
    text_of,
)


def join(*chunks: Any) -> dict[str, Any]:
    joiner = CompletionJoiner()
    for each in chunks:
        joiner.feed(each)
    return joiner.completion()


def delta(content: dict[str, Any], finish: str | None = None, index: int = 0) -> dict[str, Any]:
    return chunk("c1", "m", 7, content, finish, index)


def test_the_shapes_are_those_of_the_api() -> None:
    assert delta({"content": "a"}) == {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}],
    }
    assert completion("c1", "m", 7, "a", "stop", usage={"total_tokens": 3}) == {
        "id": "c1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}],
        "usage": {"total_tokens": 3},
    }
    assert error_object("no", "invalid_request_error", "bad") == {
        "error": {"message": "no", "type": "invalid_request_error", "param": None, "code": "bad"}
    }
    assert (sse(b"{}"), DONE) == (b"data: {}\n\n", b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        (None, ""),
        (5, ""),
        ([], ""),
        (
            [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}, {"text": "b"}, "c"],
            "a|b|c",
        ),
        ([{"type": "text"}, {"type": "text", "text": 5}, None], ""),
    ],
)
def test_the_text_of_any_content(content: Any, text: str) -> None:
    assert text_of(content, "|") == text


def test_streamed_events_become_one_completion() -> None:
    assert join(
        delta({"role": "assistant", "content": ""}),
        delta({"reasoning_content": "h"}),
        delta({"reasoning_content": "m"}),
        delta({"content": "a"}),
        delta({"content": "汉", "annotations": [1]}),
        delta({"annotations": [2], "refusal": None}, "stop"),
        {"id": "c1", "system_fingerprint": "f", "choices": [], "usage": {"total_tokens": 3}},
    ) == {
        "id": "c1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "a汉",
                    "reasoning_content": "hm",
                    "annotations": [1, 2],
                },
                "finish_reason": "stop",
            }
        ],
        "usage": {"total_tokens": 3},
        "system_fingerprint": "f",
    }


def test_native_calls_are_assembled_by_index() -> None:
    answer = join(
        delta(
            {"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": ""}}]}
        ),
        delta({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x"'}}]}),
        delta({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ":1}"}}]}),
        delta({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}]}, "tool_calls"),
    )
    [choice] = answer["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]


def test_native_calls_without_index_begin_with_their_id() -> None:
    answer = join(
        delta({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{"}}]}),
        delta({"tool_calls": [{"function": {"arguments": "}"}}]}),
        delta({"tool_calls": [{"id": "b", "function": {"name": "g", "arguments": "{}"}, "extra_content": {"s": 1}}]}),
        delta({"tool_calls": [{"id": "a", "function": {"arguments": " "}}]}),
    )
    calls = answer["choices"][0]["message"]["tool_calls"]
    assert [(call["id"], call["function"]["arguments"]) for call in calls] == [("a", "{} "), ("b", "{}")]
    assert calls[1]["extra_content"] == {"s": 1}


def test_the_older_form_of_native_calls_is_joined() -> None:
    answer = join(
        delta({"function_call": {"name": "f", "arguments": "{"}}), delta({"function_call": {"arguments": "}"}})
    )
    assert answer["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "f", "arguments": "{}"},
    }


def test_several_choices_are_kept_apart() -> None:
    answer = join(delta({"content": "b"}, "stop", 1), delta({"content": "a"}), delta({"content": "a"}, "length"))
    assert [(c["index"], c["message"]["content"], c["finish_reason"]) for c in answer["choices"]] == [
        (0, "aa", "length"),
        (1, "b", "stop"),
    ]


def test_log_probabilities_are_joined() -> None:
    first, second = delta({"content": "a"}), delta({"content": "b"})
    first["choices"][0]["logprobs"] = {"content": [1], "refusal": None}
    second["choices"][0]["logprobs"] = {"content": [2]}
    assert join(first, second)["choices"][0]["logprobs"] == {"content": [1, 2]}


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"choices": None},
        {"choices": ["x", None, {}]},
        {"choices": [{"index": "0", "delta": None}]},
        {"choices": [{"delta": {"tool_calls": ["x", {"function": None}], "content": None}}]},
        {"error": {"message": "x"}},
    ],
)
def test_odd_chunks_do_no_harm(odd: dict[str, Any]) -> None:
    assert join(odd, delta({"content": "a"}), odd)["choices"][0]["message"]["content"] == "a"


def test_a_whole_message_in_a_stream_counts_only_without_deltas() -> None:
    whole = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ab"}, "finish_reason": "stop"}]}
    assert join(whole)["choices"][0]["message"]["content"] == "ab"
    assert join(delta({"content": "ab"}), whole)["choices"][0]["message"]["content"] == "ab"


def test_nothing_is_joined_into_an_empty_completion() -> None:
    assert join() == {"id": "", "object": "chat.completion", "created": 0, "model": "", "choices": []}


def test_joining_leaves_the_chunks_alone() -> None:
    piece = delta({"annotations": [1]})
    join(piece, delta({"annotations": [2]}))
    assert piece["choices"][0]["delta"] == {"annotations": [1]}


CALLS = st.lists(
    st.builds(
        lambda id, arguments: {"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}},
        st.text(min_size=1, max_size=3),
        st.text(max_size=5),
    ),
    min_size=1,
    max_size=3,
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.text(max_size=10)},
    optional={"reasoning_content": st.text(max_size=5), "tool_calls": CALLS, "annotations": st.just([{"a": 1}])},
)


@given(
    messages=st.lists(MESSAGES, max_size=3),
    usage=st.none() | st.just({"total_tokens": 3}),
    finish=st.sampled_from(["stop", "length", None]),
)
def test_joining_the_chunks_of_a_completion_gives_it_back(
    messages: list[dict[str, Any]], usage: dict[str, int] | None, finish: str | None
) -> None:
    whole: dict[str, Any] = completion("c1", "m", 7, None, None, usage=usage) | {"system_fingerprint": "f"}
    whole["choices"] = [
        {"index": index, "message": message, "finish_reason": finish} for index, message in enumerate(messages)
    ]
    chunks = completion_to_chunks(whole)
    for each in chunks:
        assert each["object"] == "chat.completion.chunk"
    if chunks:
        assert join(*chunks) == whole


def test_the_chunks_of_a_completion_name_index_finish_and_usage_once() -> None:
    whole = completion("c1", "m", 7, "a", "stop", usage={"total_tokens": 3})
    whole["choices"][0]["message"]["tool_calls"] = [{"id": "a", "type": "function", "function": {}}]
    first, second, third = completion_to_chunks(whole)
    assert first["choices"][0]["delta"]["tool_calls"][0]["index"] == 0
    assert (first["choices"][0]["finish_reason"], second["choices"][0]["finish_reason"]) == (None, "stop")
    assert (third["choices"], third["usage"]) == ([], {"total_tokens": 3})
    assert "usage" not in first


def test_what_is_no_completion_gives_no_chunks() -> None:
    assert completion_to_chunks({"error": {"message": "x"}}) == []
    assert completion_to_chunks({"choices": ["x"]}) == []
