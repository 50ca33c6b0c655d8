from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from app.extend import Piece, Trust
from app.prompt.pieces import EVERYTHING, NOT_DATA, PromptText

PIECES = st.lists(
    st.builds(Piece, st.text("ab{}", max_size=6), st.sampled_from(["one", "two", "three"]), st.sampled_from(Trust)),
    max_size=8,
)
PATTERNS = st.sampled_from([r"\{\{[^{}]*\}\}", r"\{\{", "a", "a+b?", "b*", r"\{a|b\}"]).map(re.compile)
TRUSTS = st.sampled_from([NOT_DATA, EVERYTHING, frozenset({Trust.DATA})])

Letters = list[tuple[str, str, Trust]]


def letters(pieces: tuple[Piece, ...]) -> Letters:
    """Every character with its source and trust."""
    return [(letter, piece.source, piece.trust) for piece in pieces for letter in piece.text]


def replaced_by_hand(pieces: list[Piece], pattern: re.Pattern[str], new: Piece, trusts: frozenset[Trust]) -> Letters:
    """The specification of ``replace``, character by character."""
    result: Letters = []
    run: Letters = []

    def finish() -> None:
        position = 0
        for match in pattern.finditer("".join(letter for letter, _, _ in run)):
            if match.end() > match.start():
                result.extend(run[position : match.start()])
                result.extend(letters((new,)))
                position = match.end()
        result.extend(run[position:])
        run.clear()

    for piece in pieces:
        if piece.trust in trusts:
            run.extend(letters((piece,)))
        else:
            finish()
            result.extend(letters((piece,)))
    finish()
    return result


@given(PIECES, PATTERNS, st.text("ab{}", max_size=3), TRUSTS)
def test_replace_keeps_text_and_source_of_untouched_regions(
    pieces: list[Piece], pattern: re.Pattern[str], text: str, trusts: frozenset[Trust]
) -> None:
    new = Piece(text, "new", Trust.OPERATOR)
    result = PromptText(tuple(pieces)).replace(pattern, lambda match: (new,), trusts)
    assert letters(result.pieces) == replaced_by_hand(pieces, pattern, new, trusts)


@given(PIECES, st.text("ab{}", min_size=1, max_size=3), st.text("ab{}", max_size=3))
def test_replace_literals_finds_matches_across_pieces_of_any_trust(
    pieces: list[Piece], literal: str, text: str
) -> None:
    original = PromptText(tuple(pieces))
    result = original.replace_literals((literal,), lambda: (Piece(text, "new", Trust.OPERATOR),))
    assert result.join() == original.join().replace(literal, text)


@given(PIECES, PATTERNS, TRUSTS)
def test_a_resolver_that_declines_everything_changes_nothing(
    pieces: list[Piece], pattern: re.Pattern[str], trusts: frozenset[Trust]
) -> None:
    text = PromptText(tuple(pieces))
    assert text.replace(pattern, lambda match: None, trusts) is text


def test_a_placeholder_may_span_adjacent_trusted_pieces() -> None:
    text = PromptText(
        (
            Piece("<{{VCP", "message", Trust.MESSAGE),
            Piece("Echo", "VarN", Trust.OPERATOR),
            Piece("}}>", "m", Trust.MESSAGE),
        )
    )
    result = text.replace(re.compile(r"\{\{VCP(\w+)\}\}"), lambda m: (Piece(m[1], "tool", Trust.OPERATOR),), NOT_DATA)
    assert result.pieces == (
        Piece("<", "message", Trust.MESSAGE),
        Piece("Echo", "tool", Trust.OPERATOR),
        Piece(">", "m", Trust.MESSAGE),
    )


def test_data_is_a_border_that_no_match_crosses_even_when_it_is_empty() -> None:
    text = PromptText(
        (Piece("{{Da", "m", Trust.MESSAGE), Piece("", "static", Trust.DATA), Piece("te}}", "m", Trust.MESSAGE))
    )
    assert text.replace(re.compile(r"\{\{Date\}\}"), lambda match: (), NOT_DATA) is text


def test_pieces_without_text_stay_visible() -> None:
    empty = Piece("", "SarPrompt1", Trust.OPERATOR)
    text = PromptText((Piece("ab", "m", Trust.MESSAGE), empty, Piece("ab", "m", Trust.MESSAGE)))
    result = text.replace(re.compile("a"), lambda match: (Piece("x", "n", Trust.OPERATOR),), NOT_DATA)
    assert empty in result.pieces
    assert result.join() == "xbxb"
