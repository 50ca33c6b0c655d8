"""Finds a JSON object with a ``status`` in output that is not all JSON (B27, D14), in time linear in the output.

One push-down automaton over bytes serves two questions: which is the last answer of a whole output, and, while the
output still grows, which is the first. It never looks at a byte twice, wherever the output is cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

DEPTH_LIMIT = 200
TOKEN_LIMIT = 2_000_000
"""Tokens looked at before the search gives up; a large answer is a few long strings, not millions of tokens."""

WORD_LIMIT = 4096
"""Longest number or word that may be cut in two by the way in which the output arrives."""

_START = re.compile(rb'\{(?=[ \t\r\n]*+(?:["}]|\Z))')
_BLANKS = re.compile(rb"[ \t\r\n]*+")
_STRING_REST = re.compile(rb'(?>[^"\\\n]|\\[^\n])*+')
_WORD = re.compile(rb"true|false|null|-?Infinity|NaN|-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?")
_WORD_BYTES = re.compile(rb"[-+.0-9A-Za-z]*+")
_MARKS = b"{}[]:,"
_GOOD = (b'"success"', b'"error"')
_SHORT = 16

Span = tuple[int, int]


class _Token(Enum):
    STRING = "string"
    MARK = "mark"
    WORD = "word"
    NONE = "none"  # what stands here is no JSON
    CUT = "cut"  # the output ends inside of it


@dataclass(slots=True)
class _Open:
    """An object or list that is not closed yet. ``best`` is an answer found completely inside it."""

    start: int
    is_object: bool
    expects: str
    status_next: bool = False
    answers: bool = False
    best: Span | None = None


def last_object(data: bytes) -> Span | None:
    """Where the last complete object lies that has ``status`` ``success`` or ``error`` and is in no other object.

    An object whose surroundings turn out not to be JSON counts as standing alone. None when there is none, or when
    TOKEN_LIMIT is reached.
    """
    search = _Search(first=False)
    best: Span | None = None
    for _ in range(TOKEN_LIMIT):
        found = search.step(data, ended=True)
        if found is None:
            return best
        best = found or best
    return None


class FirstObject:
    """Looks for the first complete object of this kind in an output that grows."""

    def __init__(self) -> None:
        self._search = _Search(first=True)
        self._tokens = 0

    @property
    def given_up(self) -> bool:
        """True when TOKEN_LIMIT is reached: nothing will be found any more."""
        return self._tokens >= TOKEN_LIMIT

    def look(self, data: bytes | bytearray, tokens: int) -> Span | bool:
        """Go on where the last look ended; ``data`` is all of the output so far.

        Returns the object's place, True when ``tokens`` were looked at and more are there, False when all that is
        there has been seen. After an object was found the next look goes on behind it.
        """
        for _ in range(tokens):
            if self.given_up:
                return False
            self._tokens += 1
            found = self._search.step(data, ended=False)
            if found is None:
                return False
            if found:
                return found
        return True


class _Search:
    """The automaton. ``first`` prefers the first of several answers inside something that is no JSON after all."""

    def __init__(self, *, first: bool) -> None:
        self._first = first
        self._stack: list[_Open] = []
        self._position = 0
        self._string = -1
        """Where the string began that the output was cut in; ``_position`` is then inside of it."""

    def step(self, data: bytes | bytearray, *, ended: bool) -> Span | tuple[()] | None:
        """Look at one token: an answer, nothing, or None when all was seen (for now, unless ``ended``)."""
        stack = self._stack
        if not stack:
            start = _START.search(data, self._position)
            if start is None:
                self._position = len(data)
                return None
            stack.append(_Open(start.start(), True, "key or end"))
            self._position = start.end()
            return ()
        before = self._position if self._string < 0 else self._string
        kind, text = self._token(data, ended)
        if kind is _Token.CUT:
            if not ended or self._string < 0:
                return None  # what is inside an answer that lost its end is not the answer
            kind = _Token.NONE
        if kind is _Token.NONE or not self._feed(kind, text):
            # What was no JSON here may hold the beginning of an answer.
            self._position, self._string = before, -1
            return self._abandon()
        if stack[-1].expects == "closed":
            return self._close()
        return ()

    def _token(self, data: bytes | bytearray, ended: bool) -> tuple[_Token, bytes]:
        """The next token and, if it is short, its text; the position moves behind it unless it is no JSON."""
        if self._string < 0:
            blanks = _BLANKS.match(data, self._position)
            self._position = blanks.end() if blanks else self._position
            if self._position >= len(data):
                return _Token.CUT, b""
            byte = data[self._position]
            if byte in _MARKS:
                self._position += 1
                return _Token.MARK, bytes((byte,))
            if byte != 0x22:
                return self._word(data, ended)
            self._string = self._position
            self._position += 1
        rest = _STRING_REST.match(data, self._position)
        end = rest.end() if rest else self._position
        start, self._position = self._string, end
        if end == len(data) or (data[end] == 0x5C and end + 1 == len(data)):
            return _Token.CUT, b""
        self._string = -1
        if data[end] != 0x22:
            return _Token.NONE, b""
        self._position = end + 1
        return _Token.STRING, bytes(data[start : end + 1]) if end - start < _SHORT else b""

    def _word(self, data: bytes | bytearray, ended: bool) -> tuple[_Token, bytes]:
        run = _WORD_BYTES.match(data, self._position, self._position + WORD_LIMIT)
        if not ended and run is not None and run.end() == len(data):
            return _Token.CUT, b""
        word = _WORD.match(data, self._position)
        if word is None:
            return _Token.NONE, b""
        self._position = word.end()
        return _Token.WORD, b""

    def _abandon(self) -> Span | tuple[()]:
        """Drop everything open, for it can never become JSON; what was complete inside it stands alone now."""
        found = [item.best for item in self._stack if item.best is not None]
        self._stack.clear()
        if not found:
            return ()
        return min(found) if self._first else max(found)

    def _close(self) -> Span | tuple[()]:
        done = self._stack.pop()
        answer = (done.start, self._position) if done.answers else None
        if not self._stack:
            return answer or ()
        if answer is None and not done.is_object:
            answer = done.best
        if answer is not None and not (self._first and self._stack[-1].best is not None):
            self._stack[-1].best = answer
        return ()

    def _feed(self, kind: _Token, text: bytes) -> bool:
        """Give one token to the innermost open container; False when JSON does not allow it here."""
        top = self._stack[-1]
        expects = top.expects
        if expects in ("key", "key or end"):
            if kind is _Token.STRING:
                top.expects = "colon"
                top.status_next = text == b'"status"'
                return True
            if text == b"}" and expects == "key or end":
                top.expects = "closed"
                return True
            return False
        if expects == "colon":
            top.expects = "value"
            return kind is _Token.MARK and text == b":"
        if expects == "comma or end":
            if kind is not _Token.MARK:
                return False
            if text == b",":
                top.expects = "key" if top.is_object else "value"
                return True
            top.expects = "closed"
            return text == (b"}" if top.is_object else b"]")
        return self._value(top, kind, text)

    def _value(self, top: _Open, kind: _Token, text: bytes) -> bool:
        if kind is not _Token.MARK:
            if top.status_next:
                top.answers = text in _GOOD
                top.status_next = False
            top.expects = "comma or end"
            return True
        if text == b"]" and top.expects == "value or end":
            top.expects = "closed"
            return True
        if text not in (b"{", b"[") or len(self._stack) >= DEPTH_LIMIT:
            return False
        if top.status_next:
            top.answers = top.status_next = False
        top.expects = "comma or end"
        is_object = text == b"{"
        self._stack.append(_Open(self._position - 1, is_object, "key or end" if is_object else "value or end"))
        return True
