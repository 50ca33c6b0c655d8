"""Forms of the Model Context Protocol: a flat JSON Schema that a person fills in (MCP-30; D75).

Only what such a form may have is read: texts, numbers, integers, yes or no, a choice, several choices, defaults.
Nothing nested, no references, no patterns, so checking an answer takes no time, whoever wrote the schema.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

MAX_FIELDS = 64
MAX_NAME_CHARS = 128
MAX_TEXT_CHARS = 2_000
"""Of a field's title and its description, as they are shown."""

MAX_CHOICES = 500
MAX_CHOICE_CHARS = 1_000
MAX_VALUE_CHARS = 100_000
"""Of one text that a person gives."""

KINDS = ("string", "number", "integer", "boolean")


@dataclass(frozen=True, slots=True)
class FormField:
    """One question of a form.

    ``kind`` is one of ``KINDS`` or ``array`` (several of ``choices``). ``choices`` are values with what people read for
    them. ``default`` is None where there is none. ``least`` and ``most`` limit a number, a text's characters, or how
    many are chosen.
    """

    name: str
    kind: str
    title: str = ""
    description: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[tuple[str, str], ...] = ()
    least: float | None = None
    most: float | None = None
    format: str = ""

    def fault(self, value: Any) -> str:
        """Why the value is no answer to this question; empty when it is one."""
        if self.kind == "boolean":
            return "" if isinstance(value, bool) else "true or false is expected"
        if self.kind in ("number", "integer"):
            return self._number_fault(value)
        if self.kind == "array":
            return self._array_fault(value)
        return self._text_fault(value)

    def parsed(self, text: str) -> Any:
        """What a person wrote on a terminal as a value of this kind; raises ValueError when it is none."""
        word = text.strip()
        if self.kind == "boolean":
            if word.lower() in ("y", "yes", "true", "1", "是"):
                return True
            if word.lower() in ("n", "no", "false", "0", "否"):
                return False
            raise ValueError("yes or no is expected")
        if self.kind == "integer":
            return int(word)
        if self.kind == "number":
            return float(word)
        if self.kind == "array":
            return [self._chosen(one.strip()) for one in word.split(",") if one.strip()]
        return self._chosen(word) if self.choices else text

    def _chosen(self, word: str) -> str:
        """A choice by its value, by what people read for it, or by its number in the list."""
        for value, shown in self.choices:
            if word in (value, shown):
                return value
        if word.isdecimal() and word.isascii() and len(word) < 6 and 0 < int(word) <= len(self.choices):
            return self.choices[int(word) - 1][0]
        return word

    def _number_fault(self, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "a number is expected"
        if isinstance(value, float) and not math.isfinite(value):
            return "a finite number is expected"
        if self.kind == "integer" and isinstance(value, float) and not value.is_integer():
            return "an integer is expected"
        return self._range_fault(value, "the number")

    def _text_fault(self, value: Any) -> str:
        if not isinstance(value, str):
            return "a text is expected"
        if len(value) > MAX_VALUE_CHARS:
            return f"it has more than {MAX_VALUE_CHARS} characters"
        if self.choices:
            return "" if any(value == one for one, _shown in self.choices) else "it is none of the choices"
        return self._range_fault(len(value), "the number of characters") or _format_fault(self.format, value)

    def _array_fault(self, value: Any) -> str:
        if not isinstance(value, list) or len(value) > MAX_CHOICES:
            return "a list of choices is expected"
        known = {one for one, _shown in self.choices}
        if any(not isinstance(one, str) or one not in known for one in value):
            return "something in it is none of the choices"
        return self._range_fault(len(value), "the number of choices")

    def _range_fault(self, size: float, what: str) -> str:
        if self.least is not None and size < self.least:
            return f"{what} is less than {self.least:g}"
        if self.most is not None and size > self.most:
            return f"{what} is more than {self.most:g}"
        return ""


def read_form(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """The questions of a form, in order. Raises ValueError, in one line, for a schema that is no flat form."""
    if schema.get("type", "object") != "object":
        raise ValueError("the form is no object")
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        raise ValueError("properties is no object, or required no list")
    if len(properties) > MAX_FIELDS:
        raise ValueError(f"there are more than {MAX_FIELDS} fields")
    wanted = {name for name in required if isinstance(name, str)}
    if unknown := wanted - set(properties):
        raise ValueError(f"{min(unknown)[:MAX_NAME_CHARS]!r} is required and not described")
    return tuple(_field(name, described, name in wanted) for name, described in properties.items())


def filled_in(fields: Sequence[FormField], content: Mapping[str, Any]) -> dict[str, Any]:
    """An answer with the defaults of what it leaves out. Raises ValueError, which names the field at fault."""
    known = {field.name for field in fields}
    for name in content:
        if name not in known:
            raise ValueError(f"{name[:MAX_NAME_CHARS]!r} is no field of the form")
    answer: dict[str, Any] = {}
    for field in fields:
        value = content.get(field.name)
        if value is None:
            value = field.default
        if value is None:
            if field.required:
                raise ValueError(f"{field.name!r} is missing")
            continue
        if fault := field.fault(value):
            raise ValueError(f"{field.name!r}: {fault}")
        answer[field.name] = int(value) if field.kind == "integer" else value
    return answer


def _field(name: Any, described: Any, required: bool) -> FormField:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
        raise ValueError("a field has no name, or one that is too long")
    if not isinstance(described, Mapping):
        raise ValueError(f"{name!r} is not described by an object")
    kind = described.get("type")
    items = described.get("items")
    if kind == "array" and isinstance(items, Mapping):
        choices = _choices(name, items)
        if not choices:
            raise ValueError(f"{name!r} is a list without choices")
        least, most = described.get("minItems"), described.get("maxItems")
    elif kind in KINDS:
        choices = _choices(name, described) if kind == "string" else ()
        bounds = ("minLength", "maxLength") if kind == "string" else ("minimum", "maximum")
        least, most = (described.get(bound) for bound in bounds)
    else:
        raise ValueError(f"{name!r} is neither a text, a number, an integer, yes or no, nor a choice")
    field = FormField(
        name,
        str(kind),
        _text(described.get("title")),
        _text(described.get("description")),
        required,
        None,
        choices,
        _bound(least),
        _bound(most),
        _text(described.get("format")),
    )
    default = described.get("default")
    if default is None or field.fault(default):
        return field  # a default that is no answer is none
    return FormField(
        field.name,
        field.kind,
        field.title,
        field.description,
        required,
        default,
        choices,
        field.least,
        field.most,
        field.format,
    )


def _choices(name: str, described: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """``enum`` with ``enumNames``, or ``oneOf``/``anyOf`` of ``const`` and ``title``."""
    titled = described.get("oneOf", described.get("anyOf"))
    if isinstance(titled, list):
        found = [(one.get("const"), one.get("title")) for one in titled if isinstance(one, Mapping)]
    else:
        values = described.get("enum")
        if values is None:
            return ()
        if not isinstance(values, list):
            raise ValueError(f"the choices of {name!r} are no list")
        names = described.get("enumNames")
        shown = names if isinstance(names, list) and len(names) == len(values) else values
        found = list(zip(values, shown, strict=True))
    if not 0 < len(found) <= MAX_CHOICES:
        raise ValueError(f"{name!r} has no choices, or too many")
    choices: list[tuple[str, str]] = []
    for value, text in found:
        if not isinstance(value, str) or len(value) > MAX_CHOICE_CHARS:
            raise ValueError(f"a choice of {name!r} is no text, or too long")
        choices.append((value, _text(text) or value))
    return tuple(choices)


def _text(value: Any) -> str:
    return value[:MAX_TEXT_CHARS] if isinstance(value, str) else ""


def _bound(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e300 < value < 1e300:
        return None
    return float(value)


def _format_fault(name: str, value: str) -> str:
    """A light check of the four formats that a form may ask for; the asker checks again."""
    try:
        if name == "date":
            date.fromisoformat(value)
        elif name == "date-time":
            datetime.fromisoformat(value)
        elif name == "uri":
            parts = urlsplit(value)
            if not parts.scheme or not (parts.netloc or parts.path):
                return "an address is expected"
        elif name == "email":
            before, at, behind = value.rpartition("@")
            if not (before and at and "." in behind) or any(char.isspace() for char in value):
                return "a mail address is expected"
    except ValueError:
        return f"it is no {name}"
    return ""
