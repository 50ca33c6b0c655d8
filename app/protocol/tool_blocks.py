"""Finding tool request blocks in text that arrives in pieces (spec 4.1 - 4.3, D6, D21 - D23).

One scan from left to right, one state. What the rules leave open is decided like this:

* Outside of blocks think tags open and close think parts; inside a part nothing counts but think tags. Whole blocks in
  it are reported with ``skipped_why`` set. All spellings nest in one count: ``<think>`` may be closed by
  ``</thinking>``. A closing tag without an opening one is text, ``<think/>`` is an empty part.
* Inside a block think tags count between the fields: the part is taken out as if it were not there, end markers in it
  included. Inside a value, also one that never ends, they are text.
* A plain value ends at the next ``「末」``; an end marker before that closes the block and the value is lost. An
  escaped value hides everything up to ``「末ESCAPE」``, also when no usable key stands before it: what it quotes is
  never run.
* A start marker without its end is text. Nothing behind it is run, for every end marker there was hidden. When an
  escaped value was left open, the block is reported as skipped, since there its author did end it, or was cut off.
* A block that is longer than the limit is passed over up to its own end and reported as skipped.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum, auto
from io import StringIO

from app.errors import BadRequestError, both
from app.protocol import markers
from app.protocol.blanks import trimmed
from app.protocol.tool_fields import ToolBlock, block_of, format_call, key_before_value, unescaped

__all__ = [
    "MAX_BLOCK_CHARS",
    "MAX_TAG_CHARS",
    "SKIPPED_THINK",
    "SKIPPED_TOO_LONG",
    "SKIPPED_UNCLOSED",
    "BlockScanner",
    "ToolBlock",
    "format_call",
    "parse_block",
    "parse_request",
    "scan",
]

MAX_BLOCK_CHARS = 16_000_000
"""Longest block, markers included, that is read; also the most that is ever buffered."""

MAX_TAG_CHARS = 256
"""Longest attribute part of a think tag; a longer one is no tag."""

SKIPPED_THINK = "think"
SKIPPED_TOO_LONG = "too long"
SKIPPED_UNCLOSED = "unclosed value"

_START = re.escape(markers.TOOL_REQUEST_START[1:])
_END = re.escape(markers.TOOL_REQUEST_END[1:])
_TAG = rf"/?(?i:think(?:ing)?)(?:[\s/][^<>]{{0,{MAX_TAG_CHARS}}}+)?+>"
# What an unfinished tag looks like at the end of a piece; it begins at the piece's last "<".
_TORN_TAG = re.compile(
    rf"</?(?i:(?:t(?:h(?:i(?:nk?)?)?)?)?|thinki(?:ng?)?|think(?:ing)?[\s/][^<>]{{0,{MAX_TAG_CHARS}}})"
)
_TOKEN_HEAD = re.compile("[<「]")


class _Mode:
    """What a state looks for: a pattern for whole tokens and the literals that a piece may tear."""

    __slots__ = ("literals", "longest", "pattern", "tags")

    def __init__(self, pattern: str, literals: tuple[str, ...], *, tags: bool) -> None:
        self.pattern = re.compile(pattern)
        self.literals = literals
        self.longest = max(map(len, literals))
        self.tags = tags

    def torn_at(self, text: str, start: int) -> int:
        """The offset, not before ``start``, at which a torn token may begin; the text's length if there is none."""
        size = len(text)
        torn = size
        for head in _TOKEN_HEAD.finditer(text, max(start, size - self.longest)):
            rest = text[head.start() :]
            if any(literal.startswith(rest) for literal in self.literals):
                torn = head.start()
                break
        if self.tags:
            last = text.rfind("<", start)
            if 0 <= last < torn and _TORN_TAG.fullmatch(text, last):
                torn = last
        return torn


_BOTH = (markers.TOOL_REQUEST_START, markers.TOOL_REQUEST_END)
_VALUE_STARTS = (markers.VALUE_START, markers.VALUE_START_ESCAPE)
_OUTSIDE = _Mode(f"<(?:{_START}|{_TAG})", _BOTH[:1], tags=True)
_OUTSIDE_PLAIN = _Mode(f"<{_START}", _BOTH[:1], tags=False)
_THINKING = _Mode(f"<(?:{_START}|{_END}|{_TAG})", _BOTH, tags=True)
_FIELDS = _Mode(f"「始(?:ESCAPE)?」|<(?:{_START}|{_END}|{_TAG})", _BOTH + _VALUE_STARTS, tags=True)
_FIELDS_PLAIN = _Mode(f"「始(?:ESCAPE)?」|<(?:{_START}|{_END})", _BOTH + _VALUE_STARTS, tags=False)
_VALUE = _Mode(f"{markers.VALUE_END}|<{_END}", (markers.VALUE_END, markers.TOOL_REQUEST_END), tags=False)
_ESCAPED = _Mode(markers.VALUE_END_ESCAPE, (markers.VALUE_END_ESCAPE,), tags=False)


class _State(Enum):
    OUTSIDE = auto()
    FIELDS = auto()
    VALUE = auto()
    ESCAPED = auto()


class BlockScanner:
    """Finds the blocks of one text that is fed in pieces; how it is cut makes no difference to what is found.

    Time is linear in the text's length: each feed looks at its piece and at no more than ``MAX_TAG_CHARS`` characters
    and a tag's name from before it. With ``think_tags=False`` these tags are plain text (text that no model wrote);
    with ``thoughts=False`` blocks in think parts are not reported.
    """

    def __init__(
        self, *, max_block_chars: int = MAX_BLOCK_CHARS, think_tags: bool = True, thoughts: bool = True
    ) -> None:
        self._limit = max_block_chars
        self._think_tags = think_tags
        self._thoughts = thoughts
        self._offset = 0  # of the first character that is not settled yet, which is _torn's first
        self._torn = ""
        self._depth = 0  # of think parts inside each other
        self._quoted: StringIO | None = None  # the body of a block inside a think part
        self._quoted_start = 0
        self._scanned = 0
        self._thought_start = 0
        self._hidden: list[tuple[int, int]] = []
        self._leave_block()

    @property
    def hidden(self) -> list[tuple[int, int]]:
        """Ranges (start, end) of the think parts and blocks so far; text in them is no word of the reply itself."""
        return list(self._hidden)

    @property
    def neutral(self) -> bool:
        """True when nothing is pending: no block, no think part, no torn marker."""
        return self._state is _State.OUTSIDE and not self._depth and not self._torn

    @property
    def scanned(self) -> int:
        """How many characters the searches have passed, repeated looks counted again."""
        return self._scanned

    def feed(self, text: str) -> list[ToolBlock]:
        """Take the next piece; return the blocks that it closed, in the order of their ends."""
        if "<" not in text and self.neutral:
            self._offset += len(text)
            self._scanned += len(text)
            return []
        if self._torn:
            text = self._torn + text
        found: list[ToolBlock] = []
        position = 0
        while (match := self._mode.pattern.search(text, position)) is not None:
            self._keep(text, position, match.start())
            self._scanned += match.end() - position
            position = match.end()
            block = self._take(match[0], self._offset + match.start(), self._offset + position)
            if block is not None:
                found.append(block)
        torn = self._mode.torn_at(text, position)
        self._keep(text, position, torn)
        self._scanned += len(text) - position
        self._torn = text[torn:]
        self._offset += torn
        return found

    def finish(self) -> list[ToolBlock]:
        """The text ended; return a block whose escaped value was left open, as skipped. What is pending is text."""
        block = self.open_block()
        self._offset += len(self._torn)
        if self._depth:
            self._hidden.append((self._thought_start, self._offset))
        self._torn = ""
        self._depth = 0
        self._quoted = None
        self._leave_block()
        return [block] if block is not None and block.skipped_why else []

    def open_block(self) -> ToolBlock | None:
        """The block that is open, as far as it has been read; skipped when an escaped value is open."""
        if self._state is _State.OUTSIDE:
            return None
        why = SKIPPED_UNCLOSED if self._state is _State.ESCAPED else ""
        return block_of(self._fields, self._start, self._offset + len(self._torn), why)

    def _enter(self, state: _State) -> None:
        self._state = state
        self._text = StringIO(newline="")
        if state is _State.VALUE:
            self._mode = _VALUE
        elif state is _State.ESCAPED:
            self._mode = _ESCAPED
        elif state is _State.FIELDS:
            self._mode = _FIELDS if self._think_tags else _FIELDS_PLAIN
        else:
            self._mode = _OUTSIDE if self._think_tags else _OUTSIDE_PLAIN

    def _leave_block(self) -> None:
        self._start = 0
        self._key = ""
        self._fields: dict[str, str] = {}
        self._enter(_State.OUTSIDE)

    def _keep(self, text: str, start: int, end: int) -> None:
        """Store a run of plain characters where the state needs them; nothing behind the limit is ever needed."""
        if start == end:
            return
        if self._depth:
            if self._quoted is not None and self._offset + start <= self._quoted_start + self._limit:
                self._quoted.write(text[start:end])
        elif self._state is not _State.OUTSIDE and self._offset + start <= self._start + self._limit:
            self._text.write(text[start:end])

    def _take(self, token: str, start: int, end: int) -> ToolBlock | None:
        if self._depth:
            return self._take_thinking(token, start, end)
        if self._state is _State.VALUE or self._state is _State.ESCAPED:
            if token == markers.TOOL_REQUEST_END:
                return self._close_block(end)
            self._close_field(end)
        elif token == markers.TOOL_REQUEST_START:
            if self._state is _State.OUTSIDE:
                self._start = start
                self._fields = {}
            self._enter(_State.FIELDS)
        elif token == markers.TOOL_REQUEST_END:
            return self._close_block(end)
        elif token[0] == "「":
            self._open_value(token, start)
        elif not token.startswith("</"):
            if not token.endswith("/>"):
                self._depth = 1
                self._thought_start = start
                self._mode = _THINKING
        elif self._state is _State.FIELDS:
            self._enter(_State.FIELDS)  # a closing tag without an opening one is text that no key reaches across
        return None

    def _take_thinking(self, token: str, start: int, end: int) -> ToolBlock | None:
        if token == markers.TOOL_REQUEST_END:
            quoted, self._quoted = self._quoted, None
            if quoted is None or end - self._quoted_start > self._limit:
                return None
            block = parse_block(quoted.getvalue())
            if block is None:
                return None
            return replace(block, start=self._quoted_start, end=end, skipped_why=SKIPPED_THINK)
        if token == markers.TOOL_REQUEST_START and self._quoted is None:
            if self._thoughts:
                self._quoted = StringIO(newline="")
                self._quoted_start = start
            return None
        if self._quoted is not None and start <= self._quoted_start + self._limit:
            self._quoted.write(token)
        if token.startswith("</"):
            self._depth -= 1
            if not self._depth:
                self._hidden.append((self._thought_start, end))
                self._quoted = None
                self._mode = _FIELDS if self._state is _State.FIELDS else _OUTSIDE
        elif token != markers.TOOL_REQUEST_START and not token.endswith("/>"):
            self._depth += 1
        return None

    def _open_value(self, token: str, start: int) -> None:
        # Behind the limit the text before the mark is gone: every mark opens a value, which is the careful reading.
        beyond = start > self._start + self._limit
        self._key = "" if beyond else key_before_value(self._text.getvalue())
        if token == markers.VALUE_START_ESCAPE:
            self._enter(_State.ESCAPED)
        elif self._key or beyond:
            self._enter(_State.VALUE)
        else:
            self._enter(_State.FIELDS)

    def _close_field(self, end: int) -> None:
        if self._key and end <= self._start + self._limit:
            text = self._text.getvalue()
            self._fields[self._key] = trimmed(unescaped(text) if self._state is _State.ESCAPED else text)
        self._enter(_State.FIELDS)

    def _close_block(self, end: int) -> ToolBlock | None:
        self._hidden.append((self._start, end))
        why = SKIPPED_TOO_LONG if end - self._start > self._limit else ""
        block = block_of(self._fields, self._start, end, why)
        self._leave_block()
        return block


def scan(text: str, *, think_tags: bool = True) -> list[ToolBlock]:
    """All blocks of a whole text, in the order of their ends."""
    scanner = BlockScanner(think_tags=think_tags)
    return scanner.feed(text) + scanner.finish()


def parse_block(body: str) -> ToolBlock | None:
    """The request between two markers; None when it names no tool. Its offsets are 0.

    A think part that is not closed hides the rest of the body, an escaped value that is not closed makes the block one
    that is skipped.
    """
    scanner = BlockScanner(thoughts=False)  # a thought in a thought would be parsed within its parsing, without end
    found = scanner.feed(markers.TOOL_REQUEST_START + body + markers.TOOL_REQUEST_END)
    block = found[0] if found else scanner.open_block()
    return None if block is None or block.start else replace(block, end=0)


def parse_request(text: str) -> ToolBlock:
    """The first block of a text that a person or program sent in order to have it run (spec 1.8, P74).

    Talk around the block is allowed and think tags mean nothing. Raises ``BadRequestError`` with the literal of the
    specification when a marker or the tool's name is missing or an escaped value is not closed.
    """
    start = text.find(markers.TOOL_REQUEST_START)
    if start < 0 or text.find(markers.TOOL_REQUEST_END, start) < 0:
        raise BadRequestError(markers.HUMAN_TOOL_NO_MARKERS)
    block = next((block for block in scan(text, think_tags=False) if block.start == start), None)
    if block is None:
        raise BadRequestError(markers.HUMAN_TOOL_NO_NAME)
    if block.skipped_why == SKIPPED_UNCLOSED:
        raise BadRequestError(markers.HUMAN_TOOL_NO_MARKERS)
    if block.skipped_why:
        raise BadRequestError(
            both(
                f"工具请求块不可用（{block.skipped_why}）",
                f"Malformed request: the request block is {block.skipped_why}.",
            )
        )
    return block
