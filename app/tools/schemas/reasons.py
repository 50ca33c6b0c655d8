"""What is wrong with a value, in words that a model can act on: where, what was expected, what came."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from app.errors import both
from app.tools.schemas.document import Node
from app.tools.schemas.keywords import ENUM, PATTERN

VALUE_CHARS = 80
"""How much of a value is shown."""

NAME_CHARS = 60
PATH_CHARS = 200
LISTED = 20
"""How many names or choices are listed."""

ORDERED = 1000
"""The order of the members counts in objects of so many at most."""

LIST_CHARS = 400
REASON_CHARS = 1000

_Error = jsonschema_rs.ValidationError
_Says = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """The first fault of a value: where (like ``$.a[0].b``), and what it is, in one line.

    The reason shows the beginning of the value, so it is for whoever sent that value, and not for logs.
    """

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def first_fault(errors: Sequence[_Error], value: Any, root: Node) -> SchemaFault:
    """The fault that stands first in ``value``; ``errors`` are all, or at least one, of those the library found.

    Missing and unknown names of one object are told together, as they often are one mistake.
    """
    path, says = _explained(errors, value, root)
    return SchemaFault(shown_path(path, value), _line(both(*says)))


def shown_path(path: Sequence[str | int], value: Any = None) -> str:
    """A place in ``value``, ``$`` for the whole."""
    text = "$"
    for step in _steps(path, value):
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{_cut(step, NAME_CHARS)}"
        else:
            text += f"[{_quoted(step, NAME_CHARS)}]"
        if len(text) > PATH_CHARS:
            return text[:PATH_CHARS] + "…"
    return text


def _explained(errors: Sequence[_Error], value: Any, root: Node) -> tuple[Sequence[str | int], _Says]:
    """The place of the first of ``errors`` and what is wrong there."""
    places = {id(error): _place(error.instance_path, value) for error in errors}
    first = min(errors, key=lambda error: places[id(error)])
    here = [error for error in errors if error.instance_path == first.instance_path]
    names = _names(here, value, root)
    if names is not None:
        return first.instance_path, names
    if first.kind.name in ("anyOf", "oneOf"):
        return _alternatives(first, value, root)
    return first.instance_path, _reason(first, root)


def _steps(path: Sequence[str | int], value: Any) -> list[str | int]:
    """The path with its names as text: the library makes numbers of names that look like one."""
    steps: list[str | int] = []
    for step in path:
        if isinstance(value, dict):
            step = str(step)
            value = value.get(step)
        else:
            value = value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None
        steps.append(step)
    return steps


def _place(path: Sequence[str | int], value: Any) -> tuple[int, ...]:
    """Where ``path`` leads in ``value``, as numbers that are in the order of the text."""
    places: list[int] = []
    for step in _steps(path, value):
        if isinstance(value, dict):
            places.append(list(value).index(step) if step in value and len(value) <= ORDERED else 0)
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            places.append(step)
            value = value[step] if step < len(value) else None
    return tuple(places)


# ---------------------------------------------------------------------- names of members


def _names(errors: Sequence[_Error], value: Any, root: Node) -> _Says | None:
    chinese: list[str] = []
    english: list[str] = []
    missing = [error.kind.as_dict()["property"] for error in errors if error.kind.name == "required"]
    if missing:
        names = _listed(missing)
        chinese.append(f"缺少必需的 {names}")
        english.append(f"required but missing: {names}")
    for error in errors:
        extra = _unknown(error, value, root)
        if extra is None:
            continue
        unknown = _listed(extra)
        known = _listed(list(_node(error, root).get("properties") or ()))
        chinese.append(f"未知的 {unknown}" + (f"，可用的是 {known}" if known else "，这里不接受任何成员"))
        english.append(f"unknown: {unknown}; " + (f"known are {known}" if known else "nothing is taken here"))
        break
    return ("；".join(chinese), "; ".join(english)) if chinese else None


def _unknown(error: _Error, value: Any, root: Node) -> list[str] | None:
    """The names that a closed object does not know; None for other errors."""
    if error.kind.name in ("additionalProperties", "unevaluatedProperties"):
        names: list[str] = error.kind.as_dict()["unexpected"]
        return names
    closed = error.kind.name == "falseSchema" and error.schema_path[-1:] == ["additionalProperties"]
    if closed and _node(error, root).get("additionalProperties") is False:  # an object that may hold nothing at all
        found = value
        for step in _steps(error.instance_path, value):
            found = found[step]
        return list(found)
    return None


# ---------------------------------------------------------------------- alternatives


def _alternatives(error: _Error, value: Any, root: Node) -> tuple[Sequence[str | int], _Says]:
    """Of alternatives the one that was meant says what is wrong; where that is open, what all of them want."""
    branches: list[list[_Error]] = error.kind.as_dict()["context"]
    pattern = _pattern(error, branches, root)
    if pattern is not None:
        return error.instance_path, pattern
    if error.kind.name == "oneOf" and any(not branch for branch in branches):
        fitting = sum(not branch for branch in branches)
        return error.instance_path, (
            f"{fitting} 个备选同时符合，只能符合一个",
            f"it fits {fitting} of the alternatives and must fit one only",
        )
    depth = len(error.instance_path)
    meant = [branch for branch in branches if branch and not any(_is_other(one, depth) for one in branch)]
    meant = [branch for branch in meant if not any(_is_other(one, depth + 1) for one in branch)] or meant
    if meant:
        nearest = min(meant, key=len)
        path, says = _explained(nearest, value, root)
        if len(meant) == 1:
            return path, says
        where = shown_path(path, value)
        return error.instance_path, (
            f"不符合 {len(branches)} 个备选中的任何一个；最接近的：{where}：{says[0]}",
            f"it fits none of {len(branches)} alternatives; the nearest: {where}: {says[1]}",
        )
    wanted: dict[str, None] = {}
    for branch in branches:
        for one in branch:
            if len(one.instance_path) == depth:
                wanted.update(dict.fromkeys(_wanted(one)))
    if wanted:
        return error.instance_path, _expected(" | ".join(_few(list(wanted))), error)
    return error.instance_path, (
        f"不符合 {len(branches)} 个备选中的任何一个",
        f"it fits none of {len(branches)} alternatives",
    )


def _is_other(error: _Error, depth: int) -> bool:
    """Whether an error says that the value is of another kind than its alternative."""
    return len(error.instance_path) == depth and bool(_wanted(error))


def _wanted(error: _Error) -> list[str]:
    kind = error.kind.as_dict()
    if error.kind.name == "type":
        return sorted(kind["types"])
    if error.kind.name == "enum":
        return [shown(choice) for choice in kind["options"][:LISTED]]
    if error.kind.name == "const":
        return [shown(kind["expected_value"])]
    return []


def _pattern(error: _Error, branches: Sequence[Sequence[_Error]], root: Node) -> _Says | None:
    """The reason when the alternatives are ours: no text, or one that fits a pattern."""
    if len(branches) != 2 or not any(one.kind.name == PATTERN for one in branches[1]):
        return None
    guards = _node(error, root).get("anyOf")
    text = guards[1].get(PATTERN) if isinstance(guards, list) and len(guards) == 2 else ""
    said = _quoted(text if isinstance(text, str) else "", VALUE_CHARS)
    value = shown(error.instance)
    return f"{value} 不符合正则表达式 {said}", f"{value} does not match the pattern {said}"


# ---------------------------------------------------------------------- one keyword each


def _reason(error: _Error, root: Node) -> _Says:
    kind = error.kind.as_dict()
    name = error.kind.name
    wanted = _wanted(error)
    if wanted:
        return _expected(" | ".join(_few(wanted)), error)
    if name == ENUM:
        choices = _node(error, root).get(ENUM)
        return _expected(" | ".join(_few([shown(one) for one in choices or ()])), error)
    if name in _LIMITS:
        chinese, english = _LIMITS[name]
        limit, value = shown(kind["limit"]), shown(error.instance)
        return f"{value}：{chinese}{limit}", f"{value}: {english} {limit}"
    if name == "multipleOf":
        factor, value = shown(kind["multiple_of"]), shown(error.instance)
        return f"{value} 不是 {factor} 的倍数", f"{value} is not a multiple of {factor}"
    if name == "format":
        return _expected(f'format "{kind["format"]}"', error)
    if name == "propertyNames":
        says = _reason(kind["error"], root)
        return f"键名不合要求：{says[0]}", f"a name does not fit: {says[1]}"
    chinese, english = _OTHERS.get(name, (f"不符合 {name}", f"it does not fit {name}"))
    return chinese, english


def _expected(what: str, error: _Error) -> _Says:
    value = shown(error.instance)
    return f"应为 {what}，得到 {value}", f"expected {what}, got {value}"


_LIMITS: Mapping[str, _Says] = {
    "minimum": ("最小为 ", "the minimum is"),
    "maximum": ("最大为 ", "the maximum is"),
    "exclusiveMinimum": ("必须大于 ", "it must be greater than"),
    "exclusiveMaximum": ("必须小于 ", "it must be less than"),
    "minLength": ("最少字符数为 ", "the least number of characters is"),
    "maxLength": ("最多字符数为 ", "the greatest number of characters is"),
    "minItems": ("最少项数为 ", "the least number of items is"),
    "maxItems": ("最多项数为 ", "the greatest number of items is"),
    "additionalItems": ("最多项数为 ", "the greatest number of items is"),
    "minProperties": ("最少成员数为 ", "the least number of members is"),
    "maxProperties": ("最多成员数为 ", "the greatest number of members is"),
}

_OTHERS: Mapping[str, _Says] = {
    "uniqueItems": ("数组中有重复的项", "the items of the array must be different"),
    "contains": ("数组中符合要求的项数不对", "the array holds too few or too many of the items that are asked for"),
    "not": ("这里不允许这样的值", "such a value is not allowed here"),
    "falseSchema": ("这里不允许有值", "no value is allowed here"),
    "unevaluatedItems": ("数组中有多余的项", "the array has too many items"),
}


# ---------------------------------------------------------------------- values as short texts


def shown(value: Any) -> str:
    """A value as JSON, cut; lists and objects with more than a few characters by their size."""
    if isinstance(value, str):
        return _quoted(value, VALUE_CHARS)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "…"  # Python refuses to write the longest ones
    if isinstance(value, list | dict):
        return _container(value)
    return json.dumps(value)


def _container(value: list[Any] | dict[str, Any]) -> str:
    kind = "array" if isinstance(value, list) else "object"
    parts = list(value.values()) if isinstance(value, dict) else value
    if len(parts) <= 5 and not any(isinstance(part, list | dict) for part in parts):
        if isinstance(value, dict):
            text = ",".join(f"{_quoted(name, 20)}:{shown(one)}" for name, one in value.items())
        else:
            text = ",".join(map(shown, value))
        if len(text) <= VALUE_CHARS:
            return f"[{text}]" if isinstance(value, list) else f"{{{text}}}"
    return f"{kind} ({len(value)})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(_few([_quoted(name, NAME_CHARS) for name in names[: LISTED + 1]]))


def _few(texts: Sequence[str]) -> list[str]:
    """The texts up to a number and a length, with a mark where some are left out."""
    kept: list[str] = []
    chars = 0
    for text in texts:
        chars += len(text)
        if len(kept) == LISTED or (kept and chars > LIST_CHARS):
            return [*kept, "…"]
        kept.append(text)
    return kept


def _quoted(text: str, limit: int) -> str:
    return json.dumps(_cut(text, limit), ensure_ascii=False)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


def _line(text: str) -> str:
    flat = "".join(mark if mark.isprintable() else " " for mark in text)
    return flat if len(flat) <= REASON_CHARS else flat[:REASON_CHARS] + "…"


def _node(error: _Error, root: Node) -> Node:
    """The schema whose keyword found the error."""
    found: Any = root
    for step in error.schema_path[:-1]:
        try:
            found = found[step]
        except (KeyError, IndexError, TypeError):
            return {}
    return found if isinstance(found, dict) else {}
