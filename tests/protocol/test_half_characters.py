"""Text that was cut within characters and put together again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.half_characters import PieceJoiner, whole

ANY_TEXT = st.text(st.characters(blacklist_categories=("Cs",)) | st.sampled_from("😀🏳\ufeff\u2028\x85<「"))


def halves(text: str) -> list[str]:
    """The text in UTF-16 units, as JSON escapes can write it."""
    units = text.encode("utf-16-le")
    return [units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)]


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
