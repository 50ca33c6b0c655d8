"""Cuts notes into chunks whose borders depend on the text around them (memory.md 3.3, D80). Pure.

Every line has a mark by chance, which only the line itself decides; so have sentences of long lines. A marked place is
a border unless the marked place before it ends too near. So an edit decides about the mark of its own line and about
the next marked place, and all borders further on stay where they are: it adds, takes away or moves one border. Headings
are borders, and keep lines near to them from being ones. What is still too long between two borders is cut at the
strongest place in its middle; that alone can make an edit touch more than two chunks, where two neighbouring chunks
together were as long as three: of random edits of long notes about one in a thousand. Each chunk but the first begins
with the end of the one before.
"""

from __future__ import annotations

import hashlib
import math
import re
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.protocol.diary_head import NoteHead
from app.protocol.token_estimate import IDEOGRAPHS

MARK_TOKENS = 80
"""One mark in so many tokens of lines, by chance; what the distances below leave of them is about one border in 180."""

APART_TOKENS = 30
"""A marked place is no border when so little or less lies between the piece that the last mark begins and it.

At least ``OVERLAP_TOKENS``: a line that becomes a border is never part of the overlap of the next one."""

HEADING_TOKENS = 160
"""Lines within so many tokens of a heading are no borders."""

EDGE_TOKENS = 240
"""No border is nearer to the beginning or end of a note; so a note of twice as much is one chunk."""

MIDDLE_TOKENS = 130
"""A part that is cut for its length is not cut nearer to its ends."""

MAX_TOKENS = 560
"""Longest part of a text between two borders."""

OVERLAP_TOKENS = 30
"""So much of the end of one chunk is also the beginning of the next, cut at a sentence or line."""

MAX_HEADER_CHARS = 600

_QUARTERS = (
    4  # weights are quarters of a token, so that they add up exactly: 6 for an ideograph, 1 for other characters
)
_IDEOGRAPH_EXTRA = 5
_LONG = 120 * _QUARTERS
"""A line longer than this may be cut at its sentences, a sentence longer than this anywhere but in a word or number."""

_SIGN_CHARS = 12
"""So much of what follows a place makes its strength; an edit further on in the line leaves it as it is."""

_INSIDE, _SENTENCE, _LINE, _PARAGRAPH, _HEADING = range(5)
_KIND_BITS = 32
_HASH_MASK = (1 << _KIND_BITS) - 1

_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")
_LINES = re.compile(r"(?:[^\S\n]*+\n)++|[^\n]*\n|[^\n]+")
"""Lines; blank ones that follow each other are one piece."""

_SENTENCE_ENDS = re.compile(r"[。？！…!?；;]+[”’」』）)\"]*[ \t\u3000]*|(?<=[^\s.])\.[ \t]+")
_HEADING_START = re.compile(r"[ \t]{0,3}#{1,6}[ \t]")
_WORD = re.compile(r"[0-9A-Za-z_]")
_IN_NUMBER = frozenset(".,:/-'%")
_DECORATION = re.compile(
    "[\U0001f000-\U0001faff\U0001fc00-\U0001fffd\u2600-\u27bf\u2b00-\u2bff\u2300-\u23ff\ufe0e\ufe0f\u200d\u20e3"
    "\U000e0020-\U000e007f]+"
)
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Chunk:
    """``text[start:end]`` of a note. ``fresh`` is where what the chunk before it does not have begins."""

    start: int
    fresh: int
    end: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _Places:
    """Where a text may be cut: positions, weight before each of them, strength of each; in order.

    A strength is what stands there, times 2**32, and a hash. Arrays, for a note of short lines has millions of them.
    """

    at: array[int]
    weight: array[int]
    strength: array[int]
    total: int


def cut_text(text: str) -> list[Chunk]:
    """The chunks of a whole text, in order; together their fresh parts are the text. Blank texts have none.

    Time and memory are linear in the text whatever it holds.
    """
    if not text.strip():
        return []
    places = _places(text)
    borders = [0, *(places.at[number] for number in _borders(places)), len(text)]
    chunks: list[Chunk] = []
    for before, fresh, end in zip([0, *borders[:-2]], borders[:-1], borders[1:], strict=True):
        if chunks and not text[fresh:end].strip():
            continue
        start = _overlap_start(places, before, fresh)
        chunks.append(Chunk(start, fresh, end, -(-_weight(text[start:end]) // _QUARTERS)))
    if chunks and chunks[-1].end != len(text):  # a blank tail belongs to the chunk before it
        last = chunks[-1]
        chunks[-1] = Chunk(last.start, last.fresh, len(text), last.tokens)
    return chunks


def embedded_text(head: NoteHead, tags: Sequence[str], text: str, chunk: Chunk) -> str:
    """What is embedded of a chunk: what the note says of itself (D80), then the chunk without decoration (3.3).

    First line and tag line of the file are in the header already and are left out below it; a heading is in the header
    of chunks that do not have it themselves. Notebook and file name are never part of it, so that a moved or renamed
    note keeps its vectors; nor is a title that is only the first line, so that a change of that line does not touch all
    chunks.
    """
    body = clean(text[max(chunk.start, head.body_start) : max(0, min(chunk.end, head.tag_line_start))])
    title = head.title if head.has_heading and clean(head.title) not in body else ""
    facts = (str(head.day) if head.day is not None else "", head.author, title, ", ".join(tags))
    header = " | ".join(fact for fact in facts if fact)[:MAX_HEADER_CHARS]
    return f"{header}\n{body}".strip()


def embedded_sha(text: str) -> bytes:
    """SHA-256 of an embedded text: the name of its vector (11.5)."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def clean(text: str) -> str:
    """The text without decorative emoji, and with single blanks."""
    return _BLANKS.sub(" ", _DECORATION.sub(" ", text)).strip()


def _weight(text: str) -> int:
    return len(text) + _IDEOGRAPH_EXTRA * len(_IDEOGRAPH.findall(text))


def _places(text: str) -> _Places:
    at, weights, strength = array("q"), array("q"), array("q")
    weight = 0
    for position, kind, piece in _pieces(text):
        if position:
            at.append(position)
            weights.append(weight)
            strength.append(kind << _KIND_BITS | _mixed(piece))
        weight += _weight(piece)
    return _Places(at, weights, strength, weight)


def _mixed(piece: str) -> int:
    value = zlib.crc32(piece[:_SIGN_CHARS].encode("utf-8", "surrogatepass"))
    value = (value ^ (value >> 15)) * 0x2C1B3C6D & 0xFFFFFFFF
    value = (value ^ (value >> 12)) * 0x297A2D39 & 0xFFFFFFFF
    return value ^ (value >> 15)


def _pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """The text in pieces that are never cut: position, what stands at their beginning, the piece itself."""
    blank_before = False
    for found in _LINES.finditer(text):
        line, position = found[0], found.start()
        if not line.strip():
            blank_before = True
            yield position, _INSIDE, line  # they stay with what stands before them
            continue
        kind = _HEADING if _HEADING_START.match(line) else _PARAGRAPH if blank_before else _LINE
        blank_before = False
        if _weight(line) <= _LONG:
            yield position, kind, line
            continue
        for begin, sentence in _sentences(line):
            own = kind if begin == 0 else _SENTENCE
            if _weight(sentence) <= _LONG:
                yield position + begin, own, sentence
            else:
                yield from _splinters(position + begin, own, sentence)


def _sentences(line: str) -> Iterator[tuple[int, str]]:
    begin = 0
    for found in _SENTENCE_ENDS.finditer(line):
        yield begin, line[begin : found.end()]
        begin = found.end()
    if begin < len(line):
        yield begin, line[begin:]


def _splinters(position: int, kind: int, sentence: str) -> Iterator[tuple[int, int, str]]:
    """An endless sentence in pieces of at most some characters, cut between any two that are not one word or number.

    Where to cut depends on the characters around only, so that these places too stay where they are.
    """
    begin = 0
    size = len(sentence)
    for place in range(1, size):
        long = place - begin >= _SPLINTER_CHARS
        if not long and (zlib.crc32(sentence[place - 4 : place + 4].encode("utf-8", "surrogatepass")) & 7 or place < 4):
            continue
        if _in_word(sentence, place) and place - begin < _MAX_WORD_CHARS:
            continue
        yield position + begin, kind if begin == 0 else _INSIDE, sentence[begin:place]
        begin = place
    yield position + begin, kind if begin == 0 else _INSIDE, sentence[begin:]


_SPLINTER_CHARS = 40
_MAX_WORD_CHARS = 200


def _in_word(text: str, place: int) -> bool:
    left, right = text[place - 1], text[place]
    if left in _IN_NUMBER and right.isdigit() and place > 1:
        left = text[place - 2]
    elif right in _IN_NUMBER and left.isdigit() and place + 1 < len(text):
        right = text[place + 1]
    return bool(_WORD.match(left) and _WORD.match(right)) or (left.isdigit() and right.isdigit())


def _borders(places: _Places) -> list[int]:
    """Numbers of the places that are borders."""
    borders: list[int] = []
    begin = 0
    for border in _marked(places):
        _halve(places, begin, places.weight[border], borders)
        borders.append(border)
        begin = places.weight[border]
    _halve(places, begin, places.total, borders)
    return borders


def _marked(places: _Places) -> Iterator[int]:
    """Numbers of the marked places that are borders, in order."""
    weight, strength, total = places.weight, places.strength, places.total
    apart, around, edge = APART_TOKENS * _QUARTERS, HEADING_TOKENS * _QUARTERS, EDGE_TOKENS * _QUARTERS
    headings = [number for number, value in enumerate(strength) if value >> _KIND_BITS == _HEADING]
    next_heading = 0
    before = heading = -around  # where the piece of the last mark ends, where the last heading begins
    for number, begin in enumerate(weight):
        kind = strength[number] >> _KIND_BITS
        end = weight[number + 1] if number + 1 < len(weight) else total
        while next_heading < len(headings) and headings[next_heading] <= number:
            next_heading += 1
        if kind == _HEADING:
            border = begin - heading >= 2 * apart
            before, heading = end, begin
        elif kind > _INSIDE and _is_mark(strength[number], kind, end - begin):
            ahead = weight[headings[next_heading]] if next_heading < len(headings) else total + around
            border = begin - before >= apart and begin - heading >= around and ahead - begin >= around
            before = end
        else:
            continue
        if border and edge <= begin <= total - edge:
            yield number


def _is_mark(strength: int, kind: int, weight: int) -> bool:
    """Whether chance makes a mark of a piece; the longer it is the more, and twice as often of a paragraph."""
    expected = weight / (MARK_TOKENS * _QUARTERS) * (2 if kind == _PARAGRAPH else 1)
    return (strength & _HASH_MASK) / _HASH_MASK > math.exp(-expected)


def _halve(places: _Places, begin: int, end: int, borders: list[int]) -> None:
    """Cut what lies between two weights until no part is too long; in order, without recursion."""
    longest, reach = MAX_TOKENS * _QUARTERS, MIDDLE_TOKENS * _QUARTERS
    waiting: list[tuple[int, int, int | None]] = [(begin, end, None)]
    while waiting:
        begin, end, border = waiting.pop()
        place = _middle(places, begin, end, reach, longest) if end - begin > longest else None
        if place is None:
            if border is not None:
                borders.append(border)
            continue
        waiting.append((places.weight[place], end, border))
        waiting.append((begin, places.weight[place], place))


def _middle(places: _Places, begin: int, end: int, reach: int, longest: int) -> int | None:
    """The strongest place that leaves enough on both sides, the one nearest to the middle among equals."""
    weight, strength = places.weight, places.strength
    low, high = begin + reach, end - reach
    if end - begin <= 2 * longest:
        low, high = max(low, end - longest), min(high, begin + longest)
    middle = (begin + end) // 2
    if high - low > 4 * longest:  # far longer than any text with different lines: cut it in half, or this is quadratic
        low, high = middle - longest, middle + longest
    first, last = bisect_left(weight, low), bisect_right(weight, high)
    if first == last:
        first, last = bisect_right(weight, begin), bisect_left(weight, end)
        near = bisect_left(weight, middle)
        first, last = max(first, near - 1), min(last, near + 1)
    inside = range(first, last)
    if not inside:
        return None
    return max(inside, key=lambda number: (strength[number], -abs(weight[number] - middle)))


def _overlap_start(places: _Places, before: int, fresh: int) -> int:
    """Where the overlap of a chunk begins: at a place, at most ``OVERLAP_TOKENS`` back and inside the last chunk."""
    if fresh == 0:
        return 0
    number = bisect_left(places.at, fresh)
    limit = places.weight[number] - OVERLAP_TOKENS * _QUARTERS
    first = bisect_left(places.weight, limit)
    start = places.at[first] if first < number else fresh
    return max(start, before)
