"""Token usage: summed over the rounds of one answer (decision D1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def add_usage(total: dict[str, Any] | None, usage: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """``total`` plus ``usage``: numbers add up, nested objects too, anything else is taken from the newest."""
    if not usage:
        return total
    merged: dict[str, Any] = dict(total or {})
    for key, value in usage.items():
        known = merged.get(key)
        if isinstance(value, Mapping):
            merged[key] = add_usage(known if isinstance(known, dict) else None, value)
        elif _is_number(value) and _is_number(known):
            merged[key] = known + value
        elif value is not None or key not in merged:
            merged[key] = value
    return merged


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
