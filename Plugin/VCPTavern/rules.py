"""Presets as they are read: rules of three types, and an order (memory.md 6.5; D77)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.protocol.truth import truth

RULES_LIMIT = 2_000
"""Rules of a preset that are read."""

PLACEHOLDERS_LIMIT = 200

ROLES = frozenset({"system", "developer", "user", "assistant"})

Kind = Literal["relative", "depth", "embed"]
Position = Literal["before", "after"]
Target = Literal["system", "last_user", "first_user", "all_user"]

_TARGETS: Mapping[str, Target] = {
    "system": "system",
    "last_user": "last_user",
    "first_user": "first_user",
    "all_user": "all_user",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``content`` is a text or content parts; ``role`` is that of an inserted message."""

    kind: Kind
    position: Position
    target: Target
    depth: int
    role: str
    content: str | list[Any]


@dataclass(frozen=True, slots=True)
class Preset:
    """``as_listed``: rules for the same place come in the order of the list, else as in the reference (D77)."""

    rules: tuple[Rule, ...]
    as_listed: bool = False
    allowed: frozenset[str] = frozenset()


def read_preset(value: object, complain: Callable[[str], None]) -> Preset:
    """The usable rules of a preset file's content; what cannot be used of it is told and left out.

    Raises ValueError for what is no preset at all.
    """
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    listed = value.get("rules", [])
    if not isinstance(listed, list):
        raise ValueError("rules is no list")
    if len(listed) > RULES_LIMIT:
        complain(f"only the first {RULES_LIMIT} of {len(listed)} rules are used")
    rules: list[Rule] = []
    faulty = 0
    for one in listed[:RULES_LIMIT]:
        try:
            rule = _rule(one)
        except ValueError as fault:
            faulty += 1
            if faulty == 1:
                complain(f"a rule is left out: {fault}")
            continue
        if rule is not None:
            rules.append(rule)
    if faulty > 1:
        complain(f"{faulty} rules are left out")
    return Preset(tuple(rules), value.get("order") == "list", _allowed(value.get("placeholderAllowlist")))


def _rule(value: object) -> Rule | None:
    """The rule; None when it is switched off or can never act. Raises ValueError for what is none."""
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    if not truth(value.get("enabled")):
        return None
    kind = value.get("type")
    role, content = _content(value.get("content"))
    if kind == "depth":
        depth = _depth(value.get("depth"))
        return Rule("depth", "before", "system", depth, role, content) if depth > 0 else None
    target = _TARGETS.get(str(value.get("target")))
    if target is None:
        raise ValueError(f"its target is {str(value.get('target'))[:40]!r}")
    position: Position = "before" if value.get("position") == "before" else "after"
    if kind == "embed":
        if not isinstance(content, str):
            raise ValueError("what is embedded must be text")
        return Rule("embed", position, target, 0, role, content)
    if kind != "relative":
        raise ValueError(f"its type is {str(kind)[:40]!r}")
    return Rule("relative", position, target, 0, role, content)


def _content(value: object) -> tuple[str, str | list[Any]]:
    """Role and content; a text alone is a system message."""
    if isinstance(value, str):
        return "system", value
    if not isinstance(value, dict):
        raise ValueError("it has no content")
    role, content = value.get("role", "system"), value.get("content")
    if not isinstance(role, str) or role not in ROLES:
        raise ValueError(f"its role is {str(role)[:40]!r}")
    if isinstance(content, list) and content and all(_is_part(part) for part in content):
        return role, content
    if not isinstance(content, str):
        raise ValueError("its content is no text")
    return role, content


def _is_part(part: object) -> bool:
    if not isinstance(part, dict):
        return False
    return isinstance(part.get("type"), str) and (part["type"] != "text" or isinstance(part.get("text"), str))


def _depth(value: object) -> int:
    """A depth written as a number or as text; 0, which is ignored, for everything else."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9 or value != int(value):
        return 0
    return int(value)


def _allowed(value: object) -> frozenset[str]:
    """Names of placeholders, with or without braces."""
    listed: Sequence[object] = value if isinstance(value, list) else ()
    names = (name.strip().removeprefix("{{").removesuffix("}}").strip() for name in listed if isinstance(name, str))
    return frozenset(name for name in list(names)[:PLACEHOLDERS_LIMIT] if name)
