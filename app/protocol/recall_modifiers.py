"""The modifiers behind 日记本: the whole table of memory.md 2.5, in any order and any case.

Pieces stand between colons. A piece that begins with a digit, or with a dot and a digit, is the multiplier; all others
are words with an optional number directly behind them. Where a reading could be doubtful:

* ``::TagMemo0.65:1.5`` is a weight of 0.65 and a multiplier of 1.5; ``::TagMemo+0.3`` is a weight that the question
  chooses and a rerank of 0.3; ``::TagMemo0.65+0.3`` gives both.
* ``::BM250.4`` and ``::BM25+0.4`` are BM25 with a weight of 0.4.
* ``::AIMemo:name`` is a preset only behind a single colon; ``::AIMemo:1.5`` is a multiplier.
* ``::Timeline`` is not ``::Time``: a word counts as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

MAX_MULTIPLIER = 100.0
MAX_FILES = 1_000
"""Most files of ``::Last`` and ``::Random``."""

MAX_MODIFIERS = 100
"""Of one declaration; what stands behind them is passed over with a warning."""

MAX_TERMS = 100
"""Roles of one ``::RoleValve``; a longer one is unknown."""

MAX_DECAY_TAGS = 100
MAX_WARNINGS = 20
MAX_WARNING_CHARS = 80

DEFAULT_LAST = 10
DEFAULT_RANDOM = 1
DEFAULT_RERANK_FUSION = 0.5
DEFAULT_TAG_RERANK = 0.6
DEFAULT_BM25 = 0.6
DEFAULT_HALF_LIFE = 30.0
DEFAULT_DECAY_MINIMUM = 0.5

_NUMBER = r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+"
_PIECES = re.compile(r"([:：]+)([^:：]*)")
_MULTIPLIER = re.compile(rf"({_NUMBER})(.*)", re.DOTALL)
_WORD = re.compile(rf"(bm25|base64memo|[a-z]+)({_NUMBER})?(?:(\+)({_NUMBER})?)?", re.IGNORECASE)
_DECAY = re.compile(rf"timedecay({_NUMBER})?(?:/({_NUMBER})?)?(?:/(.*))?", re.IGNORECASE | re.DOTALL)
_VALVE = re.compile(r"rolevalve\s*(@.*)", re.IGNORECASE | re.DOTALL)
_TERM = re.compile(r"@?\s*([a-z]+)\s*(?:(<=|>=|<|>|=)\s*([0-9]{1,9}))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Decay:
    """``::TimeDecay``: half-life in days, least score, and the tags it is for (none: all entries)."""

    half_life: float = DEFAULT_HALF_LIFE
    minimum: float = DEFAULT_DECAY_MINIMUM
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RoleTerm:
    """``@User>3``: how often messages of a role are there."""

    role: str
    operator: str
    count: int

    def holds(self, counts: Mapping[str, int]) -> bool:
        """Whether it is so with these numbers of messages by role."""
        there = counts.get(self.role, 0)
        match self.operator:
            case "<":
                return there < self.count
            case ">":
                return there > self.count
            case "<=":
                return there <= self.count
            case ">=":
                return there >= self.count
            case _:
                return there == self.count


@dataclass(frozen=True, slots=True)
class Modifiers:
    """What the modifiers of one declaration say. None: nothing was said, or the weight is chosen by the question.

    ``rerank_fusion`` is the weight of the reranker among ranks (``::Rerank+``), ``tag_rerank`` that of the second
    ordering by tags (``::TagMemo+``), ``bm25`` that of words against meaning; ``bm25_bodies`` looks at bodies and not
    at tag lines only. ``valve`` holds alternatives of terms that must all hold. ``ai_memo_recalls`` is ``::AIMemo+``.
    """

    multiplier: float = 1.0
    time: bool = False
    time_share: float | None = None
    group: bool = False
    rerank: bool = False
    rerank_fusion: float | None = None
    tags: bool = False
    tag_boost: float | None = None
    tag_rerank: float | None = None
    bm25: float | None = None
    bm25_bodies: bool = False
    decay: Decay | None = None
    truncate: float | None = None
    last: int | None = None
    random: int | None = None
    expand: bool = False
    associate: bool = False
    media: bool = False
    valve: tuple[tuple[RoleTerm, ...], ...] = ()
    ai_memo: bool = False
    ai_memo_preset: str = ""
    ai_memo_recalls: bool = False

    def lets_through(self, counts: Mapping[str, int]) -> bool:
        """Whether ``::RoleValve`` is open with these numbers of messages by role; it is where there is none."""
        return not self.valve or any(all(term.holds(counts) for term in terms) for terms in self.valve)


def read_modifiers(text: str) -> tuple[Modifiers, tuple[str, ...]]:
    """What stands between 日记本 and the closer; the warnings are the pieces that nobody knows. Linear."""
    modifiers = Modifiers()
    unknown: list[str] = []
    multiplied = False
    preset_may_follow = False
    begin = _PIECES.search(text)
    before = text[: begin.start() if begin else len(text)]
    if before.strip():
        unknown.append(before)
    for number_of_piece, match in enumerate(_PIECES.finditer(text)):
        colons, piece = match[1], match[2].strip()
        if number_of_piece == MAX_MODIFIERS:
            unknown.insert(0, text[match.start() : match.start() + MAX_WARNING_CHARS])
            break
        if not piece:
            continue
        number = _MULTIPLIER.fullmatch(piece)
        if number is not None:
            if multiplied:
                unknown.append(piece)
                continue
            multiplied = True
            modifiers = replace(modifiers, multiplier=min(float(number[1]), MAX_MULTIPLIER))
            if number[2].strip():
                unknown.append(number[2])
            continue
        changed = _with(modifiers, piece)
        if changed is not None:
            modifiers = changed
        elif preset_may_follow and len(colons) == 1:
            modifiers = replace(modifiers, ai_memo_preset=piece)
        else:
            unknown.append(piece)
        preset_may_follow = changed is not None and changed.ai_memo and piece.casefold().startswith("aimemo")
    return modifiers, tuple(text.strip()[:MAX_WARNING_CHARS] for text in unknown[:MAX_WARNINGS])


def _with(modifiers: Modifiers, piece: str) -> Modifiers | None:
    """The modifiers with one more of them; None for one that nobody knows."""
    valve = _VALVE.fullmatch(piece)
    if valve is not None:
        terms = _valve(valve[1])
        return None if terms is None else replace(modifiers, valve=terms)
    decay = _DECAY.fullmatch(piece)
    if decay is not None:
        tags = tuple(tag.strip() for tag in re.split("[,，、]", decay[3] or "") if tag.strip())
        tags = tags[:MAX_DECAY_TAGS]
        half_life = _float(decay[1], DEFAULT_HALF_LIFE) or DEFAULT_HALF_LIFE
        return replace(modifiers, decay=Decay(half_life, _float(decay[2], DEFAULT_DECAY_MINIMUM), tags))
    word = _WORD.fullmatch(piece)
    if word is None:
        return None
    return _word(modifiers, word[1].casefold(), word[2], word[3] is not None, word[4])


def _word(modifiers: Modifiers, word: str, number: str | None, plus: bool, more: str | None) -> Modifiers | None:
    weight = number if number is not None else more
    match word:
        case "time" if not plus:
            share = None if number is None else _share(number)
            return replace(modifiers, time=True, time_share=share)
        case "rerank":
            fusion = _share(weight, DEFAULT_RERANK_FUSION) if plus else None
            return replace(modifiers, rerank=True, rerank_fusion=fusion)
        case "tagmemo" | "rivermemo":
            return replace(
                modifiers,
                tags=True,
                tag_boost=None if number is None else _share(number),
                tag_rerank=_share(more, DEFAULT_TAG_RERANK) if plus else None,
            )
        case "bm25":
            return replace(modifiers, bm25=_share(weight, DEFAULT_BM25), bm25_bodies=plus)
        case "truncate" if not plus and number is not None:
            return replace(modifiers, truncate=_share(number))
        case "last" if not plus:
            return replace(modifiers, last=_files(number, DEFAULT_LAST))
        case "random" if not plus:
            return replace(modifiers, random=_files(number, DEFAULT_RANDOM))
        case "aimemo" if weight is None:
            return replace(modifiers, ai_memo=True, ai_memo_recalls=plus)
    return _switch(modifiers, word) if not plus and number is None else None


def _switch(modifiers: Modifiers, word: str) -> Modifiers | None:
    match word:
        case "group":
            return replace(modifiers, group=True)
        case "base64memo":
            return replace(modifiers, media=True)
        case "expand":
            return replace(modifiers, expand=True)
        case "associate":
            return replace(modifiers, associate=True)
        case _:
            return None


def _valve(text: str) -> tuple[tuple[RoleTerm, ...], ...] | None:
    alternatives: list[tuple[RoleTerm, ...]] = []
    if text.count("|") + text.count("&") >= MAX_TERMS:
        return None
    for alternative in text.split("|"):
        terms = [_TERM.fullmatch(term.strip()) for term in alternative.split("&")]
        read = [RoleTerm(t[1].casefold(), t[2] or ">=", int(t[3]) if t[3] else 1) for t in terms if t is not None]
        if len(read) != len(terms):
            return None
        alternatives.append(tuple(read))
    return tuple(alternatives)


def _float(text: str | None, default: float) -> float:
    return default if text is None else min(float(text), 1e9)


def _share(text: str | None, default: float = 0.0) -> float:
    """A number from 0 to 1; what is larger is 1."""
    return min(1.0, _float(text, default))


def _files(text: str | None, default: int) -> int:
    return max(1, min(MAX_FILES, int(_float(text, default))))
