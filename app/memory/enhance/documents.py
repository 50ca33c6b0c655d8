"""JSON files that people edit: read tolerantly, again after each change, with the last good content kept."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from app.config.live_file import LiveFile
from app.memory.enhance.places import FILE_LIMIT

LOG = logging.getLogger(__name__)

Parsed = TypeVar("Parsed")


def json_object(data: bytes | None) -> dict[str, object]:
    """The object in a file; empty for a file that is not there or empty. Raises ValueError for anything else."""
    if data is None or not data.strip():
        return {}
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as fault:
        raise ValueError("it is not UTF-8") from fault
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


class LiveDocument(Generic[Parsed]):
    """One such file, parsed by ``parse``. A faulty version is logged once and the one before it stays in force.

    ``version`` grows with every content taken over; caches carry it in their keys.
    """

    def __init__(self, path: Path, parse: Callable[[dict[str, object]], Parsed], clock: Callable[[], float]) -> None:
        self._file = LiveFile(path, FILE_LIMIT, clock)
        self._parse = parse
        self._value = parse({})
        self.version = 0
        self.fault = ""

    def value(self) -> Parsed:
        """What the file says now."""
        content = self._file.changed()
        if content is not None:
            try:
                self._value = self._parse(content.parsed(json_object))
            except ValueError as fault:
                self.fault = str(fault)
                LOG.warning("%s is not used: %s; what was read before stays in force", self._file.path, fault)
            else:
                self.fault = ""
                self.version += 1
        return self._value


def words_in(value: object, limit: int) -> tuple[str, ...]:
    """The texts of a list (or of a text with commas), trimmed, each once, at most ``limit``."""
    if isinstance(value, str):
        value = value.replace("，", ",").split(",")
    if not isinstance(value, list):
        return ()
    found = (text.strip() for text in value if isinstance(text, str))
    return tuple(dict.fromkeys(text for text in found if text))[:limit]
