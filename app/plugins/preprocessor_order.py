"""``preprocessor_order.json``: which preprocessors come first (spec 5.7), read anew when the file changes."""

from __future__ import annotations

import logging
import stat
from collections.abc import Iterable
from pathlib import Path

from app.protocol.json_text import strict_json

ORDER_FILE = "preprocessor_order.json"
FILE_BYTES_LIMIT = 1024 * 1024

log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int]


class PreprocessorOrder:
    """The order in the home's file. A file that cannot be read leaves the order as it was, with one line in the log."""

    def __init__(self, home: Path) -> None:
        self._path = home / ORDER_FILE
        self._stamp: _Stamp | None = None
        self._names: tuple[str, ...] = ()

    def sorted(self, names: Iterable[str]) -> list[str]:
        """The names in the order of now: those in the file as it lists them, then the others by name.

        Called when a turn begins: it costs a look at the file's time, and a small read when that has changed.
        """
        self._look()
        place = {name: number for number, name in enumerate(self._names)}
        return sorted(names, key=lambda name: (place.get(name, len(place)), name))

    def _look(self) -> None:
        try:
            status = self._path.stat()
        except OSError:
            self._stamp, self._names = None, ()
            return
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._names = self._read(status.st_mode)
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s: %s; the order of preprocessors stays as it was", self._path, error)

    def _read(self, mode: int) -> tuple[str, ...]:
        if not stat.S_ISREG(mode):
            raise ValueError("is no regular file")
        with self._path.open("rb") as file:
            data = file.read(FILE_BYTES_LIMIT + 1)
        if len(data) > FILE_BYTES_LIMIT:
            raise ValueError(f"is larger than {FILE_BYTES_LIMIT} bytes")
        names = strict_json(data.decode("utf-8-sig"))
        if not isinstance(names, list):
            raise ValueError("must be a JSON list of names")
        return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))
