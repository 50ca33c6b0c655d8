"""Checks the arguments of a tool client's calls against its schema (WS-8), in bounded time.

The library does the work; patterns and ``enum`` are ours, because both can be made slow: a pattern of the linear engine
may cost ten microseconds for each character, and a list of choices is gone through for each item of an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from app.errors import both
from app.extend import Json
from app.protocol.tool_socket import ErrorCode, ToolSocketError

PATTERN_CHARS = 1000
"""Longest pattern."""

MAX_PATTERNS = 200
"""Patterns of one schema."""

EFFORT = 320_000
"""What the patterns of one check may cost; the smallest kind of pattern costs 1 for each character."""

REASON_CHARS = 300

_OURS = {"pattern": "x-pattern", "enum": "x-enum"}

_EMAILS = jsonschema_rs.EmailOptions(allow_display_text=False)

_ENGINES: tuple[tuple[int, jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions], ...] = (
    (1, jsonschema_rs.RegexOptions(size_limit=4 * 1024, dfa_size_limit=1024 * 1024)),
    (4, jsonschema_rs.RegexOptions(size_limit=16 * 1024, dfa_size_limit=1024 * 1024)),
    (16, jsonschema_rs.RegexOptions(size_limit=64 * 1024, dfa_size_limit=1024 * 1024)),
    (160, jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=64 * 1024, dfa_size_limit=1024 * 1024)),
)
"""Costs of a character and the engines, the cheapest first; the last one knows lookaround and back-references."""


class ArgumentCheck:
    """Says whether arguments fit one schema. ``schema`` is what ``checked_schema`` made.

    Raises ToolSocketError (INVALID_SCHEMA) for patterns that are none, or too large to be checked in bounded time.
    """

    def __init__(self, schema: Mapping[str, Json]) -> None:
        check = self
        self._left = 0
        self._patterns: dict[str, _Pattern] = {}

        class Pattern:
            def __init__(self, _parent: object, value: str, _path: object) -> None:
                self._pattern = check._patterns[value]

            def validate(self, instance: Json) -> None:
                if isinstance(instance, str):
                    check._match(self._pattern, instance)

        class Choices:
            def __init__(self, _parent: object, value: list[Json], _path: object) -> None:
                self._choices = frozenset(_by_value(choice) for choice in value)

            def validate(self, instance: Json) -> None:
                if _by_value(instance) not in self._choices:
                    raise ValueError("it is none of the values of enum")

        self._validator = jsonschema_rs.Draft202012Validator(
            self._renamed(schema),
            validate_formats=True,
            email_options=_EMAILS,
            keywords={"x-pattern": Pattern, "x-enum": Choices},
            offline=True,
        )

    def fault(self, arguments: Mapping[str, Json]) -> str | None:
        """Where the first fault of ``arguments`` is and what it is, for people; None when they fit."""
        self._left = EFFORT
        try:
            self._validator.validate(arguments)
        except jsonschema_rs.ValidationError as error:
            steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
            where, reason = f"args{steps}"[:REASON_CHARS], error.message
        except (ValueError, RecursionError):
            where, reason = "args", "nested too deeply"
        else:
            return None
        reason = reason[:REASON_CHARS]
        return both(
            f"参数不符合 schema：{where}：{reason}", f"the arguments do not fit the schema at {where}: {reason}"
        )

    def _renamed(self, schema: Mapping[str, Json]) -> dict[str, Any]:
        """The schema with our keywords in place of those of the library; compiles its patterns."""
        plain = {_OURS.get(keyword, keyword): value for keyword, value in schema.items()}
        if "pattern" in schema:
            self._compile(schema["pattern"])
        if "properties" in plain:
            plain["properties"] = {name: self._renamed(node) for name, node in plain["properties"].items()}
        if "items" in plain:
            plain["items"] = self._renamed(plain["items"])
        return plain

    def _compile(self, text: str) -> None:
        if text in self._patterns:
            return
        pattern = _Pattern.made(text) if len(text) <= PATTERN_CHARS and len(self._patterns) < MAX_PATTERNS else None
        if pattern is None:
            raise ToolSocketError(
                ErrorCode.INVALID_SCHEMA,
                both(
                    f"schema 的 pattern 有误、过长、过大或过多：{text[:100]!r}",
                    f"a pattern of the schema is wrong, too long, too large or one too many: {text[:100]!r}",
                ),
            )
        self._patterns[text] = pattern

    def _match(self, pattern: _Pattern, text: str) -> None:
        self._left -= pattern.cost * (len(text) + 1)
        if self._left < 0:
            raise ValueError("it is too long to be compared with a pattern")
        if not pattern.validator.is_valid(text):
            raise ValueError("it does not match the pattern")


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One compiled pattern; ``cost`` is that of a character."""

    cost: int
    validator: jsonschema_rs.Draft202012Validator

    @classmethod
    def made(cls, text: str) -> _Pattern | None:
        """The pattern in the cheapest engine that takes it; None when none does."""
        for cost, engine in _ENGINES:
            try:
                return cls(cost, jsonschema_rs.Draft202012Validator({"pattern": text}, pattern_options=engine))
            except ValueError:  # the library's error is one
                continue
        return None


def _by_value(value: Json) -> object:
    """A key that is equal for values that JSON takes for equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, bool) or value is None:
        return (value is None, value)
    if isinstance(value, Mapping):
        return frozenset((name, _by_value(one)) for name, one in value.items())
    if isinstance(value, list):
        return ("list", *(_by_value(one) for one in value))
    return value
