"""``preprocessor_order.json``: which preprocessors come first (spec 5.7), read anew when the file changes."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable
from pathlib import Path

from app.config.durable import write_atomic
from app.config.live_file import LiveFile
from app.protocol.json_text import strict_json

ORDER_FILE = "preprocessor_order.json"
FILE_BYTES_LIMIT = 1024 * 1024

log = logging.getLogger(__name__)


class PreprocessorOrder:
    """The order in the home's file. A file that cannot be read leaves the order as it was, with one line in the log."""

    def __init__(self, home: Path) -> None:
        self._file = LiveFile(home / ORDER_FILE, FILE_BYTES_LIMIT, time.monotonic)
        self._names: tuple[str, ...] = ()

    def sorted(self, names: Iterable[str]) -> list[str]:
        """The names in the order of now: those in the file as it lists them, then the others by name.

        Called when a turn begins: it costs a look at the file's time, and a small read when that has changed.
        """
        self._look()
        place = {name: number for number, name in enumerate(self._names)}
        return sorted(names, key=lambda name: (place.get(name, len(place)), name))

    def _look(self) -> None:
        content = self._file.changed(at_once=True)
        if content is None:
            return
        try:
            self._names = content.parsed(_read)
        except ValueError as error:
            log.warning("%s: %s; the order of preprocessors stays as it was", self._file.path, error)


def write_order(home: Path, names: Iterable[str]) -> None:
    """Write the order; blocks. Raises OSError."""
    data = json.dumps(list(names), ensure_ascii=False, indent=2).encode("utf-8", "replace")
    write_atomic(home / ORDER_FILE, data)


def _read(data: bytes | None) -> tuple[str, ...]:
    if data is None:
        return ()
    names = strict_json(data.decode("utf-8-sig"))
    if not isinstance(names, list):
        raise ValueError("must be a JSON list of names")
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))
