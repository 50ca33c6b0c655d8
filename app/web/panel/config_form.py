"""The form of ``config.env``: what is asked for, and what a filled-in form changes. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app.config.dotenv import parse_values, with_plain_ends
from app.config.env_edit import is_key
from app.config.env_layout import FAMILIES, Group, Layout, family_of
from app.config.setting_forms import SettingForm, setting_form
from app.config.upstreams import PARTS

VALUE = "k."
"""What the name of a field that holds a value begins with; the key follows."""

REMOVE = "r."
"""The same of a box that takes a key of a family, or an unknown one, away."""

ADD = "a."
"""The same of fields for new keys: the family and the part follow."""

OTHER = "Other"
"""Keys that nobody documents, beside the families."""

LONG_CHARS = 4000
"""A longer value is shown in part, and edited as text."""

MAX_OWN_KEYS = 300
"""Keys of families, and unknown ones, that the form shows; the others are edited as text."""

MAX_OWN_CHARS = 100_000
"""Characters of their values that it shows in all."""

ADD_PARTS: Mapping[str, tuple[str, ...]] = {
    "Upstream": ("Name", "URL", "Key", "Models"),
    "Text": ("Name", "Value"),
    "Sar": ("Models", "Prompt"),
    "Detector": ("Pattern", "Output"),
    "SuperDetector": ("Pattern", "Output"),
    OTHER: ("Name", "Value"),
}
"""What is asked for a new member of each family."""


@dataclass(frozen=True, slots=True)
class Field:
    """One key in the form. ``value`` is what the form shows, ``written`` what the file says (None: it does not).

    A value that is too long to be edited here is ``cut``. ``error`` says in both languages why it cannot be saved.
    """

    form: SettingForm
    value: str
    written: str | None
    overridden: bool = False
    cut: bool = False
    removable: bool = False
    error: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        """The key."""
        return self.form.name

    @property
    def changed(self) -> bool:
        """True when the form shows something else than the file."""
        return self.value != (self.written or "")

    @property
    def area(self) -> bool:
        """True for a value that needs several lines."""
        return not self.form.secret and ("\n" in self.value or len(self.value) > 100)


@dataclass(frozen=True, slots=True)
class Block:
    """Keys with one help text above them."""

    english: str
    chinese: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A group of the form; ``family`` is set where members can be added, ``hidden`` counts keys that are not shown."""

    slug: str
    english: str
    chinese: str
    blocks: tuple[Block, ...]
    family: str = ""
    help: tuple[str, str] = ("", "")
    hidden: int = 0

    @property
    def fields(self) -> Sequence[Field]:
        """All fields of the group."""
        return [one for block in self.blocks for one in block.fields]

    @property
    def written(self) -> int:
        """How many keys the file sets to something else than the default."""
        return sum(bool(one.written) and one.written != one.form.default for one in self.fields)


@dataclass(frozen=True, slots=True)
class Filled:
    """A form as it came back: values by key, keys to take away, texts for new keys by family and part."""

    values: Mapping[str, str] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    added: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """What a form changes: new values (None takes a key away), and why fields cannot be used, in both languages."""

    values: Mapping[str, str | None]
    errors: Mapping[str, tuple[str, str]]


def read_fields(fields: Sequence[tuple[str, str]]) -> Filled:
    """The fields of a form; line ends of browsers become plain ones, names that are no keys are passed over."""
    values: dict[str, str] = {}
    removed: set[str] = set()
    added: dict[tuple[str, str], str] = {}
    for name, text in fields:
        if name.startswith(VALUE) and is_key(name.removeprefix(VALUE)):
            values[name.removeprefix(VALUE)] = with_plain_ends(text)
        elif name.startswith(REMOVE) and is_key(name.removeprefix(REMOVE)):
            removed.add(name.removeprefix(REMOVE))
        elif name.startswith(ADD):
            family, _, part = name.removeprefix(ADD).partition(".")
            if part in ADD_PARTS.get(family, ()) and text.strip():
                added[family, part] = with_plain_ends(text).strip("\n") if part in ("Value", "Prompt") else text.strip()
    return Filled(values, frozenset(removed), added)


def as_fields(filled: Filled) -> Sequence[tuple[str, str]]:
    """The same as fields, for a form that carries them on."""
    return [
        *((f"{VALUE}{key}", value) for key, value in filled.values.items()),
        *((f"{REMOVE}{key}", "on") for key in sorted(filled.removed)),
        *((f"{ADD}{family}.{part}", text) for (family, part), text in filled.added.items()),
    ]


def changes(layout: Layout, text: str, filled: Filled) -> Changes:
    """What the form changes in ``text``. A documented setting that is emptied is taken away: its default applies."""
    written = parse_values(text)
    found: dict[str, str | None] = {}
    for key, value in filled.values.items():
        now = written.get(key)
        if with_plain_ends(now or "") == value or (now is None and not value):
            continue
        found[key] = None if layout.line(key) and not value.strip() else value
    found |= {key: None for key in filled.removed if key in written}
    errors: dict[str, tuple[str, str]] = {}
    for family in ADD_PARTS:
        parts = {part: filled.added.get((family, part), "") for part in ADD_PARTS[family]}
        if any(parts.values()):
            new, error = _added(family, parts, written)
            if error:
                errors[f"{ADD}{family}"] = error
            else:
                found |= new
    return Changes(found, errors)


def _added(
    family: str, parts: Mapping[str, str], written: Mapping[str, str]
) -> tuple[Mapping[str, str], tuple[str, str] | None]:
    if family == "Upstream":
        name = parts["Name"]
        keys = {f"Upstream_{name}_{part}": parts[part] for part in PARTS if parts.get(part)}
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name) or not parts["URL"]:
            return {}, (
                "需要名称（英文字母、数字、_ . -）和地址",
                "a name of letters, digits, _ . - and a URL are needed",
            )
    elif family in ("Text", OTHER):
        keys = {parts["Name"]: parts["Value"]}
        if not is_key(parts["Name"]) or (family == "Text" and family_of(parts["Name"]) != "Text"):
            return {}, (
                (
                    "名称以 Tar 或 Var 开头，只含英文字母、数字和 _ . -",
                    "the name begins with Tar or Var, then letters, digits, _ . -",
                )
                if family == "Text"
                else ("名称只能包含英文字母、数字和 _ . -", "a name has letters a to z, digits and _ . - only")
            )
    else:
        first, second = (f"{family}Model", f"{family}Prompt") if family == "Sar" else (family, f"{family}_Output")
        if not all(parts.values()):
            return {}, ("两项都要填写", "both are needed")
        number = next(n for n in range(1, 10_000) if f"{first}{n}" not in written and f"{second}{n}" not in written)
        keys = dict(zip((f"{first}{number}", f"{second}{number}"), parts.values(), strict=True))
    taken = next((key for key in keys if key in written), None)
    return (keys, None) if taken is None else ({}, (f"{taken} 已存在", f"{taken} is there already"))


def sections(
    layout: Layout,
    text: str,
    *,
    overridden: frozenset[str] = frozenset(),
    filled: Filled | None = None,
    errors: Mapping[str, tuple[str, str]] | None = None,
) -> Sequence[Section]:
    """All groups of the form for the text of the file, showing what was filled in where a form came back."""
    filled, errors = filled or Filled(), errors or {}
    written = parse_values(text)

    def made(key: str, *, own: bool = False, room: int = LONG_CHARS) -> Field:
        now = written.get(key)
        value = filled.values.get(key, with_plain_ends(now or ""))
        cut = len(value) > room and key not in filled.values
        return Field(
            setting_form(key), value[:room] if cut else value, now, key in overridden, cut, own, errors.get(key)
        )

    documented = {key for group in layout.groups for key in group.keys if not family_of(key)}
    found = [_documented(group, made) for group in layout.groups]
    helps = {family_of(one.keys[0]): one for group in layout.groups for one in group.helps}
    own: dict[str, list[str]] = {family: [] for family in (*FAMILIES, OTHER)}
    for key in written:
        if key not in documented:
            own[family_of(key) or OTHER].append(key)
    room, count = MAX_OWN_CHARS, MAX_OWN_KEYS
    for family, (chinese, english) in _TITLES.items():
        shown = own[family][:count]
        fields = []
        for key in shown:
            one = made(key, own=True, room=max(200, min(LONG_CHARS, room)))
            room -= len(one.value)
            fields.append(one)
        count -= len(shown)
        block = Block("", "", tuple(fields))
        help_of = helps.get(family)
        words = (help_of.chinese, help_of.english) if help_of is not None and family != OTHER else ("", "")
        hidden = len(own[family]) - len(shown)
        found.append(Section(family.lower(), english, chinese, (block,), family, words, hidden))
    return [section for section in found if section.fields or section.family]


_TITLES = {
    "Upstream": ("更多上游", "Further model APIs"),
    "Text": ("变量（Tar、Var）", "Variables (Tar, Var)"),
    "Sar": ("按模型的提示词（Sar）", "Texts for models (Sar)"),
    "Detector": ("替换系统消息（Detector）", "Replacements (Detector)"),
    "SuperDetector": ("替换所有消息（SuperDetector）", "Replacements everywhere (SuperDetector)"),
    OTHER: ("其他设置", "Other keys"),
}


def _documented(group: Group, made: Callable[[str], Field]) -> Section:
    blocks = [
        Block(one.english, one.chinese, tuple(made(key) for key in one.keys))
        for one in group.helps
        if not any(map(family_of, one.keys))
    ]
    return Section(group.slug, group.english, group.chinese, tuple(blocks))


def setting_hits(layout: Layout, words: str, limit: int) -> Iterator[tuple[str, Block]]:
    """Settings whose name or help has these words, names first."""
    needle = words.lower()
    everything = [
        (key, one) for group in layout.groups for one in group.helps for key in one.keys if not family_of(key)
    ]
    by_name = [pair for pair in everything if needle in pair[0].lower()]
    by_help = [pair for pair in everything if needle in f"{pair[1].english} {pair[1].chinese}".lower()]
    for key, one in list({**dict(by_name), **dict(by_help)}.items())[:limit]:
        yield key, Block(one.english, one.chinese, ())


def wrong(form: SettingForm, reason: str) -> tuple[str, str]:
    """Why a value of this key cannot be used, in both languages; ``reason`` is what the reader of settings says."""
    chinese = {
        "whole": f"应为 {form.low} 到 {form.high} 的整数" if form.low else "应为整数",
        "number": f"应为 {form.low} 到 {form.high} 的数字" if form.low else "应为数字",
        "switch": "只有写 true 才算打开",
        "choice": f"应为以下之一：{'、'.join(form.choices)}",
    }.get(form.kind, "该值无法使用")
    return chinese, reason
