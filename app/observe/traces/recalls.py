"""What memory gave for one declaration, as a trace keeps it: who scored what, and the text where it may be kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from app.extend import Json
from app.observe.traces.texts import Texts

MAX_HITS = 200
MAX_NAMES = 50
MAX_NAME = 200

_TEXTS = frozenset({"query", "text", "extractedMemories", "rawResponse"})


def recall_document(details: Mapping[str, Json], texts: Texts) -> dict[str, Json]:
    """The message for those who watch (6.5), its texts cleaned or only counted, lists cut to their limits."""
    shown = {str(name)[:MAX_NAME]: _shown(name, value, texts) for name, value in details.items()}
    return shown


def _shown(name: str, value: Json, texts: Texts, depth: int = 6) -> Any:
    if isinstance(value, str):
        return texts.text(value) if name in _TEXTS else value[:MAX_NAME]
    if isinstance(value, Mapping):
        return (
            {str(key)[:MAX_NAME]: _shown(str(key), item, texts, depth - 1) for key, item in value.items()}
            if depth
            else {}
        )
    if isinstance(value, list | tuple):
        return [_shown(name, item, texts, depth - 1) for item in value[:MAX_HITS]] if depth else []
    return value if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)) else None
