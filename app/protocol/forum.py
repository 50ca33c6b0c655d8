"""Posts of the forum as texts and file names (vcp-core 8.2, memory.md 6.4). Nothing here touches a disk.

A post is a Markdown file: a title, four bold lines, the text between two rules, and floors below a heading. Texts come
from models, so a line that would begin a floor, or the floors, is written with a backslash in front: Markdown shows it
as it was meant, and no reply can pretend to be two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from app.protocol.blanks import trimmed

RULE = "---"
COMMENTS = "## 评论区"
FLOOR = "### 楼层 #"
AUTHOR = "**作者:**"
UID = "**UID:**"
TIMESTAMP = "**时间戳:**"
PATH = "**路径:**"
REPLIED_BY = "**回复者:**"
REPLIED_AT = "**时间:**"

PART_CHARS = 50
"""Characters of board, title and author in a file name."""

NAME_BYTES = 255
"""Bytes of a file name in UTF-8: three parts of 50 Chinese characters would be too long for every file system."""

LINE_CHARS = 300
"""Characters of a title or a name inside of a post."""

_HEAD_LINES = 40
_FORBIDDEN = re.compile(r'[\\/:*?"<>|\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_UID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_FLOOR = re.compile(r"### 楼层 #([0-9]{1,9})")
_STRUCTURE = re.compile(r"^(?=## 评论区\s*$|### 楼层 #)", re.MULTILINE)
_STAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2})[-:]([0-9]{2})[-:]([0-9]{2}(?:\.[0-9]{1,6})?)(Z|[+-][0-9:]{5})?"
)


@dataclass(frozen=True, slots=True)
class PostName:
    """What a file name says of a post; ``timestamp`` as it stands there, with ``-`` in place of ``:``."""

    board: str
    title: str
    author: str
    timestamp: str
    uid: str


@dataclass(frozen=True, slots=True)
class Floor:
    """One reply. ``start`` and ``end`` are the lines of all of it, ``text_start`` and ``text_end`` of its text."""

    number: int
    author: str
    at: str
    text: str
    start: int
    end: int
    text_start: int
    text_end: int


@dataclass(frozen=True, slots=True)
class Post:
    """A post taken apart; ``lines`` are all of it, so that a change touches nothing else.

    ``text_start`` and ``text_end`` are the lines of the main text. ``title`` and ``author`` are empty where the file
    does not say them; ``complete`` is false when the heading of the floors is missing.
    """

    lines: tuple[str, ...]
    title: str
    author: str
    text: str
    text_start: int
    text_end: int
    complete: bool
    floors: tuple[Floor, ...] = field(default=())


def is_uid(text: str) -> bool:
    """Whether this can be the id of a post; anything else is never looked for."""
    return _UID.fullmatch(text) is not None


def one_line(text: str) -> str:
    """A title or a name as it can stand in one line, at most ``LINE_CHARS`` characters."""
    return " ".join(_INVISIBLE.sub(" ", text).split())[:LINE_CHARS].strip()


def stamp(moment: datetime) -> str:
    """A moment as posts have it: ``2025-11-27T07:30:00.000Z``."""
    moment = moment.astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def moment_of(text: str) -> datetime | None:
    """The moment of a timestamp, in a file name or in a post; None when it is none. Without a zone it is UTC."""
    found = _STAMP.fullmatch(text.strip())
    if found is None:
        return None
    zone = found[4] or "Z"
    try:
        moment = datetime.fromisoformat(f"{found[1]}:{found[2]}:{found[3]}{'+00:00' if zone == 'Z' else zone}")
    except ValueError:
        return None
    return moment.astimezone(UTC)


def post_uid(moment: datetime, random_hex: str) -> str:
    """The id of a new post: milliseconds since the epoch, and eight hexadecimal digits."""
    return f"{int(moment.timestamp() * 1000)}-{random_hex}"


def post_file_name(board: str, title: str, author: str, moment: datetime, uid: str) -> str:
    """The name of a new post's file: parts without characters that no file name has, each at most 50 characters.

    What all of them have beyond ``NAME_BYTES`` the title loses first. The post itself has the title in full.
    """
    parts = [_part(board), _part(title), _part(author)]
    end = f"[{stamp(moment).replace(':', '-')}][{uid}].md"
    left = NAME_BYTES - len(end) - 6
    for place, least in ((1, 60), (0, 60), (2, 60)):
        others = sum(len(part.encode()) for index, part in enumerate(parts) if index != place)
        parts[place] = _cut(parts[place], max(least, left - others))
    return "".join(f"[{part}]" for part in parts) + end


def _part(text: str) -> str:
    part = _FORBIDDEN.sub("_", one_line(text))[:PART_CHARS].strip()
    return part.replace("][", "] [") or "_"


def _cut(text: str, size: int) -> str:
    return text.encode()[:size].decode("utf-8", "ignore").strip() or "_"


def read_post_name(name: str) -> PostName | None:
    """The parts of a file name, in single or doubled brackets; None for a file that is no post's."""
    if not (name.startswith("[") and name.endswith("].md")):
        return None
    parts = name[1:-4].split("][")
    if len(parts) < 5 or not is_uid(parts[-1]):
        return None
    board, *title, author, timestamp, uid = parts
    return PostName(board, "][".join(title).strip("[]") or "_", author, timestamp, uid)


def post_text(title: str, author: str, text: str, moment: datetime, uid: str, path: str) -> str:
    """The file of a new post."""
    return (
        f"# {title}\n\n{AUTHOR} {author}\n{UID} {uid}\n{TIMESTAMP} {stamp(moment)}\n{PATH} {path}\n\n{RULE}\n\n"
        f"{protected(text)}\n\n{RULE}\n\n{COMMENTS}\n{RULE}\n"
    )


def protected(text: str) -> str:
    """A text that somebody wrote, without blanks around it and with nothing in it that looks like another floor."""
    return _STRUCTURE.sub(r"\\", trimmed(text.replace("\r\n", "\n")))


def read_post(content: str) -> Post:
    """Take a post apart. Any text is one: what it lacks is empty."""
    lines = tuple(content.removeprefix("\ufeff").split("\n"))
    plain = [line.rstrip() for line in lines]
    titled = plain[0].startswith("# ")
    head = _head(plain) if titled else -1
    comments = _comments(plain, head + 1)
    text_end = len(plain) if comments < 0 else _rule_before(plain, comments)
    floors = () if comments < 0 else tuple(_floors(lines, plain, comments + 1))
    return Post(
        lines=lines,
        title=plain[0][2:].strip() if titled else "",
        author=next((line[len(AUTHOR) :].strip() for line in plain[1 : max(head, 0)] if line.startswith(AUTHOR)), ""),
        text=_joined(lines[head + 1 : text_end]),
        text_start=head + 1,
        text_end=text_end,
        complete=comments >= 0,
        floors=floors,
    )


def _head(plain: Sequence[str]) -> int:
    """The line of the rule below the title and the bold lines; -1 for a file without them."""
    at = next((at for at in range(1, min(len(plain), _HEAD_LINES)) if plain[at] == RULE), -1)
    return at if any(line.startswith("**") for line in plain[1 : max(at, 1)]) else -1


def _comments(plain: Sequence[str], start: int) -> int:
    """The line of the heading of the floors, which stands below a rule; -1 without one."""
    return next(
        (at for at in range(start, len(plain)) if plain[at] == COMMENTS and _rule_before(plain, at) >= start), -1
    )


def _rule_before(plain: Sequence[str], at: int) -> int:
    """The line of the rule right above, blank lines between them; -1 without one."""
    at -= 1
    while at >= 0 and not plain[at]:
        at -= 1
    return at if at >= 0 and plain[at] == RULE else -1


def _floors(lines: Sequence[str], plain: Sequence[str], start: int) -> Iterator[Floor]:
    heads = [at for at in range(start, len(plain)) if _is_floor(plain, at, start)]
    for place, at in enumerate(heads):
        end = _rule_before(plain, heads[place + 1]) if place + 1 < len(heads) else len(plain)
        first = _rule_before(plain, at)
        author = said = ""
        text_start = at + 1
        while text_start < end and (not plain[text_start] or plain[text_start].startswith((REPLIED_BY, REPLIED_AT))):
            line = plain[text_start]
            if not line and author:
                break
            author = line[len(REPLIED_BY) :].strip() if line.startswith(REPLIED_BY) and not author else author
            said = line[len(REPLIED_AT) :].strip() if line.startswith(REPLIED_AT) and not said else said
            text_start += 1
        number = _FLOOR.match(plain[at])
        text = _joined(lines[text_start:end])
        yield Floor(int(number[1]) if number else 0, author, said, text, first, end, text_start, end)


def _is_floor(plain: Sequence[str], at: int, start: int) -> bool:
    if _FLOOR.fullmatch(plain[at]) is None or _rule_before(plain, at) < start:
        return False
    following = next((line for line in plain[at + 1 : at + 4] if line), "")
    return following.startswith(REPLIED_BY)


def _joined(lines: Sequence[str]) -> str:
    return trimmed("\n".join(lines).replace("\r\n", "\n"))


def next_floor(post: Post) -> int:
    """The number of the next reply: one more than there are, and more than any that is written there."""
    return max([len(post.floors), *(floor.number for floor in post.floors)]) + 1


def floor_of(post: Post, number: int) -> Floor | None:
    """The floor of this number; None without one."""
    return next((floor for floor in post.floors if floor.number == number), None)


def with_reply(post: Post, author: str, text: str, moment: datetime) -> tuple[str, int]:
    """The post with one more floor at its end, and that floor's number."""
    number = next_floor(post)
    content = "\n".join(post.lines).rstrip("\r\n \t")
    if not post.complete:
        content += f"\n\n{RULE}\n\n{COMMENTS}\n{RULE}"
    return f"{content}\n\n{_floor(number, author, stamp(moment), text)}\n", number


def _floor(number: int, author: str, at: str, text: str) -> str:
    return f"{RULE}\n{FLOOR}{number}\n{REPLIED_BY} {author}\n{REPLIED_AT} {at}\n\n{protected(text)}"


def with_text(post: Post, text: str) -> str:
    """The post with another main text; all else stays to the letter."""
    head, rest = post.lines[: post.text_start], post.lines[post.text_end :]
    return _put_together(head, protected(text), rest)


def with_floor_text(post: Post, floor: Floor, text: str) -> str:
    """The post with another text in one floor; all else stays to the letter."""
    return _put_together(post.lines[: floor.text_start], protected(text), post.lines[floor.text_end :])


def _put_together(before: Sequence[str], text: str, after: Sequence[str]) -> str:
    above = "\n".join(before)
    below = "\n".join(after)
    return (
        f"{above}\n\n{text}\n\n{below}" if below.strip() else f"{above}\n\n{text}\n" if above else f"{text}\n\n{below}"
    )


def without_floor(post: Post, floor: Floor) -> str:
    """The post without one floor; the others are numbered anew from 1 on."""
    kept = [other for other in post.floors if other != floor]
    return _with_floors(post, [(other.author, other.at, other.text) for other in kept])


def with_floor_again(post: Post, place: int, author: str, at: str, text: str) -> str:
    """The post with a floor that was deleted in its old place, counted from 1, or at the end."""
    floors = [(other.author, other.at, other.text) for other in post.floors]
    floors.insert(max(0, min(place - 1, len(floors))), (author, at, text))
    return _with_floors(post, floors)


def _with_floors(post: Post, floors: Sequence[tuple[str, str, str]]) -> str:
    head = post.lines[: post.floors[0].start] if post.floors else post.lines
    above = "\n".join(head).rstrip("\r\n \t")
    if not post.complete:
        above += f"\n\n{RULE}\n\n{COMMENTS}\n{RULE}"
    texts = (_floor(number, *floor) for number, floor in enumerate(floors, 1))
    return "\n\n".join((above, *texts)) + "\n"
