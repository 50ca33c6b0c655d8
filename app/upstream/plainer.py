"""Models that know no function calls: how an upstream says so, and for how long that is remembered."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

REMEMBERED_SECONDS = 3600.0
"""An upstream may learn; after an hour it is asked with tools again."""

MAX_MODELS = 256
"""Models of one upstream that are remembered; the oldest are forgotten."""

_STATUSES = frozenset({400, 404, 422, 500, 501})  # what gateways and local servers answer such requests with
_WORDS = re.compile(r"\b(?:tools?|tool[ _-]?(?:use|choice|call\w*)|functions?|function[ _-]?call\w*)\b|工具|函数", re.I)


@dataclass(frozen=True, slots=True)
class Plainer:
    """A request to ``model`` whose tools are ours: ``body`` makes the same request without them."""

    model: str
    body: Callable[[], bytes]


def refuses_tools(status: int, body: bytes) -> bool:
    """Whether this answer to a request with tools speaks of them, so that it is worth sending without."""
    return status in _STATUSES and _WORDS.search(body.decode("utf-8", "replace")) is not None


class ModelsWithoutTools:
    """The models of one upstream that were seen to work without tools only; ``now`` is any steady clock."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def has(self, model: str, now: float) -> bool:
        """Whether the model is to be asked without tools now."""
        until = self._until.get(model)
        if until is not None and until <= now:
            del self._until[model]
            return False
        return until is not None

    def add(self, model: str, now: float) -> None:
        """The model refused tools, and answered without them."""
        self._until.pop(model, None)
        if len(self._until) >= MAX_MODELS:
            del self._until[next(iter(self._until))]
        self._until[model] = now + REMEMBERED_SECONDS
