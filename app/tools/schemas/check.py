"""Whether a value fits a JSON Schema, in bounded time, whoever wrote the two (D71, MCP-22, MCP-23, MCP-55, P86, P87).

The whole of draft 2020-12 is understood, and the older drafts where ``$schema`` names them. The library does the work;
around it stand limits for what can be made slow: see ``document``, ``effort`` and ``keywords``.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache

import jsonschema_rs
import orjson

from app.errors import both
from app.extend import Json
from app.tools.schemas.document import Node, SchemaDocument, SchemaError, read_schema
from app.tools.schemas.effort import Size, TooCostlyError, explaining, steps
from app.tools.schemas.graph import SchemaGraph
from app.tools.schemas.keywords import ENUM, PATTERN, BoundedKeywords, Pattern, PatternError
from app.tools.schemas.reasons import SchemaFault, first_fault, shown, shown_path

__all__ = ["SchemaCheck", "SchemaError", "SchemaFault", "check_of"]

FORMATS = frozenset(("date", "date-time", "email", "ipv4", "ipv6", "time", "uri", "uuid"))
"""Formats that are checked; others are hints, as the standard has it."""

KEPT_CHECKS = 512

EXPLAINED = 10_000_000
"""Characters that may be copied while a fault is explained; the library copies the value for each of its errors."""

MANY_CHOICES = 64
"""From so many on choices are compared by our own keyword, which looks them up."""

MOMENT_CHARS = 64
COMPLAINT_CHARS = 300
MASK = "…"
"""What stands for the value in messages of the library, which would hold it whole."""

LONG_NUMBER_A_STEP = 80
"""Dividing a number of so many digits, squared, costs one step."""

_LONG_NUMBER = re.compile(rb"[0-9]{20,}")
_EMAILS = jsonschema_rs.EmailOptions(allow_display_text=False)
_DIALECTS: tuple[tuple[str, type[jsonschema_rs.Validator]], ...] = (
    ("draft-04", jsonschema_rs.Draft4Validator),
    ("draft-06", jsonschema_rs.Draft6Validator),
    ("draft-07", jsonschema_rs.Draft7Validator),
    ("2019-09", jsonschema_rs.Draft201909Validator),
    ("2020-12", jsonschema_rs.Draft202012Validator),
)
_UNNAMED = (jsonschema_rs.Draft202012Validator, jsonschema_rs.Draft7Validator, jsonschema_rs.Draft4Validator)
"""What a schema without ``$schema`` may be: the dialect of MCP, else an older one that it is written in."""

_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


class SchemaCheck:
    """Says whether values fit one schema; it may be used from several threads. Raises SchemaError.

    Never asks the network. A value that is too large for the schema to be checked in bounded time has that as its
    fault.
    """

    def __init__(self, schema: Mapping[str, Json] | bool) -> None:
        document = read_schema(schema)
        self._keywords = BoundedKeywords()
        self._root = document.root
        self._one_by_one = threading.Lock()
        patterns = self._patterns_of_names(document)
        self._graph = SchemaGraph(document, {text: pattern.cost for text, pattern in patterns.items()})
        self._branching = any(keyword in node for node in document.nodes for keyword in ("anyOf", "oneOf"))
        self._put_in(document)
        self._validator = _compiled(document, self._keywords, list(patterns.values()))

    def fault(self, value: Json) -> SchemaFault | None:
        """The first fault of ``value``; None when it fits."""
        with self._one_by_one:
            return self._fault(value)

    def _fault(self, value: Json) -> SchemaFault | None:
        try:
            size = _measured(value)
            cost = steps(self._graph, value, size)
            self._keywords.begin()
            self._keywords.charge(cost.matching)
            fits = not self._keywords.spent and self._validator.is_valid(value)
            if self._keywords.spent:
                return _too_costly()
            return None if fits else self._explained(value)
        except TooCostlyError:
            return _too_costly()
        except (ValueError, TypeError, RecursionError):  # what the library says of values that are no JSON for it
            return SchemaFault(
                "$",
                both(
                    "不是 JSON，或嵌套过深",
                    "it is no JSON, or nested too deeply",
                ),
            )

    def _explained(self, value: Json) -> SchemaFault:
        self._keywords.begin()
        errors: list[jsonschema_rs.ValidationError] = []
        if self._is_explainable(value):
            errors = list(self._validator.iter_errors(value))
        elif not self._branching:
            try:
                self._validator.validate(value)
            except jsonschema_rs.ValidationError as error:
                errors = [error]
        if not errors or self._keywords.spent:
            return SchemaFault(
                shown_path(()),
                both(
                    "不符合 schema；值过大，无法指出位置",
                    "it does not fit the schema, and is too large for a closer look",
                ),
            )
        return first_fault(errors, value, self._root)

    def _is_explainable(self, value: Json) -> bool:
        try:
            return explaining(self._graph, value) <= EXPLAINED
        except TooCostlyError:
            return False

    def _patterns_of_names(self, document: SchemaDocument) -> dict[str, Pattern]:
        """The compiled patterns of ``patternProperties``."""
        found: dict[str, Pattern] = {}
        for node in document.nodes:
            held = node.get("patternProperties")
            for text in held if isinstance(held, dict) else ():
                found[text] = self._pattern(text)
        return found

    def _put_in(self, document: SchemaDocument) -> None:
        """Put our keywords in the place of those that can be made slow, and take out what only hints."""
        for node in document.nodes:
            pattern, choices = node.get("pattern"), node.get("enum")
            if isinstance(pattern, str):
                self._pattern(pattern)
                _replace(node, "pattern", {"anyOf": [{"not": {"type": "string"}}, {PATTERN: pattern}]})
            if isinstance(choices, list) and len(choices) > MANY_CHOICES and all(_is_plain(one) for one in choices):
                _replace(node, "enum", {"allOf": [{"not": {"type": ["array", "object"]}}, {ENUM: choices}]})
            if isinstance(node.get("format"), str) and node["format"] not in FORMATS:
                del node["format"]
            for keyword in ("contentEncoding", "contentMediaType", "contentSchema"):  # old drafts check them
                node.pop(keyword, None)

    def _pattern(self, text: str) -> Pattern:
        try:
            return self._keywords.compile(text)
        except PatternError as error:
            raise SchemaError(
                both(
                    f"schema 的 pattern 有误、过长、过大或过多：{error.text!a}",
                    f"a pattern of the schema is wrong, too long, too large or one too many: {error.text!a}",
                )
            ) from None


def check_of(schema: Mapping[str, Json] | bool) -> SchemaCheck:
    """The check of a schema, kept while it is among those used last; raises SchemaError."""
    try:
        written = orjson.dumps(schema, default=_plain)
    except TypeError:  # integers beyond 64 bits and halves of characters, for instance
        try:
            written = json.dumps(schema, default=_plain).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SchemaError(
                both("schema 不是 JSON，或嵌套过深", "the schema is no JSON, or nested too deeply")
            ) from error
    return _check_of(written)


@lru_cache(maxsize=KEPT_CHECKS)
def _check_of(written: bytes) -> SchemaCheck:
    return SchemaCheck(json.loads(written))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):  # such as one that cannot be changed
        return dict(value)
    raise TypeError


def _compiled(
    document: SchemaDocument, keywords: BoundedKeywords, patterns: Sequence[Pattern]
) -> jsonschema_rs.Validator:
    """The library's validator in the dialect that the schema names, or fits; raises SchemaError."""
    named = [validator for mark, validator in _DIALECTS if mark in document.dialect]
    strongest = max(patterns, key=lambda pattern: pattern.cost, default=None)
    complaint = ""
    for validator in named[:1] or _UNNAMED:
        try:
            return validator(
                document.root,
                validate_formats=True,
                formats={"date-time": _is_moment},
                email_options=_EMAILS,
                keywords=dict(keywords.of_library()),
                pattern_options=strongest.engine if strongest else None,
                mask=MASK,
                offline=True,
            )
        except (ValueError, TypeError, RecursionError) as error:
            complaint = complaint or _complaint(error)
    raise SchemaError(both(f"schema 无效：{complaint}", f"the schema is not valid: {complaint}"))


def _complaint(error: Exception) -> str:
    if not isinstance(error, jsonschema_rs.ValidationError):
        return type(error).__name__
    message = error.message.replace(MASK, shown(error.instance), 1)
    return f"{shown_path(error.instance_path)}: {message}"[:COMPLAINT_CHARS]


def _replace(node: Node, keyword: str, by: Node) -> None:
    del node[keyword]
    held = node.get("allOf")
    node["allOf"] = [*(held if isinstance(held, list) else ()), by]


def _is_plain(value: Json) -> bool:
    return value is None or isinstance(value, str | int | float)


def _is_moment(text: str) -> bool:
    """A date with a time; without a zone too, as most servers take it."""
    if len(text) > MOMENT_CHARS or text[10:11] not in ("T", "t", " "):
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:
        return False
    return True


def _measured(value: Json) -> Size:
    """How large a value is; raises TypeError, ValueError or RecursionError for what is no JSON."""
    long = 0
    try:
        written = orjson.dumps(value, option=_STRICT)
    except TypeError:  # integers beyond 64 bits, for instance
        written = json.dumps(value, allow_nan=False).encode()
        long = sum(len(digits) ** 2 for digits in _LONG_NUMBER.findall(written))
    marks = {mark: written.count(mark) for mark in (b",", b":", b"{", b"[")}
    values = 1 + sum(marks.values()) + long // LONG_NUMBER_A_STEP
    return Size(chars=len(written), values=values, objects=marks[b"{"])


def _too_costly() -> SchemaFault:
    return SchemaFault(
        "$",
        both(
            "值对此 schema 来说过大、过深或过于复杂，无法检查",
            "the value is too large, too deep or too intricate to be checked against its schema",
        ),
    )
