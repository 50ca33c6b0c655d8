"""What ``config.env.example`` says of each key: its group, its neighbours, and its help in both languages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_GROUP = re.compile(r"# -{10,} (.+?) / (.+)")
_SETTING = re.compile(r"(#?)([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_CHINESE = re.compile("[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")
_SENTENCE_ENDS = re.compile(r"[.)?!](?:\s+)")
_FAMILIES = (
    ("Upstream", re.compile(r"Upstream_.+", re.IGNORECASE)),
    ("Sar", re.compile(r"Sar(?:Model|Prompt)\d+")),
    ("SuperDetector", re.compile(r"SuperDetector(?:_Output)?\d+")),
    ("Detector", re.compile(r"Detector(?:_Output)?\d+")),
    ("Text", re.compile(r"(?:Tar|Var).*")),
)

FAMILIES = ("Upstream", "Text", "Sar", "Detector", "SuperDetector")
"""Families of keys that people name themselves, as :func:`family_of` calls them."""


@dataclass(frozen=True, slots=True)
class Help:
    """The comment above some keys, in both languages, and those keys in their order."""

    english: str
    chinese: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A heading of the example and what stands below it; ``slug`` names it in addresses."""

    english: str
    chinese: str
    slug: str
    helps: tuple[Help, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys of the group, in their order."""
        return tuple(key for found in self.helps for key in found.keys)


@dataclass(frozen=True, slots=True)
class Layout:
    """All groups, and the line of each key as the example writes it, without the ``#`` before it."""

    groups: tuple[Group, ...] = ()
    lines: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def line(self, key: str) -> str:
        """The line of a documented setting; empty for others, families among them."""
        return "" if family_of(key) else self.lines.get(key, "")

    def before(self, key: str) -> Iterator[str]:
        """The keys of the same group that stand before this one, the nearest first."""
        keys = self._beside(key)
        yield from reversed(keys[: keys.index(key)] if key in keys else ())

    def after(self, key: str) -> Iterator[str]:
        """Those that stand behind it, the nearest first."""
        keys = self._beside(key)
        yield from keys[keys.index(key) + 1 :] if key in keys else ()

    def _beside(self, key: str) -> tuple[str, ...]:
        return next((group.keys for group in self.groups if key in group.keys), ())


def family_of(key: str) -> str:
    """The family that a key belongs to, empty for none (spec 2.3)."""
    return next((name for name, pattern in _FAMILIES if pattern.fullmatch(key)), "")


def read_layout(example: str) -> Layout:
    """The layout of the text of ``config.env.example``; pure, and never fails."""
    groups: list[Group] = []
    lines: dict[str, str] = {}
    title: tuple[str, str] | None = None
    helps: list[Help] = []
    comment: list[str] = []
    keys: list[str] = []

    def close_help() -> None:
        if keys:
            helps.append(Help(*_languages(comment), tuple(keys)))
        comment.clear()
        keys.clear()

    def close_group() -> None:
        close_help()
        if title is not None:
            slug = re.sub("[^a-z0-9]+", "-", title[0].lower()).strip("-")
            groups.append(Group(title[0], title[1], slug, tuple(helps)))
        helps.clear()

    for line in example.splitlines():
        heading = _GROUP.fullmatch(line)
        setting = _SETTING.fullmatch(line)
        if heading is not None:
            close_group()
            title = heading[1], heading[2]
        elif title is None:
            continue
        elif setting is not None:
            keys.append(setting[2])
            lines.setdefault(setting[2], f"{setting[2]}={setting[3]}")
        elif line.startswith("#"):
            comment.append(line.removeprefix("#").strip())
        else:
            close_help()
    close_group()
    return Layout(tuple(groups), MappingProxyType(lines))


def _languages(comment: list[str]) -> tuple[str, str]:
    """The English and the Chinese part of a comment, which stand in this order.

    The Chinese one may begin with a name in Latin letters, so it begins at the sentence in which the first Chinese
    character stands.
    """
    text = "\n".join(comment)
    found = _CHINESE.search(text)
    if found is None:
        return " ".join(text.split()), ""
    starts = [match.end() for match in _SENTENCE_ENDS.finditer(text, 0, found.start())]
    split = starts[-1] if starts else 0
    return " ".join(text[:split].split()), _joined(text[split:])


def _joined(text: str) -> str:
    """Chinese lines made one: a broken line becomes a blank only beside Latin letters and figures."""
    joined = re.sub(
        "(?<=[\u3000-\u303f\uff00-\uffef])\\n|(?<=[\u4e00-\u9fff])\\n(?=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])",
        "",
        text,
    )
    return " ".join(joined.split())
