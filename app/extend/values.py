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

Clock = Callable[[], float]
"""Seconds since the epoch."""
