"""The last good texts of static plugins on disk, so that the first chat after a restart has them (P78).

One file for each plugin: a refresh every few seconds rewrites only its own, and only when the text has changed. A file
that cannot be read or written costs that value's survival and nothing else.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.config.durable import write_atomic
from app.config.small_file import read_small
from app.extend import Json
from app.protocol.json_text import compact_json, strict_json

FILE_BYTES_LIMIT = 64 * 1024 * 1024
"""Larger files are not read; no value is that long unless somebody raised its limit on purpose."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptValue:
    """A text that a plugin printed, and when (seconds since the epoch)."""

    text: str
    printed_at: float


class StaticValues:
    """Files below ``folder``, named by a digest of the plugin's name, which may hold anything. All methods block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, names: Iterable[str]) -> dict[str, KeptValue]:
        """The values of these plugins; the files of all others, and what a killed process left, are removed."""
        paths = {self._path(name): name for name in names}
        found: dict[str, KeptValue] = {}
        for path in self._files():
            name = paths.get(path)
            if name is None:
                self._remove(path)
            elif (value := _read(path, name)) is not None:
                found[name] = value
        return found

    def save(self, name: str, value: KeptValue) -> None:
        """Keep a value, readable to its owner only: diaries and mails are among them. Raises OSError."""
        for folder in (self._folder.parent, self._folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        fields = {"plugin": name, "printed_at": value.printed_at, "text": value.text}
        write_atomic(self._path(name), compact_json(fields).encode("utf-8", "replace"), mode=0o600)

    def forget(self, name: str) -> None:
        """Remove the value of a plugin that is gone."""
        self._remove(self._path(name))

    def _path(self, name: str) -> Path:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{digest[:32]}.json"

    def _files(self) -> list[Path]:
        try:
            return [path for path in self._folder.iterdir() if path.suffix in (".json", ".tmp")]
        except FileNotFoundError:
            return []
        except OSError as error:
            log.warning("%s: kept values cannot be listed: %s", self._folder, error.strerror or error)
            return []

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s: cannot be removed: %s", path, error.strerror or error)


def _read(path: Path, name: str) -> KeptValue | None:
    try:
        data = read_small(path, FILE_BYTES_LIMIT + 1)
        if len(data) > FILE_BYTES_LIMIT:
            raise ValueError(f"larger than {FILE_BYTES_LIMIT} bytes")
        return _value(strict_json(data.decode("utf-8")), name)
    except (OSError, ValueError, RecursionError) as error:
        log.warning("%s: the kept value of plugin %s cannot be read: %s", path, name, error)
        return None


def _value(fields: Json, name: str) -> KeptValue:
    if not isinstance(fields, dict) or fields.get("plugin") != name:
        raise ValueError("not a value of this plugin")
    text, printed_at = fields.get("text"), fields.get("printed_at")
    if not isinstance(text, str) or not isinstance(printed_at, int | float) or isinstance(printed_at, bool):
        raise ValueError("its fields have the wrong types")
    return KeptValue(text, float(printed_at))
