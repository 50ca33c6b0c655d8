"""Events from bytes: the standard's grammar, cut anywhere (pitfalls P23, P24, P26; trap 1)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import UpstreamBrokenError
from app.protocol.sse import SseEvent, SseReader


def read(*pieces: bytes, limit: int = 1_000_000) -> list[SseEvent]:
    reader = SseReader(max_event_bytes=limit)
    return [event for piece in pieces for event in reader.feed(piece)] + reader.finish()


def datas(*pieces: bytes) -> list[bytes]:
    return [event.data for event in read(*pieces)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\ndata:b\n\n", [b"a\nb"]),
        (b"data: \n\n", [b""]),
        (b"data\n\ndata\ndata\n\n", [b"", b"\n"]),
        (b": keep-alive\n\n: OPENROUTER PROCESSING\n\ndata: a\n\n", [b"a"]),
        (b"data: a\n: between\ndata: b\n\n", [b"a\nb"]),
        (b"id: 1\nretry: 10\ndata: a\n\n", [b"a"]),
        (b"event: x\n\ndata: a\n\n", [b"a"]),
        (b"unknown: x\nnothing\ndata: a\n\n", [b"a"]),
        (b"\n\n\n\ndata: a\n\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"data: a\n\ndata: last", [b"a", b"last"]),
        (b"data: a\n\ndata: last\n", [b"a", b"last"]),
        (b"data: a\n\ndata: last\r", [b"a", b"last"]),
        (b"data: {oops\n\ndata: [DONE]\n\n", [b"{oops", b"[DONE]"]),
        (b" data: a\n\n", []),
        (b"\xef\xbb", []),
        (b"", []),
    ],
)
def test_events_are_read_by_the_standard_however_they_are_cut(stream: bytes, expected: list[bytes]) -> None:
    assert datas(stream) == expected
    assert datas(*(bytes([byte]) for byte in stream)) == expected
    for cut in range(len(stream)):
        assert datas(stream[:cut], b"", stream[cut:]) == expected


def test_unicode_line_separators_are_no_line_ends() -> None:
    text = "a\u2028b\u0085c\u2029d\v\f\x1c汉😀"
    stream = f"data: {text}\n\n".encode()
    assert [data.decode() for data in datas(stream)] == [text]
    assert [data.decode() for data in datas(*(bytes([byte]) for byte in stream))] == [text]


def test_comments_are_counted_and_not_delivered() -> None:
    reader = SseReader()
    assert reader.feed(b": a\n:\n\n:b\n") == []
    assert reader.comments == 3


def test_an_event_is_handed_on_in_one_form() -> None:
    assert read(b"data: a\n\n") == [SseEvent(b"a", b"data: a\n\n", "")]
    assert read(b"data:a\r\n\r\n") == [SseEvent(b"a", b"data: a\n\n", "")]
    assert read(b"data: a\r\n\r\n") == [SseEvent(b"a", b"data: a\n\n", "")]
    assert read(b"id: 1\nevent: x\ndata: a\ndata:b\n\ndata: c\n\n") == [
        SseEvent(b"a\nb", b"event: x\ndata: a\ndata: b\n\n", "x"),
        SseEvent(b"c", b"data: c\n\n", ""),
    ]


def test_an_event_is_delivered_with_the_piece_that_ends_it() -> None:
    reader = SseReader()
    assert reader.feed(b"data: a\r\n") == []
    assert [event.data for event in reader.feed(b"\r")] == [b"a"]
    assert [event.data for event in reader.feed(b"\ndata: b\n\n")] == [b"b"]


@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"x" * 101 + b"\n\n",
        b"data: " + b"x" * 101,
        b": " + b"x" * 101 + b"\n",
        b"data: xxxx\n" * 20 + b"\n",
        b"event: " + b"x" * 101 + b"\ndata: a\n\n",
    ],
)
def test_an_event_over_the_limit_breaks_the_stream_after_the_good_ones(stream: bytes) -> None:
    whole = b"data: good\n\n" + stream
    for pieces in ([whole], [bytes([byte]) for byte in whole]):
        reader = SseReader(max_event_bytes=100)
        found: list[bytes] = []
        with pytest.raises(UpstreamBrokenError, match="100 bytes"):
            for piece in pieces:
                found += [event.data for event in reader.feed(piece)]
            reader.finish()
        assert found == [b"good"]


def test_many_comments_are_no_event_that_grows() -> None:
    assert datas(*[b": keep-alive\n"] * 100, b"data: a\n\n") == [b"a"]


def test_an_event_of_exactly_the_limit_is_read() -> None:
    assert [event.data for event in read(b"data: " + b"x" * 94 + b"\n\n", limit=100)] == [b"x" * 94]


PIECES = st.lists(
    st.sampled_from([b"data: ", b"data:", b"data", b"event: x", b"id: 1", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n"])
    | st.sampled_from(["汉".encode(), b"{}", b"\xef\xbb\xbf", "\u2028".encode(), b"data: {}\n\n", b"data: {}\r\n\r\n"]),
    max_size=25,
)


@given(pieces=PIECES, cuts=st.lists(st.integers(0, 200), max_size=8), limit=st.sampled_from([1000, 30]))
def test_how_a_stream_is_cut_makes_no_difference(pieces: list[bytes], cuts: list[int], limit: int) -> None:
    stream = b"".join(pieces)

    def outcome(parts: list[bytes]) -> tuple[list[SseEvent], int, bool]:
        reader = SseReader(max_event_bytes=limit)
        found: list[SseEvent] = []
        try:
            for part in parts:
                found += reader.feed(part)
            found += reader.finish()
        except UpstreamBrokenError:
            return found, 0, True
        return found, reader.comments, False

    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    whole = outcome([stream])
    assert outcome([stream[start:end] for start, end in itertools.pairwise(edges)]) == whole
    assert outcome([bytes([byte]) for byte in stream]) == whole


@given(texts=st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\n"))))
def test_what_is_sent_on_reads_as_the_same_events(texts: list[str]) -> None:
    events = read(*(f"data:{text}\r\n\r\n".encode() for text in texts))
    assert read(*(event.raw for event in events)) == events
