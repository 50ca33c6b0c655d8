"""A prompt text as a sequence of pieces, each with its source and trust, until the last moment (D9, D31)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from app.extend import Piece, Trust

NOT_DATA = frozenset({Trust.OPERATOR, Trust.MESSAGE})
"""Where placeholders are looked for: data is inserted literally and never searched."""

EVERYTHING = frozenset(Trust)

Resolver = Callable[[re.Match[str]], Sequence[Piece] | None]
"""The pieces to put in place of a match, or None to leave the match as it is written."""

_Edit = tuple[int, int, Sequence[Piece]]


@dataclass(frozen=True, slots=True)
class PromptText:
    """An immutable text of pieces. Every operation is linear in the text and returns a new value."""

    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, text: str, source: str, trust: Trust) -> PromptText:
        """A text of one piece."""
        return cls((Piece(text, source, trust),))

    def join(self) -> str:
        """The whole text."""
        return "".join([piece.text for piece in self.pieces])

    def find(self, pattern: re.Pattern[str], trusts: frozenset[Trust]) -> Iterator[re.Match[str]]:
        """The matches that ``replace`` would visit, in order."""
        for text in self.texts(trusts):
            yield from matches(pattern, text)

    def texts(self, trusts: frozenset[Trust]) -> Sequence[str]:
        """The texts that ``find`` searches: longest sequences of pieces of these trusts."""
        if len(self.pieces) == 1:  # as most texts are
            return (self.pieces[0].text,) if self.pieces[0].trust in trusts else ()
        return [_joined(run) for run, allowed in self._runs(trusts) if allowed]

    def replace(self, pattern: re.Pattern[str], resolve: Resolver, trusts: frozenset[Trust]) -> PromptText:
        """Replace matches of ``pattern`` in pieces of the given trusts.

        Adjacent pieces of these trusts are searched as one text, so ``{{VCP{{VarName}}}}`` is found once the variable
        is in; a piece of another trust is a border that no match crosses. What is put in is not searched again.
        Regions without a match keep their text and source. Empty matches are ignored.
        """

        def edits(text: str) -> Iterator[_Edit]:
            for match in matches(pattern, text):
                inserted = resolve(match)
                if inserted is not None:
                    yield match.start(), match.end(), inserted

        return self._edited(edits, trusts)

    def replace_literals(
        self, literals: Sequence[str], insert: Callable[[], Sequence[Piece]], trusts: frozenset[Trust] = EVERYTHING
    ) -> PromptText:
        """Replace every occurrence of one of ``literals`` (none empty) by what ``insert`` returns for each.

        Like ``replace``, but many times as fast on long texts: no pattern, plain searches.
        """

        def edits(text: str) -> Iterator[_Edit]:
            found = {literal: text.find(literal) for literal in literals}
            while places := [(place, literal) for literal, place in found.items() if place >= 0]:
                place, nearest = min(places)
                end = place + len(nearest)
                yield place, end, insert()
                for literal, before in found.items():
                    if 0 <= before < end:
                        found[literal] = text.find(literal, end)

        return self._edited(edits, trusts)

    def _edited(self, edits: Callable[[str], Iterator[_Edit]], trusts: frozenset[Trust]) -> PromptText:
        pieces: list[Piece] = []
        changed = False
        for run, allowed in self._runs(trusts):
            found = list(edits(_joined(run))) if allowed else []
            if found:
                changed = True
                pieces.extend(_spliced(run, found))
            else:
                pieces.extend(run)
        return PromptText(tuple(pieces)) if changed else self

    def _runs(self, trusts: frozenset[Trust]) -> Iterator[tuple[Sequence[Piece], bool]]:
        """Longest sequences of pieces that are all of the given trusts, or all not."""
        begin = 0
        for index in range(1, len(self.pieces) + 1):
            allowed = self.pieces[begin].trust in trusts
            if index == len(self.pieces) or (self.pieces[index].trust in trusts) != allowed:
                yield self.pieces[begin:index], allowed
                begin = index


def _joined(run: Sequence[Piece]) -> str:
    return run[0].text if len(run) == 1 else "".join([piece.text for piece in run])


def matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """All matches that are not empty."""
    return (match for match in pattern.finditer(text) if match.end() > match.start())


def _spliced(run: Sequence[Piece], edits: Iterable[_Edit]) -> Iterator[Piece]:
    """The run with ``edits`` (sorted, not overlapping, positions in the joined run) carried out."""
    index = 0
    begin = 0  # where run[index] starts in the joined text
    cursor = 0  # everything before it is done
    total = sum(len(piece.text) for piece in run)
    for start, end, inserted in (*edits, (total, total, ())):
        while index < len(run):
            piece = run[index]
            stop = begin + len(piece.text)
            if not piece.text:
                yield piece  # a source that gave nothing stays visible
            low, high = max(cursor, begin), min(start, stop)
            if low < high:
                whole = low == begin and high == stop
                yield piece if whole else Piece(piece.text[low - begin : high - begin], piece.source, piece.trust)
            if stop > end:
                break  # the rest of this piece lies behind the edit
            index += 1
            begin = stop
        yield from inserted
        cursor = end
