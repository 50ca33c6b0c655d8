"""Arguments that were left open: many clients and models send null for them (P86)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.protocol.arguments import declared_properties, resolve

MAX_DEPTH = 32
"""How many alternatives and references inside each other are followed."""

MAX_PARTS = 100
"""How many schemas are looked at for one argument."""


def without_nulls(arguments: Mapping[str, Any], parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments without each null that stands for one that is declared, not required, and cannot be null (P86).

    Nulls that the schema takes, or about which it says nothing, stay. The arguments of required names stay too, so that
    a check tells what is wrong with them.
    """
    if None not in arguments.values():
        return dict(arguments)
    declared = declared_properties(parameters)
    required = (parameters or {}).get("required")
    needed = required if isinstance(required, list | tuple) else ()
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or name in needed or name not in declared or may_be_null(declared[name], parameters)
    }


def may_be_null(schema: Any, root: Mapping[str, Any] | None = None) -> bool:
    """Whether null is a value of a schema, as far as its plain words go; too deep a one is taken to allow it."""
    return _Look(root).by(schema, MAX_DEPTH)


class _Look:
    """One look at one schema; only so many parts of it are seen."""

    def __init__(self, root: Mapping[str, Any] | None) -> None:
        self._root = root
        self._left = MAX_PARTS

    def by(self, schema: Any, depth: int) -> bool:
        self._left -= 1
        if not isinstance(schema, Mapping):
            return schema is not False
        if depth == 0 or self._left < 0:
            return True
        kinds, choices = schema.get("type"), schema.get("enum")
        if isinstance(kinds, str) and kinds != "null":
            return False
        if isinstance(kinds, list | tuple) and "null" not in kinds:
            return False
        if (isinstance(choices, list) and None not in choices) or schema.get("const") is not None:
            return False
        reference = schema.get("$ref")
        if isinstance(reference, str) and not self.by(resolve(reference, self._root), depth - 1):
            return False
        for keyword, fits in (("anyOf", any), ("oneOf", any), ("allOf", all)):
            parts = schema.get(keyword)
            if isinstance(parts, list) and parts and not fits(self.by(part, depth - 1) for part in parts):
                return False
        return True
