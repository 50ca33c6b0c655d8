"""The diary grammar: blocks in replies, author, date, file and folder names, tag lines (memory.md 1.2 to 1.5).

Nothing here touches a disk: names and texts go in, names and texts come out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.protocol.blanks import BLANKS

START_MARKER = "<<<DailyNoteStart>>>"
END_MARKER = "<<<DailyNoteEnd>>>"

UNTITLED = "Untitled"
"""Folder of an author whose name leaves nothing to name a folder with."""

MAX_NAME_BYTES = 255
"""Longest file or folder name in UTF-8; the common file systems take no more."""

_MAX_DATE_BYTES = 200
"""Room for the date and the suffix in a file name; the rest belongs to time, number and extension."""

_MAX_SUFFIX_BYTES = 120

_BLANK = "[" + BLANKS + "]"

_FORBIDDEN = re.compile(r'[\\/:*?"<>|\x00-\x1f\x7f-\x9f\ud800-\udfff]')
_CONTROL_BUT_BLANK = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_BLANK_RUN = re.compile(f"{_BLANK}+")
_DATE_SEPARATORS = re.compile(rf"(?:{_BLANK}|[.\\/-])+")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)[0-9¹²³])", re.IGNORECASE)

_MAID = re.compile(r"^[ \t\u3000]*Maid[:：](.*)$", re.MULTILINE)
_DATE = re.compile(r"^[ \t\u3000]*Date[:：](.*)$", re.MULTILINE)
_CONTENT = re.compile(r"^[ \t\u3000]*Content[:：]", re.MULTILINE)

_TAG_PREFIX = re.compile(r"tag[:：]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DiaryBlock:
    """One diary note that a model wrote into its reply; no field is empty."""

    maid: str
    date: str
    content: str


def find_diary_blocks(text: str, ignored: Sequence[tuple[int, int]] = ()) -> list[DiaryBlock]:
    """All diary blocks of a reply, in order (vcp-core 4.11, memory.md 1.5). Linear in the length of the text.

    ``ignored`` are (start, end) ranges of the text, such as think parts (D6): a marker that begins in one of them does
    not count. A block without its end, or without any of maid, date and content, is not a note.
    """
    ranges = _Ranges(ignored)
    blocks: list[DiaryBlock] = []
    position = 0
    while True:
        start = ranges.find(text, START_MARKER, position)
        if start < 0:
            return blocks
        inside = start + len(START_MARKER)
        end = ranges.find(text, END_MARKER, inside)
        if end < 0:
            return blocks
        block = _read_block(text[inside:end])
        if block is not None:
            blocks.append(block)
        position = end + len(END_MARKER)


class _Ranges:
    """Ranges that are asked about with growing positions only, so that every range is passed once."""

    __slots__ = ("_next", "_sorted")

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._sorted = sorted(ranges)
        self._next = 0

    def find(self, text: str, marker: str, position: int) -> int:
        """The first place of the marker at or behind ``position`` that begins in no range, or -1."""
        while True:
            found = text.find(marker, position)
            if found < 0:
                return -1
            while self._next < len(self._sorted) and self._sorted[self._next][1] <= found:
                self._next += 1
            if self._next == len(self._sorted) or self._sorted[self._next][0] > found:
                return found
            position = max(found + 1, self._sorted[self._next][1])


def _read_block(text: str) -> DiaryBlock | None:
    maid, date, content = _MAID.search(text), _DATE.search(text), _CONTENT.search(text)
    if maid is None or date is None or content is None:
        return None
    block = DiaryBlock(
        maid=maid[1].strip(BLANKS), date=date[1].strip(BLANKS), content=text[content.end() :].strip(BLANKS)
    )
    return block if block.maid and block.date and block.content else None


def split_author(maid: str) -> tuple[str, str]:
    """Folder and signature of a ``maid`` argument (memory.md 1.3); the folder still has to go through ``safe_folder``.

    ``[F]S`` gives F and S, both trimmed; S may be empty. Anything else is folder and signature at once.
    """
    maid = maid.strip(BLANKS)
    if maid.startswith("["):
        folder, bracket, signature = maid[1:].partition("]")
        if bracket:
            return folder.strip(BLANKS), signature.strip(BLANKS)
    return maid, maid


def safe_folder(name: str) -> str:
    r"""The folder for a notebook name: always one harmless path component (memory.md 1.3).

    ``\ / : * ? " < > |`` and control characters are removed, blanks and dots at both ends too; nothing left gives
    ``Untitled``. Names that Windows keeps for devices get a ``_``, and the result has at most 255 bytes of UTF-8.
    """
    # Blanks and dots go together: one after the other would leave ".." of ". .. .".
    name = _FORBIDDEN.sub("", name).strip(BLANKS + ".")
    stem, dot, rest = name.partition(".")
    if _RESERVED.fullmatch(stem.rstrip(BLANKS)):
        name = stem.rstrip(BLANKS) + "_" + dot + rest
    return _cut(name, MAX_NAME_BYTES).strip(BLANKS + ".") or UNTITLED


def normalise_date(date: str) -> str:
    r"""The date as file name and first line carry it: ``.``, ``\``, ``/``, blanks and ``-`` become single ``-``."""
    return _DATE_SEPARATORS.sub("-", _CONTROL_BUT_BLANK.sub("", date).strip(BLANKS))


def file_name(date: str, moment: datetime, extension: str = "txt", attempt: int = 1, suffix: str = "") -> str:
    """``<date>-<HH>_<mm>_<ss>.<extension>``; the second attempt for a taken name ends in ``_2``, and so on.

    ``moment`` is read as it stands: the caller gives it in the zone of the diaries (D81). Characters of the date and of
    the ``suffix`` (``-<suffix>`` behind the time, memory.md 1.6) that no file name can hold are left out, and overlong
    ones are cut.
    """
    end = _cut(_FORBIDDEN.sub("", suffix).strip(BLANKS + ".-"), _MAX_SUFFIX_BYTES)
    end = f"-{end}" if end else ""
    stem = _cut(_FORBIDDEN.sub("", normalise_date(date)), _MAX_DATE_BYTES - len(end.encode("utf-8")))
    number = "" if attempt == 1 else f"_{attempt}"
    return f"{stem}-{moment:%H_%M_%S}{end}{number}.{extension}"


def heading(date: str, signature: str) -> str:
    """The first line of a diary file: ``[<date>] - <author>`` (memory.md 1.2). The author may be empty."""
    author = _BLANK_RUN.sub(" ", _CONTROL_BUT_BLANK.sub("", signature)).strip(BLANKS)
    return f"[{normalise_date(date)}] - {author}"


def split_tag_line(content: str) -> tuple[str, str | None]:
    """The text before the tag line, and the normalised tag line, or None when there is none (memory.md 1.4).

    The last line that is not blank counts if it begins with ``Tag:`` or ``Tag：`` (any case) and names something
    behind it. Without a tag line the content comes back as it is.
    """
    end = content.rstrip(BLANKS)
    cut = end.rfind("\n") + 1
    line = end[cut:].strip(BLANKS)
    prefix = _TAG_PREFIX.match(line)
    if prefix is None or not line[prefix.end() :].strip(BLANKS + "：，、,"):
        return content, None
    return content[:cut].removesuffix("\n").removesuffix("\r"), normalise_tags(line)


def normalise_tags(line: str) -> str:
    """``Tag: a, b, c`` of a tag line, with or without its prefix (memory.md 1.4).

    Full-width commas and ``、`` separate like commas, full-width colons inside are deleted, ``;`` is no separator,
    empty members are kept.
    """
    line = _BLANK_RUN.sub(" ", line).strip(BLANKS)
    prefix = _TAG_PREFIX.match(line)
    if prefix is not None:
        line = line[prefix.end() :]
    line = line.replace("：", "").replace("，", ",").replace("、", ",")
    members = [_BLANK_RUN.sub(" ", member).strip(BLANKS) for member in line.split(",")]
    tags = members[0] + "".join(f", {member}" if member else "," for member in members[1:])
    return f"Tag: {tags}"


def diary_text(date: str, signature: str, body: str, tag_line: str | None) -> str:
    """The whole diary file: first line, body, tag line if there is one. Line ends are ``\\n`` (P45)."""
    lines = [heading(date, signature)]
    if tag_line is not None:
        body = _without_empty_tag_line(body)
    if body or tag_line is None:
        lines.append(body)
    if tag_line is not None:
        lines.append(tag_line)
    return "\n".join(lines).replace("\r\n", "\n")


def _without_empty_tag_line(body: str) -> str:
    """A last line that says only ``Tag:`` is a place kept for the tags that now come."""
    cut = body.rstrip(BLANKS).rfind("\n") + 1
    return body[:cut].removesuffix("\n") if _TAG_PREFIX.fullmatch(body[cut:].strip(BLANKS)) else body


def _cut(text: str, limit: int) -> str:
    """At most ``limit`` bytes of UTF-8, never half a character."""
    return text.encode("utf-8")[:limit].decode("utf-8", "ignore")
