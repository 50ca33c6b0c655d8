"""Lines out of a stream of bytes (P94)."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from app.mcp.client.lines import KEPT_BYTES, LineCutter, Oversize


def cut(pieces: list[bytes], limit: int) -> list[bytes | Oversize]:
    cutter = LineCutter(limit)
    lines = list(itertools.chain.from_iterable(cutter.feed(piece) for piece in pieces))
    return lines + cutter.end()


@given(st.lists(st.binary(max_size=30).map(lambda data: data.replace(b"\r", b"\n")), max_size=20), st.integers(1, 40))
def test_where_the_stream_is_cut_into_pieces_makes_no_difference(pieces: list[bytes], limit: int) -> None:
    whole = b"".join(pieces)
    assert cut(pieces, limit) == cut([whole], limit) == cut([bytes([byte]) for byte in whole], limit)


@given(st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"\xff"])).map(b"".join))
def test_short_lines_are_those_of_the_text_without_empty_ones(data: bytes) -> None:
    assert cut([data], 1000) == [line.removesuffix(b"\r") for line in data.split(b"\n") if line]


def test_p94_of_a_line_that_is_too_long_only_both_ends_are_kept_and_the_next_one_is_read() -> None:
    long = b"a" * 10_000 + b"b" * 10_000_000
    pieces = [long[at : at + 65536] for at in range(0, len(long), 65536)]
    lines = cut([*pieces, b"\nnext\n"], 100_000)
    assert lines == [Oversize(len(long), b"a" * KEPT_BYTES, b"b" * KEPT_BYTES), b"next"]


def test_std_16_the_limit_is_one_of_bytes() -> None:
    """One byte more is too many."""
    assert [getattr(line, "size", line) for line in cut(["12345\n123456\n密密\n1\n".encode()], 5)] == [
        b"12345",
        6,
        6,
        b"1",
    ]


def test_memory_does_not_grow_with_a_line_that_never_ends() -> None:
    cutter = LineCutter(1_000)
    for _ in range(2_000):
        assert cutter.feed(b"x" * 10_000) == []
    assert cutter.waiting == 20_000_000
    assert len(cutter._head) + len(cutter._tail) <= 2 * KEPT_BYTES and not cutter._pieces
