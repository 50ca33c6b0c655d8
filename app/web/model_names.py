"""Public names of models in the list of the upstream (spec 1.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.chat.payload import dumps, loads


def with_public_names(body: bytes, public_names: Mapping[str, str]) -> bytes:
    """The list with public names in place of internal ones; the very same bytes when there is nothing to change."""
    if not public_names:
        return body
    try:
        value: Any = loads(body)
    except (ValueError, RecursionError):
        return body
    listed = value.get("data") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        return body
    changed = False
    for model in listed:
        name = model.get("id") if isinstance(model, dict) else None
        if isinstance(name, str) and name in public_names:
            model["id"] = public_names[name]
            changed = True
    return dumps(value) if changed else body


def with_public_name(body: bytes, internal: str, public: str) -> bytes:
    """What is said of one model, with its public name; the very same bytes when it speaks of another one."""
    try:
        value: Any = loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(value, dict) or value.get("id") != internal:
        return body
    return dumps({**value, "id": public})
