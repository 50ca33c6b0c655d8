"""Bytes in any pieces, lines out (STD-16, STD-19, STD-20)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.mcp.stdio.lines import LineSplitter, TooLong

PIECES = st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\x00", b"\n")), max_size=12)


def split(pieces: list[bytes], limit: int) -> list[bytes | TooLong]:
    splitter = LineSplitter(limit)
    return [*(line for piece in pieces for line in splitter.feed(piece)), *splitter.finish()]


@given(PIECES, st.integers(1, 20))
def test_where_the_pieces_are_cut_makes_no_difference(pieces: list[bytes], limit: int) -> None:
    whole = b"".join(pieces)
    assert split(pieces, limit) == split([whole], limit) == split([bytes([byte]) for byte in whole], limit)


@given(PIECES)
def test_lines_are_what_stands_between_newlines(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    expected = [line.removesuffix(b"\r") for line in whole.split(b"\n")]
    if whole.endswith(b"\n") or not whole:
        expected.pop()  # nothing stands behind the last one
    assert split(pieces, 1000) == expected


def test_the_cap_counts_bytes_and_keeps_only_the_length() -> None:
    """STD-16: one byte more is too many."""
    assert split([b"12345\n123456\n1\n"], 5) == [b"12345", TooLong(6), b"1"]
    assert split(["密密".encode() + b"\n"], 5) == [TooLong(6)]


def test_a_line_without_end_takes_no_memory() -> None:
    splitter = LineSplitter(100)
    for _ in range(1000):
        assert splitter.feed(b"x" * 1000) == []
        assert len(splitter._kept) <= 100
    assert splitter.feed(b"\nok\n") == [TooLong(1_000_000), b"ok"]
