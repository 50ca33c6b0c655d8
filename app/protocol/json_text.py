"""JSON as JavaScript has it: read without NaN and Infinity, written with its characters kept."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def compact_json(value: Any, *, strict: bool = False) -> str:
    """JSON without spaces; ``strict`` raises ValueError for numbers that JSON has no words for."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=not strict)


def pretty_json(value: Any, *, strict: bool = False) -> str:
    """JSON indented by two spaces; ``strict`` as above."""
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=not strict)


def strict_json(text: str) -> Any:
    """The value of a JSON text; ValueError when it is none, RecursionError when it is nested too deeply.

    ``NaN`` and ``Infinity``, which Python reads, are no JSON.
    """
    return json.loads(text, parse_constant=_refuse)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
