"""What a diary file says about itself: its day, its author, its title (memory.md 1.2, 10.8; D80). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from app.protocol.blanks import BLANKS
from app.protocol.diary_tags import find_tag_line

MAX_TITLE_CHARS = 60
MAX_AUTHOR_CHARS = 80
MAX_HEAD_CHARS = 400
"""A longer first line is text, whatever it begins with."""

_TITLE_CHARS = 4000
"""A heading behind so many characters of the body is one of its parts, not its title."""

_DAY = re.compile(
    r"(?<![0-9])([12][0-9]{3})(?:[ ]?年[ ]?([0-9]{1,2})[ ]?月[ ]?([0-9]{1,2})[ ]?日?"
    r"|([-./\\_ ])([0-9]{1,2})\4([0-9]{1,2}))(?![0-9])"
)
_COMPACT_DAY = re.compile(r"(?<![0-9])([12][0-9]{3})([0-9]{2})([0-9]{2})(?![0-9])")
_BRACKETED = re.compile(r"[\[【]([^\]】]{0,60})[\]】]")
_AUTHOR = re.compile(rf"[{BLANKS}]*[-－–—][{BLANKS}]*(.*)", re.DOTALL)
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+)$", re.MULTILINE)
_LINE = re.compile(r"[^\n]*\S[^\n]*")
_BLANK_RUN = re.compile(f"[{BLANKS}]+")


@dataclass(frozen=True, slots=True)
class NoteHead:
    """``text[body_start:tag_line_start]`` is the body: without the first line if that is a header (``[date] - author``,
    ``YYYY.MM.DD-author``), and without the tag line if that comes last; without one, ``tag_line_start`` is the length.
    """

    day: date | None
    author: str
    title: str
    body_start: int
    tag_line_start: int
    has_heading: bool = False
    """The title is a Markdown heading, and not merely the first line."""


def read_note_head(text: str, file_name: str) -> NoteHead:
    """The head of a note. The day is that of the first line (in brackets, at its start, anywhere in it, in this order),
    else that of the file name. The title is the first Markdown heading, else the first line of the body, cut to
    ``MAX_TITLE_CHARS``. Never raises; what is not said is None or empty.
    """
    start = len(text) - len(text.lstrip(BLANKS))
    end = text.find("\n", start)
    end = len(text) if end < 0 else end
    day, author, is_header = _read_first_line(text[start : min(end, start + MAX_HEAD_CHARS + 1)].rstrip(BLANKS))
    body_start = min(end + 1, len(text)) if is_header else start
    tag_line_start = _last_tag_line(text, body_start)
    title, has_heading = _title(text[body_start : min(tag_line_start, body_start + _TITLE_CHARS)])
    return NoteHead(
        day=day or day_in(file_name),
        author=author,
        title=title,
        body_start=body_start,
        tag_line_start=tag_line_start,
        has_heading=has_heading,
    )


def day_in(text: str) -> date | None:
    """The first day that a short text names (``2025-11-27``, ``2025.4.25``, ``2025年11月27日``, ``20251127``)."""
    for found in (*_DAY.finditer(text), *_COMPACT_DAY.finditer(text)):
        day = _day(found)
        if day is not None:
            return day
    return None


def _read_first_line(line: str) -> tuple[date | None, str, bool]:
    """Day, author, and whether the line is nothing else than a header."""
    if len(line) > MAX_HEAD_CHARS:
        return None, "", False
    day, rest = _leading_day(line)
    if day is None:
        return day_in(line), "", False
    if not rest:
        return day, "", True
    found = _AUTHOR.match(rest)
    author = "" if found is None else _BLANK_RUN.sub(" ", found[1]).strip(BLANKS)
    if found is None or len(author) > MAX_AUTHOR_CHARS:
        return day, "", False
    return day, author, True


def _leading_day(line: str) -> tuple[date | None, str]:
    bracketed = _BRACKETED.match(line)
    if bracketed is not None:
        return day_in(bracketed[1]), line[bracketed.end() :].strip(BLANKS)
    plain = _DAY.match(line)
    return (None, "") if plain is None else (_day(plain), line[plain.end() :].strip(BLANKS))


def _day(found: re.Match[str]) -> date | None:
    year, month, day = (int(part) for part in found.groups() if part and part.isdigit())
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _last_tag_line(text: str, body_start: int) -> int:
    """Where the tag line begins if nothing comes behind it."""
    cut = text.rstrip(BLANKS).rfind("\n") + 1
    found = find_tag_line(text[cut:])
    return cut if found is not None and cut >= body_start else len(text)


def _title(body: str) -> tuple[str, bool]:
    heading = _HEADING.search(body)
    line = heading[1].strip("# \t\r") if heading is not None else ""
    has_heading = bool(line)
    if not line:
        first = _LINE.search(body)
        line = first[0] if first is not None else ""
    return _BLANK_RUN.sub(" ", line).strip(BLANKS)[:MAX_TITLE_CHARS].rstrip(BLANKS), has_heading
