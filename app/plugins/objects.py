"""Finds a JSON object with a ``status`` in text that is not all JSON (B27), in time linear in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass

DEPTH_LIMIT = 200
TOKEN_LIMIT = 2_000_000
"""Tokens looked at before the search gives up; a large answer is a few long strings, not millions of tokens."""

_START = re.compile(r'\{(?=[ \t\r\n]*["}])')
_TOKEN = re.compile(
    r"[ \t\r\n]*+(?:"
    r'(?P<string>"(?>[^"\\\n]|\\.)*+")'
    r"|(?P<mark>[{}\[\]:,])"
    r"|(?P<word>true|false|null|-?Infinity|NaN|-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?)"
    r")"
)
_GOOD = frozenset({'"success"', '"error"'})

Span = tuple[int, int]


@dataclass(slots=True)
class _Open:
    """An object or list that is not closed yet. ``best`` is the last answer found completely inside it."""

    start: int
    is_object: bool
    expects: str
    status_next: bool = False
    answers: bool = False
    best: Span | None = None


def last_object(text: str) -> Span | None:
    """Where the last complete object lies that has ``status`` ``success`` or ``error`` and is in no other object.

    An object whose surroundings turn out not to be JSON counts as standing alone. None when there is none, or when
    TOKEN_LIMIT is reached.
    """
    best: Span | None = None
    stack: list[_Open] = []
    position = 0
    for _ in range(TOKEN_LIMIT):
        if not stack:
            start = _START.search(text, position)
            if start is None:
                return best
            stack.append(_Open(start.start(), True, "key or end"))
            position = start.end()
            continue
        match = _TOKEN.match(text, position)
        if match is None and not text[position : position + 1000].strip():
            return best  # cut off: what is inside an answer that lost its end is not the answer
        if match is None or not _step(stack, match):
            best = _abandon(stack) or best
            continue
        position = match.end()
        if stack[-1].expects == "closed":
            best = _close(stack, match.end()) or best
    return None


def _abandon(stack: list[_Open]) -> Span | None:
    """Drop everything open, for it can never become JSON; what was complete inside it stands alone now."""
    found = next((item.best for item in reversed(stack) if item.best is not None), None)
    stack.clear()
    return found


def _close(stack: list[_Open], end: int) -> Span | None:
    done = stack.pop()
    answer = (done.start, end) if done.answers else None
    if stack:
        if answer is not None:
            stack[-1].best = answer
        elif not done.is_object and done.best is not None:
            stack[-1].best = done.best
        return None
    return answer


def _step(stack: list[_Open], match: re.Match[str]) -> bool:
    """Feed one token to the innermost open container; False when JSON does not allow it here."""
    top = stack[-1]
    expects = top.expects
    string = match["string"]
    mark = match["mark"]
    if expects in ("key", "key or end"):
        if string is not None:
            top.expects = "colon"
            top.status_next = string == '"status"'
            return True
        if mark == "}" and expects == "key or end":
            top.expects = "closed"
            return True
        return False
    if expects == "colon":
        top.expects = "value"
        return mark == ":"
    if expects == "comma or end":
        if mark == ",":
            top.expects = "key" if top.is_object else "value"
            return True
        top.expects = "closed"
        return mark == ("}" if top.is_object else "]")
    return _value(stack, match)


def _value(stack: list[_Open], match: re.Match[str]) -> bool:
    top = stack[-1]
    mark = match["mark"]
    if mark is None:
        if top.status_next:
            top.answers = match["string"] in _GOOD
            top.status_next = False
        top.expects = "comma or end"
        return True
    if mark == "]" and top.expects == "value or end":
        top.expects = "closed"
        return True
    if mark not in ("{", "[") or len(stack) >= DEPTH_LIMIT:
        return False
    if top.status_next:
        top.answers = top.status_next = False
    top.expects = "comma or end"
    is_object = mark == "{"
    stack.append(_Open(match.start("mark"), is_object, "key or end" if is_object else "value or end"))
    return True
