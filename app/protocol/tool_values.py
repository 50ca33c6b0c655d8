"""Values that tools answer with, whoever ran them: what of them is fit to go on, and what is content (spec 4.5)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

DEPTH_LIMIT = 200
"""Deepest nesting of lists and objects in an answer; JSON writers further on recurse."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_SURROGATE = re.compile("[\ud800-\udfff]")


def without_colours(text: str) -> str:
    """The text without the codes that terminals read."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def clean(value: Any) -> Any:
    """The value without what writers further on cannot take: colour codes, half surrogates, numbers beyond JSON's.

    Raises ValueError when it is nested deeper than ``DEPTH_LIMIT``.
    """
    return _clean(value, DEPTH_LIMIT)


def _clean(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        if value.isascii() and "\x1b" not in value:
            return value
        value = without_colours(value)
        return _SURROGATE.sub("\ufffd", value) if _SURROGATE.search(value) else value
    if depth == 0 and isinstance(value, dict | list):
        raise ValueError(f"nested deeper than {DEPTH_LIMIT}")
    if isinstance(value, dict):
        return {_clean(key, depth): _clean(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, depth - 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # 1e999 reads as infinity, which JSON has no word for; JavaScript writes null as well
    return value


def content_parts(structured: Any) -> tuple[Mapping[str, Any], ...] | None:
    """The content parts of a result, from ``data.content`` or ``content`` (spec 4.5), or None.

    A list counts only if each entry is a part, that is, holds the field its ``type`` names, and ``text`` is text: model
    APIs refuse a whole conversation for one part that is none. Other lists that happen to be called ``content``, and
    empty ones, are data and stay in ``structured``.
    """
    if not isinstance(structured, dict):
        return None
    data = structured.get("data")
    for content in (data.get("content") if isinstance(data, dict) else None, structured.get("content")):
        if isinstance(content, list) and content and all(_is_part(entry) for entry in content):
            return tuple(content)
    return None


def _is_part(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
        return False
    value = entry.get(entry["type"])
    return isinstance(value, str) if entry["type"] == "text" else value is not None
