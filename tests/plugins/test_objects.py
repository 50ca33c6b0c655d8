"""The first complete answer in an output that grows (D14): found at once, however it is cut, in linear time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.plugins import objects
from app.plugins.background import LOOK_TOKENS, FirstAnswer
from app.plugins.objects import TOKEN_LIMIT, FirstObject
from app.plugins.output import Answer

GOOD = b'{"status":"success","result":"hello"}'


def first(*pieces: bytes) -> tuple[bytes | None, int]:
    """The first object, and the number of the piece with which it was complete."""
    search, data = FirstObject(), bytearray()
    for number, piece in enumerate(pieces):
        data += piece
        found = search.look(data, TOKEN_LIMIT)
        if not isinstance(found, bool):
            return bytes(data[found[0] : found[1]]), number
    return None, len(pieces)


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        b'{"status":"success","result":{"a":{"b":{"c":[{"d":"}}}"}]}}}}',
        json.dumps({"result": {"x": [1, {"y": "汉😀"}]}, "status": "error"}, indent=4).encode(),
        b'{"result":"a \\" } { \\\\","n":-1.5e-3,"t":true,"status":"success"}',
        b'{ "status" :\r\n\t"success" }',
    ],
    ids=["flat", "nested", "many lines", "quotes and braces in text", "blanks"],
)
@pytest.mark.parametrize("before", [b"", b"Loading {model} ...\n", b'{"progress": 1}\n', b"100% {\n", b'say "hi\n'])
def test_the_answer_is_taken_with_its_last_byte_however_it_is_cut(answer: bytes, before: bytes) -> None:
    output = before + answer + b'\nmore {"status":"success","result":"later"}'
    single = [output[index : index + 1] for index in range(len(output))]
    assert first(*single) == (answer, len(before) + len(answer) - 1)
    assert first(output)[0] == answer


def test_what_stands_inside_an_open_object_is_not_the_answer_yet() -> None:
    opened = b'{"inner":{"status":"success"},'
    assert first(opened)[0] is None
    assert first(opened, b'"status":"error"}')[0] == opened + b'"status":"error"}'


def test_an_answer_inside_something_that_is_no_json_after_all_counts_the_first_one() -> None:
    inner = b'{"status":"success","result":1}'
    assert first(b'{"log":[' + inner + b',{"status":"error"} oops\n')[0] == inner


@pytest.mark.parametrize("word", [b"1", b"-1.25e+10", b"true", b"false", b"null"])
def test_numbers_and_words_may_be_cut_anywhere(word: bytes) -> None:
    answer = b'{"a":' + word + b',"status":"success"}'
    for cut in range(len(answer)):
        assert first(answer[:cut], answer[cut:]) == (answer, 1)


JUNK = st.binary(max_size=6) | st.sampled_from(
    [b"{", b"}", b"[", b"]", b'"', b":", b",", b'"status"', b'"success"', b"\n", b"\\", b" ", b"1", b"tr", b"ue", GOOD]
)


@given(st.lists(JUNK, max_size=20), st.data())
def test_pieces_make_no_difference(parts: list[bytes], data: Any) -> None:
    output = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(output)), max_size=8)))
    pieces = [output[start:end] for start, end in zip([0, *cuts], [*cuts, len(output)], strict=True)]
    assert first(*pieces)[0] == first(output)[0]


@pytest.mark.parametrize(
    "noise",
    [
        b"{" * 300_000,
        b'{"' * 100_000,
        b'{"a":' * 50_000,
        b'{"\\' * 100_000,
        b"{ " * 100_000,
        b" " * 500_000,
        b"x" * 500_000,
    ],
)
def test_hostile_noise_in_small_pieces_costs_linear_time(noise: bytes) -> None:
    # A search that begins anew with each piece would take hours here.
    output = noise + b"\n" + GOOD
    assert first(*(output[index : index + 512] for index in range(0, len(output), 512)))[0] == GOOD


def test_a_large_answer_in_small_pieces_costs_linear_time() -> None:
    answer = b'{"picture":"' + b"A" * 8_000_000 + b'","status":"success"}'
    assert first(*(answer[index : index + 2000] for index in range(0, len(answer), 2000)))[0] == answer


def test_a_long_output_is_looked_at_in_portions_so_that_others_have_their_turn() -> None:
    look, data, turns = FirstAnswer(), bytearray(b"{}" * LOOK_TOKENS * 3 + GOOD), 0
    while (found := look.look(data)) is True:
        turns += 1
    assert isinstance(found, Answer)
    assert found.fields["result"] == "hello"
    assert turns >= 3


def test_an_object_that_cannot_be_read_after_all_gives_way_to_the_next() -> None:
    look, data = FirstAnswer(), bytearray(b'{"status":"success","status":"maybe"}' + GOOD)
    while (found := look.look(data)) is True:
        pass
    assert isinstance(found, Answer)
    assert found.fields["result"] == "hello"


def test_the_search_gives_up_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "TOKEN_LIMIT", 1000)
    search = FirstObject()
    assert search.look(b"{}" * 510 + GOOD, TOKEN_LIMIT) is False
    assert search.given_up
