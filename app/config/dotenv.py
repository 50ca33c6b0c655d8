"""The grammar of ``config.env`` and of every plugin's own ``config.env`` (spec vcp-core 2.1, vectors E1-E18).

The files were written for the Node library dotenv 16, so its habits are kept: no ``${}`` interpolation, a ``#`` cuts
an unquoted value even without a space before it, only double quotes know ``\\n`` and ``\\r``, and a quote that is not
closed properly is an ordinary character. Lines that match no rule are skipped without a word.

A key, its sign and the white space between them share one line. (The library lets them wander over line ends, so that a
stray ``Note:`` swallows the setting below it; that is the one thing not kept.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.config.problem import Problem
from app.config.small_file import read_small
from app.errors import ConfigError, both
from app.protocol.blanks import BLANKS, trimmed

MAX_FILE_BYTES = 16 * 1024 * 1024
"""A larger file is refused: it is no configuration."""

_QUOTES = "\"'`"

# The grammar knows JavaScript's white space: it has the ideographic space that Chinese input methods type.
_INLINE = BLANKS.replace("\n", "").replace("\r", "")  # every CR is an LF by the time this is searched for

# Possessive quantifiers keep every one of these linear.
_SPACE = re.compile(rf"[\n{_INLINE}]*+")
_HEAD = re.compile(rf"(?:export[{_INLINE}]++)?+([A-Za-z0-9_.\-]++)(?:[{_INLINE}]*+=|:(?=[{_INLINE}]))")
_HEAD_NAMED_EXPORT = re.compile(rf"(export)(?:[{_INLINE}]*+=|:(?=[{_INLINE}]))")
_UNQUOTED = re.compile(r"[^#\n]*+")
_TAIL = re.compile(rf"[{_INLINE}]*+(?:[#\n]|\Z)")


@dataclass(frozen=True, slots=True)
class Entry:
    """One assignment; ``line`` is the line of its key, counted from 1.

    ``closed`` is false when the value opens a quote that its line never closes. That is no fault to the grammar, but a
    file that somebody is just writing looks like it.
    """

    key: str
    value: str
    line: int
    closed: bool = True


@dataclass(frozen=True, slots=True)
class Assignment:
    """An entry and where it stands: offsets into the text with LF line ends.

    ``start`` is where the key, or the ``export`` before it, begins; ``opens`` and ``ends`` enclose the value as it is
    written, with its quotes. Of a blank value both are where the sign ends.
    """

    entry: Entry
    start: int
    opens: int
    ends: int


@dataclass(frozen=True, slots=True)
class EnvFile:
    """A file that was read: its assignments in file order, and what was odd about the file as a whole."""

    path: Path
    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()

    def values(self) -> dict[str, str]:
        """Key to value. A key keeps the place of its first assignment and takes the value of its last (E10)."""
        return {entry.key: entry.value for entry in self.entries}

    def lines(self) -> dict[str, int]:
        """Key to the line of the assignment that counts, which is its last."""
        return {entry.key: entry.line for entry in self.entries}


def parse(text: str) -> list[Entry]:
    """Read every assignment of ``text`` in order, repeated keys included.

    Takes time linear in the length of the text, whatever it holds, and never fails. Line ends may be LF, CRLF or CR.
    """
    return [assignment.entry for assignment in assignments(with_plain_ends(text))]


def with_plain_ends(text: str) -> str:
    """The text with every CRLF and CR as LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def assignments(text: str) -> Iterator[Assignment]:
    """The assignments of a text whose line ends are LF, in order; see :func:`parse`."""
    position, line, counted = 0, 1, 0
    while position < len(text):
        start = _end(_SPACE, text, position)
        head = _HEAD.match(text, start) or _HEAD_NAMED_EXPORT.match(text, start)
        if head is None:
            position = start
        else:
            line += text.count("\n", counted, start)
            counted = start
            value, opens, position, closed = _value(text, head.end())
            ends = opens + len(text[opens:position].rstrip(BLANKS))
            yield Assignment(Entry(head[1], value, line, closed), start, opens, ends)
        # What is left of the line is a comment, or a line that is no assignment.
        newline = text.find("\n", position)
        position = len(text) if newline < 0 else newline + 1


def parse_values(text: str) -> dict[str, str]:
    """Key to value of a text that stands alone, such as a plugin's own ``config.env``; the last of equal keys wins."""
    return {entry.key: entry.value for entry in parse(text)}


def read(path: Path) -> EnvFile:
    """Read an env file; a file that does not exist is an empty one.

    The text is UTF-8, with or without a byte-order mark. Chinese editions of Windows still make GB18030 files and old
    editors UTF-16 ones; both are read, with a problem that asks to convert them.

    Raises ConfigError, naming the file, if it is a folder, may not be read, is larger than ``MAX_FILE_BYTES``, or holds
    bytes of no known encoding.
    """
    try:
        data = read_small(path, MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return EnvFile(path)
    except IsADirectoryError:
        raise ConfigError(
            both(
                f"{path} 是目录而不是文件（容器挂载不存在的文件时会这样），请删除该目录并创建文件",
                f"{path} is a folder, not a file; a container mount of a file that did not exist makes one. "
                "Remove the folder and create the file.",
            )
        ) from None
    except OSError as error:
        raise ConfigError(both(f"无法读取 {path}", f"{path} cannot be read: {error.strerror or error}")) from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(
            both(
                f"{path} 超过 {MAX_FILE_BYTES // (1024 * 1024)} MiB，不是配置文件",
                f"{path} is larger than {MAX_FILE_BYTES // (1024 * 1024)} MiB; this is no configuration file.",
            )
        )
    text, problems = decode(path, data)
    return EnvFile(path, tuple(parse(text)), problems)


def quote(value: str) -> str | None:
    """Write ``value`` so that ``parse("K=" + quote(value))`` gives it back, whatever lines follow in the file.

    The plainest form that works is chosen: bare, double quotes, single quotes, backticks, double quotes with ``\\n``
    and ``\\r``. None if the grammar has no way to write this value.
    """
    return next(spellings(value), None)


def spellings(value: str) -> Iterator[str]:
    """All forms that :func:`quote` chooses from, the plainest first; each once."""
    if _is_bare(value):
        yield value
    escaped = value.replace("\r", "\\r")
    forms = (
        f'"{value}"',
        f"'{value}'",
        f"`{value}`",
        f'"{escaped}"',
        '"' + escaped.replace("\n", "\\n") + '"',
    )
    for form in dict.fromkeys(forms):
        # A quote that finds no partner in its own text looks for one in the lines below, so those are tried too.
        if all(_reads_as(f"K={form}{below}", value) for below in ("", '\n"', "\n'", "\n`")):
            yield form


def _is_bare(value: str) -> bool:
    return (
        bool(value)
        and value[0] not in _QUOTES
        and value == trimmed(value)
        and not any(mark in value for mark in "#\n\r")
    )


def _reads_as(text: str, value: str) -> bool:
    entries = parse(text)
    return len(entries) == 1 and entries[0].value == value


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Where the match ends; only for patterns that match the empty text, so that there always is one."""
    match = pattern.match(text, position)
    return position if match is None else match.end()


def _value(text: str, position: int) -> tuple[str, int, int, bool]:
    """The value whose sign ends at ``position``: where it opens, where reading goes on, whether its quotes pair up."""
    opening = _end(_SPACE, text, position)
    mark = text[opening : opening + 1]
    if mark and mark in _QUOTES:
        closing = _closing(text, opening, mark)
        if closing is not None:
            return _unescape(mark, text[opening + 1 : closing]), opening, closing + 1, True
    end = _end(_UNQUOTED, text, position)
    raw = trimmed(text[position:end])
    opening = min(opening, end) if raw else position
    mark = raw[:1]
    if len(raw) > 1 and mark in _QUOTES and raw.endswith(mark):
        return _unescape(mark, raw[1:-1]), opening, end, True
    return _unescape(mark, raw), opening, end, not (mark and mark in _QUOTES and raw.count(mark) % 2)


def _closing(text: str, opening: int, mark: str) -> int | None:
    """Where the quote that opened at ``opening`` closes: a mark with nothing but a comment behind it on its line.

    The first mark without a backslash decides. If it does not close, the last one with a backslash before it that does
    is taken. Two scans for the same kind of quote never cover the same text, since each stops at the next opening quote
    at the latest; hence the linear time.
    """
    escaped: list[int] = []
    at = text.find(mark, opening + 1)
    while at >= 0:
        if text[at - 1] != "\\":
            if _TAIL.match(text, at + 1):
                return at
            break
        escaped.append(at)
        at = text.find(mark, at + 1)
    return next((at for at in reversed(escaped) if _TAIL.match(text, at + 1)), None)


def _unescape(mark: str, raw: str) -> str:
    # Also when the quotes themselves could not be taken off: the reference looks at the first character only.
    return raw.replace("\\n", "\n").replace("\\r", "\r") if mark == '"' else raw


def decode(path: Path, data: bytes) -> tuple[str, tuple[Problem, ...]]:
    """The text of the bytes of an env file, and what is odd about its encoding; see :func:`read`."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode("utf-16"), (_encoding_problem(path, "UTF-16"),)
        except UnicodeDecodeError as error:
            raise ConfigError(
                both(
                    f"{path} 开头像 UTF-16，但第 {error.start} 字节不符，请另存为 UTF-8",
                    f"{path} begins like UTF-16 but byte {error.start} does not fit; save it as UTF-8.",
                )
            ) from None
    try:
        return data.decode("utf-8"), ()
    except UnicodeDecodeError as error:
        bad = error.start
    try:
        text = data.decode("gb18030")
    except UnicodeDecodeError:
        raise ConfigError(
            f"{path}: byte {bad} (0x{data[bad]:02x}, line {data.count(10, 0, bad) + 1}) is not UTF-8; "
            "save the file as UTF-8. 请将该文件另存为 UTF-8 编码。"
        ) from None
    return text, (_encoding_problem(path, "GB18030", data.count(10, 0, bad) + 1),)


def _encoding_problem(path: Path, encoding: str, line: int | None = None) -> Problem:
    return Problem(
        str(path), line, "", f"the file is not UTF-8; read as {encoding}, please save it as UTF-8 (请另存为 UTF-8)"
    )
