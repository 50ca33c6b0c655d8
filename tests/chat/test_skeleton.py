"""Chunks that are recognised by their form are read exactly as those that are parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat.reading import AnswerState, RoundReader
from app.chat.skeleton import MAX_VAIN, ChunkSkeleton
from app.protocol.sse import SseEvent

HEAD = '{"id":"c1","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"'
TAIL = '"},"finish_reason":null}]}'


def event(data: bytes) -> SseEvent:
    return SseEvent(data, b"data: " + data + b"\n\n", "")


def chunk_bytes(text: str, *, ascii_only: bool = False, spaces: bool = False, **choice: Any) -> bytes:
    delta = choice.pop("delta", {"content": text})
    value = {"id": "c1", "created": 1, "model": "m", "choices": [{"index": 0, "delta": delta, **choice}]}
    separators = (", ", ": ") if spaces else (",", ":")
    return json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode("utf-8", "surrogatepass")


def read_both_ways(datas: list[bytes], *, usage: bool) -> tuple[list[bytes | None], list[bytes | None], str, str]:
    """What one reader makes of all, and what readers make that know only one chunk each and so recognise none."""
    answer, other = AnswerState(), AnswerState()
    reader = RoundReader(answer, forward_usage=usage)
    forwarded = [reader.take(event(data)) for data in datas]
    singles = [RoundReader(other, forward_usage=usage) for _ in datas]
    parsed = [single.take(event(data)) for single, data in zip(singles, datas, strict=True)]
    return forwarded, parsed, "".join(reader.new_text), "".join("".join(single.new_text) for single in singles)


texts = st.text(max_size=6) | st.sampled_from(
    ["a", "word ", "<", "「始」", '"', "\\", "\n", "\u3000", "\x7f", "\U0001f600"]
)
ordinary = st.builds(chunk_bytes, texts, ascii_only=st.booleans(), spaces=st.booleans())
raw_content = st.binary(max_size=4).map(lambda inner: HEAD.encode() + inner + TAIL.encode())
odd = st.sampled_from(
    [
        chunk_bytes("", delta={"role": "assistant", "content": "a"}),
        chunk_bytes("", delta={"role": "assistant", "content": ""}),
        chunk_bytes("", delta={"reasoning_content": "a", "content": "a"}),
        chunk_bytes("", delta={"content": None, "refusal": "a"}),
        chunk_bytes("", delta={"content": ["a"]}),
        chunk_bytes("a", finish_reason="stop"),
        chunk_bytes("a", index=1),
        chunk_bytes("a", index=True),
        b'{"choices":[],"usage":{"total_tokens":1}}',
        b'{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"total_tokens":1}}',
        b'{"choices":[{"index":0,"delta":{"content":"b"}}],"usage":{"total_tokens":1}}',
        b'{"choices":[{"index":0,"delta":{"content":"a","content":"b"}}]}',
        b'{"choices":[{"index":0,"delta":{"content":"c","content":"b"}}]}',
        b'{"id":"a","choices":[{"index":0,"delta":{"content":"\\u0061"}}]}',
        b'{"id":"b","choices":[{"index":0,"delta":{"content":"\\u0061"}}]}',
        b'{"choices":[{"index":0,"delta":{"content":"a"}},{"index":0,"delta":{"content":"b"}}]}',
        b'{"choices":[{"index":0,"delta":{"content":"a"}},7]}',
        b"[DONE]",
        b"not JSON",
        b"[]",
    ]
)


@given(st.lists(ordinary | raw_content | odd, max_size=12), st.booleans())
def test_recognised_and_parsed_chunks_are_read_alike(datas: list[bytes], usage: bool) -> None:
    forwarded, parsed, text, expected = read_both_ways(datas, usage=usage)
    assert forwarded == parsed
    assert text == expected


@pytest.mark.parametrize(
    ("inner", "content"),
    [
        (b"next", "next"),
        ("你好 <<<".encode(), "你好 <<<"),
        (b"", ""),
        (b'a"b', ""),
        (b"a\\nb", ""),
        (b"a\tb", ""),
        (b"\xff", ""),
        (b"\xe4\xbd", ""),
        (b'x"},"finish_reason":null}]},{"a":"', ""),
    ],
)
def test_only_a_plain_string_in_the_known_place_is_recognised(inner: bytes, content: str) -> None:
    skeleton = ChunkSkeleton()
    first = (HEAD + "first" + TAIL).encode()
    assert skeleton.content_of(first) == ""
    skeleton.learn(first, json.loads(first), "first")
    assert skeleton.content_of(HEAD.encode() + inner + TAIL.encode()) == content


def test_a_field_that_holds_the_same_text_is_not_taken_for_the_content() -> None:
    skeleton = ChunkSkeleton()
    data = b'{"id":"a","choices":[{"index":0,"delta":{"content":"\\u0061"}}]}'
    skeleton.learn(data, json.loads(data), "a")
    assert skeleton.content_of(data.replace(b'"a"', b'"b"')) == ""


def test_the_form_is_learned_anew_when_it_changes_but_not_for_ever_in_vain() -> None:
    def written(number: int, text: str) -> bytes:
        return b'{"created":%d,"choices":[{"index":0,"delta":{"content":"%b"}}]}' % (number, text.encode())

    skeleton = ChunkSkeleton()
    for number in range(3 * MAX_VAIN):  # a new time now and then, and chunks that are like the one before
        data = written(number, "a")
        skeleton.learn(data, json.loads(data), "a")
        assert skeleton.content_of(written(number, "b")) == "b"
    for number in range(1000, 1000 + MAX_VAIN + 1):  # something new in every chunk
        data = written(number, "a")
        skeleton.learn(data, json.loads(data), "a")
    assert skeleton.content_of(written(1000 + MAX_VAIN, "b")) == ""
    assert skeleton.content_of(written(1000 + MAX_VAIN - 1, "b")) == "b"
