"""Names and values of tool arguments: folding (D4, D22), JSON values as text (D39), text as JSON values by schema."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from app.protocol.json_text import compact_json, strict_json

V = TypeVar("V")

MAX_SCHEMA_DEPTH = 32
"""How many alternatives and references inside each other are followed in a schema."""

MAX_INTEGER_DIGITS = 4000
"""Longer integers stay text; Python refuses to convert them from 4,300 digits on."""

_INTEGER = re.compile(r"[+-]?[0-9]+(?:\.0+)?")
_FOLDED_AWAY = str.maketrans("", "", "_-")


class _UnfitError(ValueError):
    """The text is not a value of the schema."""


def fold(name: str) -> str:
    """The form in which names are compared when they are not equal: lower case, without ``_`` and ``-`` (D4)."""
    return name.translate(_FOLDED_AWAY).lower()


def fold_names(arguments: Mapping[str, V], declared: Collection[str]) -> dict[str, V]:
    """Give arguments the names that the tool declares (D4, D22).

    A name that is declared stays. Another one that matches exactly one declared name after folding is renamed to it,
    unless the arguments hold that name already: then it is passed as written, like every name without a match. Of two
    names that fold to the same declared one the later wins, as with equal names (spec 4.2).
    """
    exact = set(declared)
    by_fold: dict[str, str | None] = {}
    for name in exact:
        folded = fold(name)
        by_fold[folded] = None if folded in by_fold else name
    named: dict[str, V] = {}
    for name, value in arguments.items():
        target = None if name in exact else by_fold.get(fold(name))
        named[name if target is None or target in arguments else target] = value
    return named


def to_text(value: Any) -> str | None:
    """A JSON value as an untyped plugin reads it (D39); None means that the argument is left out.

    Text stays as it is, ``true``/``false``, JSON numbers, compact JSON with non-ASCII kept for lists and objects.
    ValueError for numbers that JSON has no words for.
    """
    if value is None or isinstance(value, str):
        return value
    return compact_json(value, strict=True)


def from_text(text: str, schema: Mapping[str, Any] | bool, root: Mapping[str, Any] | None = None) -> Any:
    """The value that ``text`` stands for under a JSON Schema; the text itself when it does not convert.

    Never raises for bad text: the tool's own validation gives the better message. ``root`` is the document in which
    local references (``#/$defs/X``) are looked up. Types of a list and alternatives are tried in their order.
    """
    try:
        return _convert(text, schema, root, MAX_SCHEMA_DEPTH)
    except _UnfitError:
        return text


def _convert(text: str, schema: Any, root: Mapping[str, Any] | None, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth == 0:
        return text
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _convert(text, _resolve(reference, root), root, depth - 1)
    if "const" in schema:
        return _among(text, [schema["const"]])
    types = schema.get("type")
    names = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    choices = schema.get("enum")
    if isinstance(choices, list) and not names:
        return _among(text, choices)
    for name in names:
        try:
            return _typed(text, name)
        except _UnfitError:
            continue
    if names:
        raise _UnfitError
    for keyword in ("anyOf", "oneOf"):
        alternatives = schema.get(keyword)
        if isinstance(alternatives, list) and alternatives:
            return _first(text, alternatives, root, depth - 1)
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) == 1:  # generators wrap a reference this way to add a description
        return _convert(text, parts[0], root, depth - 1)
    return text


def _first(text: str, alternatives: list[Any], root: Mapping[str, Any] | None, depth: int) -> Any:
    for alternative in alternatives:
        try:
            return _convert(text, alternative, root, depth)
        except _UnfitError:
            continue
    raise _UnfitError


def _among(text: str, choices: list[Any]) -> Any:
    if text in choices:
        return text
    for choice in choices:
        if not isinstance(choice, str) and text.strip() == ("null" if choice is None else to_text(choice)):
            return choice
    raise _UnfitError


def _resolve(reference: str, root: Mapping[str, Any] | None) -> Any:
    if not reference.startswith("#/"):
        return True
    found: Any = root
    for step in reference[2:].split("/"):
        if not isinstance(found, Mapping):
            return True
        found = found.get(step.replace("~1", "/").replace("~0", "~"))
    return found


def _typed(text: str, name: object) -> Any:
    bare = text.strip()
    if name == "string":
        return text
    if name == "boolean":
        lowered = bare.lower()  # models write True as often as true
        if lowered in ("true", "false"):
            return lowered == "true"
    elif name == "null":
        if bare == "null":
            return None
    elif name == "integer":
        if _INTEGER.fullmatch(bare) and len(bare) <= MAX_INTEGER_DIGITS:
            return int(bare.partition(".")[0])
    elif name == "number":
        value = _json(bare)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return value
    elif name == "array":
        value = _json(bare)
        if isinstance(value, list):
            return value
    elif name == "object":
        value = _json(bare)
        if isinstance(value, dict):
            return value
    raise _UnfitError


def _json(text: str) -> Any:
    try:
        return strict_json(text)
    except (ValueError, RecursionError) as error:  # RecursionError: brackets nested too deep to be a sane argument
        raise _UnfitError from error
