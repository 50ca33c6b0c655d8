"""JSON as text that people, models and plugins read: characters kept, as JavaScript's ``JSON.stringify`` writes it."""

from __future__ import annotations

import json
from typing import Any


def compact_json(value: Any, *, strict: bool = False) -> str:
    """JSON without spaces; ``strict`` raises ValueError for numbers that JSON has no words for."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=not strict)


def pretty_json(value: Any) -> str:
    """JSON indented by two spaces."""
    return json.dumps(value, ensure_ascii=False, indent=2)
