"""Pictures and other binary data have no place in queues, logs and notices: a digest stands for them (P20)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 64
"""What is nested deeper in a value is left out."""

_LONG = 1024
_DATA_URI = re.compile(r"data:[^,\s]{0,200};base64,")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]++={0,2}")
_INSIDE = re.compile(rf"(data:[^,\s]{{0,200}};base64,)([A-Za-z0-9+/_-]{{{_LONG},}}+={{0,2}})")


def without_base64(value: Any, depth: int = MAX_DEPTH) -> Any:
    """``value`` with a digest in place of every base64 text; the very same value when nothing in it had to go."""
    if isinstance(value, str):
        return _digest(value)
    if not isinstance(value, Mapping | list):
        return value
    if depth == 0:
        return "…"
    if isinstance(value, list):
        items = [without_base64(item, depth - 1) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    fields = {name: without_base64(item, depth - 1) for name, item in value.items()}
    return fields if any(fields[name] is not value[name] for name in fields) else value


def _digest(text: str) -> str:
    if len(text) < _LONG and not text.startswith("data:"):
        return text
    uri = _DATA_URI.match(text)
    if uri is not None:
        return uri[0] + _shown(text)
    if _BASE64.fullmatch(text) is not None:
        return _shown(text)
    return _INSIDE.sub(lambda found: found[1] + _shown(found[2]), text) if ";base64," in text else text


def _shown(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return f"[sha256 {digest}, {len(text)} characters]"
