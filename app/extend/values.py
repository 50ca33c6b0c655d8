"""Plain values that every contract uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = Any
"""A JSON value. ``Any``, because recursive JSON types force casts at every use."""

Body = dict[str, Any]
"""A chat request body as the client sent it; unknown fields stay in it."""

Message = dict[str, Any]
"""One chat message; ``content`` is a string, a list of parts, or missing."""

Dump = Callable[[str, Json], None]
"""Keeps a value under a prefix for somebody who looks for a fault (``DebugMode``), or does nothing; quick."""


def no_dump(prefix: str, value: Json) -> None:
    """The ``Dump`` of those who look for nothing."""


Clock = Callable[[], float]
"""Seconds since the epoch."""
