"""Changing single values of the text of an env file: comments, order, unknown keys and line ends stay (spec 2.1).

Every edit is read back before it counts: it either changes exactly the one value or is refused. So nothing that the
grammar makes of odd quotes, not even of those in comments, can be broken by it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from app.config.dotenv import Assignment, assignments, spellings, with_plain_ends
from app.config.env_layout import Layout, family_of
from app.errors import VcpError, both

MAX_KEY_CHARS = 200
MAX_CHANGES = 2000
"""Values that one edit may change."""

_KEY = re.compile(r"[A-Za-z0-9_.\-]+")
_QUOTES = "\"'`"
_NOTE = re.compile(r"[ \t]+#[ \t][^\n]*")


class EnvEditError(VcpError):
    """A value cannot be written in this text without changing another one; ``key`` is the one that was to be set."""

    status = 422
    code = "env_edit"

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        self.key = key


def edited(text: str, changes: Mapping[str, str | None], layout: Layout) -> str:
    """The text with these values; None takes a key away, so that its default applies.

    Of a key that stands several times the last assignment is changed, since it is the one that counts. A new key goes
    below its commented line, else to its neighbours in ``layout`` or its family, else to the end. A documented key that
    is taken away leaves its line of the layout as a comment. The quotes of a value are those it had where they fit, and
    only such as this grammar and dotenv 16 read alike, without escapes that are not taken back.

    Raises EnvEditError, naming the key.
    """
    if len(changes) > MAX_CHANGES:
        raise EnvEditError(both(f"一次最多修改 {MAX_CHANGES} 项", f"at most {MAX_CHANGES} values at a time"), "")
    for key, value in changes.items():
        text = _without(text, key, layout) if value is None else _with(text, key, value, layout)
    return text


def is_key(name: str) -> bool:
    """True for a name that the grammar takes for a key."""
    return len(name) <= MAX_KEY_CHARS and _KEY.fullmatch(name) is not None


class _Text:
    """A text as it is written and with plain line ends, in which offsets are counted."""

    def __init__(self, written: str) -> None:
        self.written = written
        self.plain = with_plain_ends(written)
        self.found = tuple(assignments(self.plain))
        self._longer_ends = [match.start() - count for count, match in enumerate(re.finditer("\r\n", written))]
        ends = Counter(re.findall("\r\n|\n|\r", written)).most_common(1)
        self._end = ends[0][0] if ends else "\n"

    def replaced(self, start: int, end: int, new: str) -> str:
        """The written text with ``new`` in the place of these offsets, its line ends like those of the file."""
        return self.written[: self._at(start)] + new.replace("\n", self._end) + self.written[self._at(end) :]

    def of(self, key: str) -> list[Assignment]:
        return [assignment for assignment in self.found if assignment.entry.key == key]

    def entries(self) -> list[tuple[str, str]]:
        return [(assignment.entry.key, assignment.entry.value) for assignment in self.found]

    def line_end(self, offset: int) -> int:
        """Behind the line that ``offset`` is in, its line end included."""
        newline = self.plain.find("\n", offset)
        return len(self.plain) if newline < 0 else newline + 1

    def line_start(self, offset: int) -> int:
        return self.plain.rfind("\n", 0, offset) + 1

    def _at(self, offset: int) -> int:
        return offset + bisect_left(self._longer_ends, offset)


def _entries(text: str) -> list[tuple[str, str]]:
    return [(found.entry.key, found.entry.value) for found in assignments(with_plain_ends(text))]


def _with(text: str, key: str, value: str, layout: Layout) -> str:
    if not is_key(key):
        raise EnvEditError(
            both(
                "名称只能包含英文字母、数字、下划线、点和连字符",
                "a name has letters a to z, digits, _ . and - only",
            ),
            key,
        )
    if "\0" in value:
        raise EnvEditError(both(f"{key} 的值含有 NUL 字符", f"the value of {key} holds a NUL character"), key)
    value = with_plain_ends(value)
    old = _Text(text)
    before = old.entries()
    there = old.of(key)
    if there:
        last = there[-1]
        if last.entry.value == value:
            return text
        place = max(index for index, (name, _) in enumerate(before) if name == key)
        wanted = [*before[:place], (key, value), *before[place + 1 :]]
        gap = " " if old.plain[last.opens - 1] == ":" else ""
        for form in _in_old_quotes(spellings(value), old.plain[last.opens : last.opens + 1]):
            new = old.replaced(last.opens, last.ends, gap + form)
            if _entries(new) == wanted:
                return new
    else:
        for offset, lead, trail in _places(old, key, layout):
            for form in spellings(value):
                new = old.replaced(offset, offset, f"{lead}{key}={form}{trail}")
                now = _entries(new)
                if [entry for entry in now if entry[0] != key] == before and now.count((key, value)) == 1:
                    return new
    raise EnvEditError(
        both(
            f"{key} 的值无法单独写入：引号组合或附近的引号会改变其他设置，请在文本中修改",
            f"the value of {key} cannot be written alone: its quotes, or quotes near it, would change other settings; "
            "edit the text",
        ),
        key,
    )


def _in_old_quotes(forms: Iterator[str], mark: str) -> list[str]:
    """The spellings, those in the quotes that the value had first."""
    listed = list(forms)
    return sorted(listed, key=lambda form: form[:1] != mark) if mark and mark in _QUOTES else listed


def _places(old: _Text, key: str, layout: Layout) -> Iterator[tuple[int, str, str]]:
    """Where a new key may stand, the best place first: an offset, and what comes before and behind its line."""
    plain = old.plain
    offsets = [_behind_comment(old, key)]
    for neighbour in layout.before(key):
        there = old.of(neighbour)
        offsets.append(old.line_end(there[-1].ends) if there else _behind_comment(old, neighbour))
    family = family_of(key)
    if family:
        relatives = [found for found in old.found if family_of(found.entry.key) == family]
        offsets.append(old.line_end(relatives[-1].ends) if relatives else None)
    for neighbour in layout.after(key):
        there = old.of(neighbour)
        if there:
            offsets.append(old.line_start(there[0].start))
    for offset in offsets:
        if offset is not None:
            yield (offset, "", "\n") if offset == 0 or plain[offset - 1] == "\n" else (offset, "\n", "")
    # A blank line before it: without one, dotenv 16 takes it for the value of a stray "Note:" above.
    gap = "" if not plain or plain.endswith("\n\n") else "\n" if plain.endswith("\n") else "\n\n"
    yield len(plain), gap, "\n"


def _behind_comment(old: _Text, key: str) -> int | None:
    """Behind the last line in which the key is commented out."""
    line = rf"^[ \t]*#[ \t]?(?:export[ \t]+)?{re.escape(key)}[ \t]*=[^\n]*"
    ends = [match.end() for match in re.finditer(line, old.plain, re.MULTILINE)]
    return old.line_end(ends[-1]) if ends else None


def _without(text: str, key: str, layout: Layout) -> str:
    old = _Text(text)
    there = old.of(key)
    if not there:
        return text
    wanted = [entry for entry in old.entries() if entry[0] != key]
    line = layout.line(key)
    for left in dict.fromkeys((f"#{line}" if line else "", f"#{key}=" if line else "", "")):
        new = text
        for place, assignment in reversed(list(enumerate(there))):
            now = _Text(new)
            keep = left if place == len(there) - 1 else ""
            start = now.line_start(assignment.start)
            end = now.line_end(assignment.ends)
            note = _NOTE.match(now.plain, assignment.ends)
            if keep and note:
                keep += note[0]
            new = now.replaced(start, end, f"{keep}\n" if keep else "")
        if _entries(new) == wanted:
            return new
    raise EnvEditError(
        both(
            f"{key} 无法单独移除：附近的引号会改变其他设置，请在文本中修改",
            f"{key} cannot be taken away alone: quotes near it would change other settings; edit the text",
        ),
        key,
    )


def changed_keys(before: str, after: str) -> Sequence[str]:
    """The keys whose value, or presence, differs between two texts, in the order of the later one."""
    old, new = dict(_entries(before)), dict(_entries(after))
    return [key for key in (*new, *(key for key in old if key not in new)) if old.get(key) != new.get(key)]
