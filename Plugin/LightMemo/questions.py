"""What a call of LightMemo asks for: arguments and the marks inside the question (memory.md 6.1, 6.2)."""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from app.extend import Json
from app.memory.diaries.files import DiaryError
from app.memory.diaries.requests import text_argument
from app.protocol.diary import split_author
from app.protocol.truth import truth

MOST_HITS = 50
QUERY_CHARS = 8_000
NAMES_LIMIT = 50
RANGES_LIMIT = 20

_DAY = r"\d{4}(?:[-./]\d{1,2}){0,2}"
_RANGE = re.compile(rf"\[\s*({_DAY})\s*(?:[~～至]\s*({_DAY})\s*)?\]")
_MUSIC = re.compile(r"\[音乐检索\]")
_BASES = re.compile(r"\[知识库[:：]([^\[\]\r\n]{1,500})\]")
_SEPARATORS = re.compile(r"[,，、|｜;；\r\n]+")
MUSIC_NOTEBOOK = "MusicDiary"


@dataclass(frozen=True, slots=True)
class Question:
    """One call. ``folders`` are as they were written; ``signed`` is the name that notes must be signed with, or empty.

    ``scoped``: only notebooks whose names contain ``maid`` are searched.
    """

    query: str
    shown: str
    maid: str
    folders: tuple[str, ...]
    scoped: bool
    authors: tuple[str, ...]
    tags_all: tuple[str, ...]
    tags_any: tuple[str, ...]
    ranges: tuple[tuple[date, date], ...]
    k: int
    rerank: float | None
    words: bool
    tag_boost: float


def read_question(arguments: Mapping[str, Json]) -> Question:
    """The question of a call; DiaryError names what is missing or cannot be read."""
    shown = text_argument(arguments, "query", "Query").strip()[:QUERY_CHARS]
    given = text_argument(arguments, "maid", "Maid", "maidName").strip()
    missing = [name for name, value in (("query", shown), ("maid", given)) if not value]
    if missing:
        raise DiaryError(f"缺少参数：{'、'.join(missing)}", f"missing: {', '.join(missing)}")
    folder, maid = split_author(given)
    folder = folder if given.startswith("[") else ""
    query, ranges, marked = _marks(shown)
    folders = (*names(text_argument(arguments, "folder", "folders")), *marked)
    everywhere = truth(arguments.get("search_all_knowledge_bases"))
    signed: tuple[str, ...] = ()
    if folder:  # "[notebook]name": what this name has signed there
        folders, signed = (folder, *folders), (maid,) if maid else ()
    elif not folders and not everywhere:
        signed = (maid,)
    authors = names(text_argument(arguments, "author", "authors")) or signed
    span = _span(text_argument(arguments, "date_from"), text_argument(arguments, "date_to"))
    if span is not None:
        ranges = tuple((max(one[0], span[0]), min(one[1], span[1])) for one in ranges) if ranges else (span,)
    return Question(
        query or maid,
        shown,
        maid,
        folders[:NAMES_LIMIT],
        not folders and not everywhere,
        authors,
        names(text_argument(arguments, "tags_all", "tags")),
        names(text_argument(arguments, "tags_any")),
        ranges,
        int(min(MOST_HITS, max(1, _number(arguments.get("k"), 5)))),
        _rerank(arguments.get("rerank")),
        truth(arguments.get("BM25", arguments.get("bm25")), default=True),
        min(1.0, max(0.0, _number(arguments.get("tag_boost"), 0.5))),
    )


def names(text: str) -> tuple[str, ...]:
    """The names in a list, each once."""
    parts = (part.strip() for part in _SEPARATORS.split(text))
    return tuple(dict.fromkeys(part for part in parts if part))[:NAMES_LIMIT]


def _marks(text: str) -> tuple[str, tuple[tuple[date, date], ...], tuple[str, ...]]:
    """The question without its marks, the days that it names, the notebooks that it names."""
    ranges: list[tuple[date, date]] = []

    def day(match: re.Match[str]) -> str:
        first = _days(match[1])
        last = _days(match[2]) if match[2] else first
        if first is None or last is None or len(ranges) >= RANGES_LIMIT:
            return match[0]  # a date that does not exist is text
        ranges.append((min(first[0], last[0]), max(first[1], last[1])))
        return " "

    folders = [name for match in _BASES.finditer(text) for name in names(match[1])]
    folders += [MUSIC_NOTEBOOK] if _MUSIC.search(text) else []
    rest = _RANGE.sub(day, _MUSIC.sub(" ", _BASES.sub(" ", text)))
    return rest.strip(), tuple(ranges), tuple(dict.fromkeys(folders))


def _days(text: str) -> tuple[date, date] | None:
    """First and last day of a year, a month or a day; None for one that does not exist."""
    year, *rest = (int(part) for part in re.split(r"[-./]", text))
    try:
        if not rest:
            return date(year, 1, 1), date(year, 12, 31)
        if len(rest) == 1:
            return date(year, rest[0], 1), date(year, rest[0], calendar.monthrange(year, rest[0])[1])
        return date(year, *rest), date(year, *rest)
    except ValueError:  # IllegalMonthError is one too
        return None


def _span(first: str, last: str) -> tuple[date, date] | None:
    """What ``date_from`` and ``date_to`` leave; DiaryError for what is no date."""
    if not first.strip() and not last.strip():
        return None
    days: list[tuple[date, date] | None] = []
    for name, text in (("date_from", first.strip()), ("date_to", last.strip())):
        found = _days(text) if re.fullmatch(_DAY, text) else None
        if text and found is None:
            raise DiaryError(f"{name} 不是日期：{text[:40]!r}", f"{name} is no date: {text[:40]!r}")
        days.append(found)
    return (days[0][0] if days[0] else date.min), (days[1][1] if days[1] else date.max)


def _number(value: Json, default: float) -> float:
    try:
        number = default if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if math.isfinite(number) else default


def _rerank(value: Json) -> float | None:
    """None: not at all; 0 to 1: the weight of the reranker, for which ``true`` is 1."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return 1.0 if value is True else None
    number = _number(value, -1.0)
    if number < 0:
        return 1.0 if truth(value) else None
    return min(1.0, number) or None
