"""Names and values of tool arguments: folding (D4, D22), JSON values as text (D39), text as JSON values by schema."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote

from app.protocol.json_text import compact_json, strict_json

V = TypeVar("V")

MAX_SCHEMA_DEPTH = 32
"""How many alternatives and references inside each other are followed in a schema."""

MAX_SCHEMAS = 1000
"""How many schemas are tried for one text."""

MAX_ROOT_PARTS = 100
"""How many schemas are gone through for the names at the root."""

MAX_LIST_ITEMS = 500
"""How many items may stand with commas between them where JSON is wanted."""

MAX_INTEGER_DIGITS = 4000
"""Longer integers stay text; Python refuses to convert them from 4,300 digits on."""

RESERVED_FOLDS = frozenset(("toolname", "archery", "toolpassword"))
"""Folded keys of a marked call that never reach a tool as arguments."""

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_NO_KEY = re.compile(r"[^A-Za-z0-9_-]+")
_PLACES = ("arg", "parameter", "field")
_INTEGER = re.compile(r"[+-]?[0-9]+(?:\.0+)?")
_DIGITS = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_PLACE = re.compile(r"0|[1-9][0-9]{0,8}")
_FENCE = re.compile(r"```[A-Za-z0-9]*")
_IMPLIED = {"object": ("properties", "additionalProperties", "patternProperties"), "array": ("items", "prefixItems")}
_FOLDED_AWAY = str.maketrans("", "", "_-")


class _UnfitError(ValueError):
    """The text is not a value of the schema."""


def fold(name: str) -> str:
    """The form in which names are compared when they are not equal: lower case, without ``_`` and ``-`` (D4)."""
    return name.translate(_FOLDED_AWAY).lower()


def fold_names(arguments: Mapping[str, V], declared: Collection[str]) -> dict[str, V]:
    """Give arguments the names that the tool declares (D4, D22, P88).

    A name that is declared stays. Another one that matches exactly one declared name after folding is renamed to it,
    as is one that a declared name is written with (``spellings``), unless the arguments hold that name already: then it
    is passed as written, like every name without a match. Of two names that fold to the same declared one the later
    wins, as with equal names (spec 4.2).
    """
    exact = dict.fromkeys(declared)
    if all(name in exact for name in arguments):
        return dict(arguments)
    by_fold: dict[str, str | None] = {}
    for name in exact:
        folded = fold(name)
        by_fold[folded] = None if folded in by_fold else name
    for name, key in spellings(exact).items():
        by_fold.setdefault(fold(key), name)
    named: dict[str, V] = {}
    for name, value in arguments.items():
        target = None if name in exact else by_fold.get(fold(name))
        named[name if target is None or target in arguments else target] = value
    return named


def spellings(declared: Iterable[str]) -> dict[str, str]:
    """The keys with which a marked call (spec 4.2) writes those declared names that are no keys themselves (P88).

    ``$filter`` is written ``filter``. A name of which nothing is left, such as a Chinese one, whose rest is another
    name, or that the protocol itself uses, is written by its place, such as ``arg2``. A name for which no key is free
    is left out.
    """
    places = {name: place for place, name in enumerate(dict.fromkeys(declared), 1)}
    strange = [name for name in places if not _KEY.fullmatch(name) or _is_reserved(name)]
    if not strange:
        return {}
    taken = Counter(fold(name) for name in places)
    found: dict[str, str] = {}
    for name in strange:
        bare = _NO_KEY.sub("", name).lstrip("-")
        for key in (bare, *(f"{word}{places[name]}" for word in _PLACES)):
            own = fold(key) == fold(name)  # such as ``-x``, written ``x``: it stands in its own way
            if key and not _is_reserved(key) and taken[fold(key)] <= own:
                found[name] = key
                taken[fold(key)] += 1
                break
    return found


def _is_reserved(name: str) -> bool:
    return name == "__proto__" or fold(name) in RESERVED_FOLDS


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
    local references (``#/$defs/X``) are looked up. Types of a list and alternatives are tried in their order, except
    that ``null`` is null wherever it may be. Lists and objects are JSON, which may stand in a code fence; what is in
    them stays as it was written. Where a list is wanted, a text that is neither JSON nor has a comma or a line break is
    a list of that one item, and so are numbers and truth values with commas between them.
    """
    try:
        return _Conversion(text, root).by(schema, MAX_SCHEMA_DEPTH)
    except _UnfitError:
        return text


def is_unset(text: str, schema: Mapping[str, Any] | bool, root: Mapping[str, Any] | None = None) -> bool:
    """Whether a text is empty and the schema takes no text: models write what they leave open that way (P86)."""
    if text.strip():
        return False
    try:
        _Conversion(text, root).by(schema, MAX_SCHEMA_DEPTH)
    except _UnfitError:
        return True
    return False


def declared_properties(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments that the schema of a command declares: their schemas by name.

    References and ``allOf`` at the root are followed, and alternatives: what any of them names is an argument. The
    first that names one describes it.
    """
    found: dict[str, Any] = {}
    waiting: list[Any] = [parameters]
    for _ in range(MAX_ROOT_PARTS):
        if not waiting:
            break
        schema = waiting.pop(0)
        if not isinstance(schema, Mapping):
            continue
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            for name, one in properties.items():
                found.setdefault(name, one)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            waiting.append(resolve(reference, parameters))
        for keyword in ("allOf", "anyOf", "oneOf"):
            parts = schema.get(keyword)
            waiting.extend(parts if isinstance(parts, list) else ())
    return found


def resolve(reference: str, root: Mapping[str, Any] | None) -> Any:
    """What a local reference leads to in ``root``; True, the schema of anything, where it leads nowhere."""
    if not reference.startswith("#"):
        return True
    found: Any = root
    for step in reference[1:].split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, list) and _PLACE.fullmatch(name) and int(name) < len(found):
            found = found[int(name)]
        else:
            return True
    return True if found is None or (reference != "#" and "/" not in reference) else found


class _Conversion:
    """The conversion of one text; JSON is parsed once, and only so many schemas are tried."""

    def __init__(self, text: str, root: Mapping[str, Any] | None) -> None:
        self._text = text
        self._bare = text.strip()
        self._root = root
        self._left = MAX_SCHEMAS
        self._parsed: list[Any] = []
        self._unparsed = False

    def by(self, schema: Any, depth: int) -> Any:
        """The value under ``schema``; raises _UnfitError."""
        self._left -= 1
        if not isinstance(schema, Mapping) or depth == 0 or self._left < 0:
            return self._text
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self.by(resolve(reference, self._root), depth - 1)
        if "const" in schema:
            return self._among([schema["const"]])
        choices = schema.get("enum")
        names = _types(schema)
        if isinstance(choices, list):
            try:
                return self._among(choices)
            except _UnfitError:
                names = [name for name in names if name != "string"]
                if not names:
                    raise
        if names:
            return self._first(names, lambda name: self._typed(name, schema, depth))
        for keyword in ("anyOf", "oneOf"):
            parts = schema.get(keyword)
            if isinstance(parts, list) and parts:
                if self._bare == "null" and any(takes_null(part, self._root) for part in parts):
                    return None
                return self._first(parts, lambda part: self.by(part, depth - 1))
        parts = schema.get("allOf")
        for part in parts if isinstance(parts, list) else ():
            value = self.by(part, depth - 1)
            if value is not self._text:
                return value
        return self._text

    def _first(self, parts: Iterable[Any], convert: Callable[[Any], Any]) -> Any:
        for part in parts:
            try:
                return convert(part)
            except _UnfitError:
                continue
        raise _UnfitError

    def _among(self, choices: list[Any]) -> Any:
        for text in (self._text, self._bare):
            if text in choices:
                return text
        for choice in choices:
            if not isinstance(choice, str) and self._bare == ("null" if choice is None else to_text(choice)):
                return choice
        raise _UnfitError

    def _typed(self, name: object, schema: Mapping[str, Any], depth: int) -> Any:
        bare = self._bare
        if name == "string":
            return self._text
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
            return _number(bare)
        elif name == "array":
            return self._array(schema, depth)
        elif name == "object":
            value = self._json()
            if isinstance(value, dict):
                return value
        raise _UnfitError

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        try:
            value = self._json()
        except _UnfitError:
            value = None
        if isinstance(value, list):
            return value
        items = schema.get("items")
        if not self._bare or self._bare[0] in "[{`" or not isinstance(items, Mapping):
            raise _UnfitError
        if "\n" in self._bare or self._bare.count(",") >= MAX_LIST_ITEMS:
            raise _UnfitError
        parts = self._bare.split(",")
        found: list[Any] = []
        for part in parts:
            item = _Conversion(part, self._root)
            item._left = min(self._left, MAX_SCHEMAS // len(parts))
            value = item.by(items, depth - 1)
            if isinstance(value, str):
                if len(parts) > 1:  # a comma may be part of a text
                    raise _UnfitError
                value = value.strip()
            found.append(value)
        return found

    def _json(self) -> Any:
        if not self._parsed and not self._unparsed:
            try:
                self._parsed.append(strict_json(_unfenced(self._bare)))
            except (ValueError, RecursionError):  # RecursionError: brackets nested too deep to be a sane argument
                self._unparsed = True
        if self._unparsed:
            raise _UnfitError
        return self._parsed[0]


def takes_null(schema: Any, root: Mapping[str, Any] | None = None) -> bool:
    """Whether a schema names null among what it takes, looking through references and alternatives a few deep."""
    waiting: list[Any] = [schema]
    for _ in range(MAX_ROOT_PARTS):
        if not waiting:
            break
        one = waiting.pop(0)
        if not isinstance(one, Mapping):
            continue
        kinds, choices = one.get("type"), one.get("enum")
        if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
            return True
        if (isinstance(choices, list) and None in choices) or one.get("const", 0) is None:
            return True
        if isinstance(one.get("$ref"), str):
            waiting.append(resolve(one["$ref"], root))
        for keyword in ("anyOf", "oneOf"):
            parts = one.get(keyword)
            waiting.extend(parts if isinstance(parts, list) else ())
    return False


def _types(schema: Mapping[str, Any]) -> list[Any]:
    """The types that a schema names, null first, as its word is no text; else the type that its keywords are about."""
    types = schema.get("type")
    if isinstance(types, str):
        return [types]
    if isinstance(types, list):
        return sorted(types, key=lambda name: name != "null")
    if any(keyword in schema for keyword in ("anyOf", "oneOf", "allOf", "enum")):
        return []
    for name, keywords in _IMPLIED.items():
        if any(keyword in schema for keyword in keywords):
            return [name]
    return []


def _unfenced(bare: str) -> str:
    """What stands in the code fence around a text; the text itself without one."""
    opening, _, rest = bare.partition("\n")
    if not opening.startswith("```") or not rest.endswith("```") or not _FENCE.fullmatch(opening.rstrip()):
        return bare
    return rest[:-3]


def _number(bare: str) -> int | float:
    if len(bare) > MAX_INTEGER_DIGITS or not _NUMBER.fullmatch(bare):
        raise _UnfitError
    if _DIGITS.fullmatch(bare):
        return int(bare)
    value = float(bare)
    if not math.isfinite(value):
        raise _UnfitError
    return value
