"""The tags of a diary file as readers of it see them (memory.md 3.5, 10.5). Pure: texts in, names out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

from app.protocol.blanks import BLANKS

MAX_TAGS = 30
"""Tags that one note can have; what follows them is not read."""

MAX_TAG_CHARS = 100
"""A longer member of a tag line is a sentence, not a tag."""

MAX_TAG_LINE_CHARS = 20_000
"""So much of a tag line is looked at."""

_LINE = re.compile(
    rf"^[{BLANKS.replace(chr(10), '')}]*(?:tags?|标签)[ \t\u3000]*[:：]([^\n]*)", re.IGNORECASE | re.MULTILINE
)
_SEPARATOR = re.compile(r"[,，、;；|｜]")
_BLANK_RUN = re.compile(f"[{BLANKS}]+")


def fold_tag(tag: str) -> str:
    """What makes two tags the same: NFKC, case-folded, single blanks. Shown is the tag as it was written."""
    return _BLANK_RUN.sub(" ", unicodedata.normalize("NFKC", tag).casefold()).strip(BLANKS)


def find_tag_line(text: str) -> tuple[int, str] | None:
    """Where the tag line of a note begins and what stands behind its colon; None when it has none.

    It is the last line that begins with ``Tag:``, ``Tags:`` or ``标签:`` (any case, either colon). Linear in the text.
    """
    found: re.Match[str] | None = None
    for found in _LINE.finditer(text):  # noqa: B007 - the last one is wanted
        pass
    return None if found is None else (text.rfind("\n", 0, found.start(1)) + 1, found[1])


def read_tags(text: str, blacklist: Collection[str] = (), super_blacklist: Collection[str] = ()) -> tuple[str, ...]:
    """The tags of a whole diary text in the order and form they are written, each once, at most ``MAX_TAGS``.

    Separators are ``,`` ``;`` ``|`` in both widths and ``、``; full-width colons inside are left out as on writing
    (1.4). Words of ``super_blacklist`` are cut out of every tag, longest first; then empty tags and those of
    ``blacklist`` are dropped. Tags whose ``fold_tag`` is the same are one.
    """
    line = find_tag_line(text)
    if line is None:
        return ()
    cut_out = _any_of(super_blacklist)
    seen = {fold_tag(word) for word in blacklist} | {""}
    tags: list[str] = []
    for member in _SEPARATOR.split(line[1][:MAX_TAG_LINE_CHARS].replace("：", "")):
        tag = member if cut_out is None else cut_out.sub("", member)
        tag = _BLANK_RUN.sub(" ", tag).strip(BLANKS)
        folded = fold_tag(tag)
        if folded in seen or len(tag) > MAX_TAG_CHARS:
            continue
        seen.add(folded)
        tags.append(tag)
        if len(tags) == MAX_TAGS:
            break
    return tuple(tags)


def _any_of(words: Collection[str]) -> re.Pattern[str] | None:
    found = sorted({word.strip(BLANKS) for word in words} - {""}, key=lambda word: (-len(word), word))
    return re.compile("|".join(map(re.escape, found)), re.IGNORECASE) if found else None
