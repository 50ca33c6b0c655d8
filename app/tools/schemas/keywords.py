"""The keywords of JSON Schema that can be made slow, in bounded time: ``pattern`` and ``enum``.

A pattern of the linear engine may cost ten microseconds for each character, and a list of choices is gone through for
each item of an array. The library lets others bring keywords: these take the place of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jsonschema_rs

from app.extend import Json

PATTERN = "x-pattern"
ENUM = "x-enum"
"""The names of our keywords."""

PATTERN_CHARS = 1000
"""Longest pattern."""

MAX_PATTERNS = 200
"""Patterns of one schema."""

EFFORT = 320_000
"""What the patterns of one check may cost; the smallest kind of pattern costs 1 for each character."""

_ENGINES: tuple[tuple[int, jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions], ...] = (
    (1, jsonschema_rs.RegexOptions(size_limit=4 * 1024, dfa_size_limit=1024 * 1024)),
    (4, jsonschema_rs.RegexOptions(size_limit=16 * 1024, dfa_size_limit=1024 * 1024)),
    (16, jsonschema_rs.RegexOptions(size_limit=64 * 1024, dfa_size_limit=1024 * 1024)),
    (160, jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=64 * 1024, dfa_size_limit=1024 * 1024)),
)
"""Costs of a character and the engines, the cheapest first; the last one knows lookaround and back-references."""


class PatternError(ValueError):
    """A pattern is none, or cannot be checked in bounded time; ``text`` is its beginning."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text[:100]


class Validator(Protocol):
    """What is used of the library's validators."""

    def is_valid(self, instance: Any) -> bool: ...


@dataclass(frozen=True, slots=True)
class Pattern:
    """One compiled pattern; ``cost`` is that of a character."""

    cost: int
    engine: jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions
    validator: Validator

    @classmethod
    def made(cls, text: str) -> Pattern | None:
        """The pattern in the cheapest engine that takes it; None when none does."""
        for cost, engine in _ENGINES:
            try:
                compiled = jsonschema_rs.Draft202012Validator({"pattern": text}, pattern_options=engine)
            except ValueError:  # the library's error is one
                continue
            return cls(cost, engine, compiled)
        return None


class BoundedKeywords:
    """Our keywords for the validator of one schema, and what they may still cost in the check that runs.

    ``spent`` is true when a check was cut short: then its verdict says nothing.
    """

    def __init__(self) -> None:
        self._left = EFFORT
        self._patterns: dict[str, Pattern] = {}

    def begin(self) -> None:
        """A new check begins."""
        self._left = EFFORT

    def charge(self, cost: int) -> None:
        """Something else of the check costs as much."""
        self._left -= cost

    @property
    def spent(self) -> bool:
        """Whether the check that ran was cut short."""
        return self._left < 0

    def compile(self, text: str) -> Pattern:
        """Compile a pattern that the schema holds; raises PatternError."""
        held = self._patterns.get(text)
        if held is not None:
            return held
        made = Pattern.made(text) if len(text) <= PATTERN_CHARS and len(self._patterns) < MAX_PATTERNS else None
        if made is None:
            raise PatternError(text)
        self._patterns[text] = made
        return made

    def of_library(self) -> Mapping[str, type]:
        """The keywords in the form in which the library takes them."""
        keywords = self

        class PatternKeyword:
            def __init__(self, _parent: object, value: str, _path: object) -> None:
                self._pattern = keywords.compile(value)

            def validate(self, instance: Json) -> None:
                if isinstance(instance, str):
                    keywords._match(self._pattern, instance)

        class EnumKeyword:
            def __init__(self, _parent: object, value: list[Json], _path: object) -> None:
                self._choices = frozenset(_by_value(choice) for choice in value)

            def validate(self, instance: Json) -> None:
                if _by_value(instance) not in self._choices:
                    raise ValueError("it is none of the values of enum")

        return {PATTERN: PatternKeyword, ENUM: EnumKeyword}

    def _match(self, pattern: Pattern, text: str) -> None:
        self._left -= pattern.cost * (len(text) + 1)
        if self._left < 0:
            raise ValueError("it is too long to be compared with a pattern")
        if not pattern.validator.is_valid(text):
            raise ValueError("it does not match the pattern")


def _by_value(value: Json) -> object:
    """A key that is equal for values that JSON takes for equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, bool) or value is None:
        return (value is None, value)
    if isinstance(value, Mapping):
        return frozenset((name, _by_value(one)) for name, one in value.items())
    if isinstance(value, list):
        return ("list", *(_by_value(one) for one in value))
    return value
