"""JSON of bodies and chunks, and text that was cut within a character."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chat.payload import PieceJoiner, dumps, loads, loads_request, whole

ANY_TEXT = st.text(st.characters(blacklist_categories=("Cs",)) | st.sampled_from("😀🏳\ufeff\u2028\x85<「"))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a":"\\ud83d"}', {"a": "\ud83d"}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
        (b'{"a":1e400}', {"a": float("inf")}),
        ("[1]", [1]),
    ],
)
def test_json_of_odd_providers_is_read(data: bytes | str, value: object) -> None:
    assert loads(data) == value


@pytest.mark.parametrize("data", [b"", b"{oops", b"\xff\xfe", b'{"a":1} tail', b"[" * 100_000])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        loads(data)


def test_half_characters_and_large_numbers_can_be_written() -> None:
    assert loads(dumps({"a": "\udc00汉"})) == {"a": "\udc00汉"}
    assert dumps({"a": "汉", "b": 2**70 + 1}) == b'{"a":"\\u6c49","b":1180591620717411303425}'
    assert dumps({"a": "汉"}) == '{"a":"汉"}'.encode()


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[],"seed":1180591620717411303425}',
        b'{"messages":[],"x":{"y":[[-1180591620717411303425]]}}',
        b'{"messages":[{"content":"a"}],"seed":18446744073709551615,"t":0.1,"u":-9223372036854775808}',
        b'{"x":' + b"[" * 500 + b"1.5" + b"]" * 500 + b"}",
    ],
)
def test_what_a_client_sent_is_written_again_as_it_was(body: bytes) -> None:
    assert dumps(loads_request(body)) == body


def halves(text: str) -> list[str]:
    """The text in UTF-16 units, as JSON escapes can write it."""
    units = text.encode("utf-16-le")
    return [units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)]


@settings(deadline=None)
@given(ANY_TEXT, st.lists(st.integers(1, 4), min_size=1))
def test_text_cut_anywhere_even_within_characters_is_whole_again(text: str, sizes: list[int]) -> None:
    units, pieces, at = halves(text), [], 0
    while at < len(units):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append("".join(units[at : at + size]))
        at += size
    joiner = PieceJoiner()
    given_out = [joiner.feed(piece) for piece in pieces]
    assert "".join(given_out) + joiner.finish() == text
    assert all(piece.isascii() or piece.encode() for piece in given_out)
    assert whole("".join(pieces)) == text


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a\ud83d", "b"], "a\ufffdb"),
        (["\ude00", "b"], "\ufffdb"),
        (["\ud83d"], "\ufffd"),
        (["\ud83d", "", "\ude00"], "😀"),
        (["\ud83d", "\ud83d", "\ude00"], "\ufffd😀"),
    ],
)
def test_a_half_that_stays_alone_is_one_replacement_mark(pieces: list[str], text: str) -> None:
    joiner = PieceJoiner()
    assert "".join(map(joiner.feed, pieces)) + joiner.finish() == text
