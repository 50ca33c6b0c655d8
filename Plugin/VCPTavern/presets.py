"""Preset files: found, read live, stored, removed (memory.md 6.5; vcp-core 8.2)."""

from __future__ import annotations

import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path

from app.config.durable import remove_atomic
from app.config.edit_lock import edit_lock
from app.config.edited_file import EditedFile, read_edited, write_edited
from app.config.live_file import LiveFile
from app.extend import Json
from app.protocol.half_characters import whole
from app.protocol.json_text import pretty_json, strict_json

from .rules import Preset, read_preset

FILE_LIMIT = 10 * 1024 * 1024
"""Bytes of a preset, as of a request that stores one."""

KEPT_LIMIT = 64
"""Presets whose content is kept in memory, the last ones used."""

LISTED_LIMIT = 10_000
EXTENSION = ".json"

_SAFE = re.compile(r"\w[\w .()-]{0,99}(?<![ .])")
_REFUSED = re.compile(r"[^A-Za-z0-9_-]")


def is_safe(name: str) -> bool:
    """Whether a name can only be that of a file in its folder."""
    return _SAFE.fullmatch(name) is not None and len(name.encode("utf-8", "replace")) <= 200


def stored_name(name: str) -> str:
    """The name under which a preset is stored: letters, digits, ``_`` and ``-`` of it."""
    return _REFUSED.sub("", name)[:100]


class PresetFiles:
    """The presets of an installation. ``taken_over`` is the reference's folder, used where it exists.

    Methods block; any thread may call them.
    """

    def __init__(
        self, home: Path, own: Path, taken_over: Path, clock: Callable[[], float], log: logging.Logger
    ) -> None:
        self._home = home
        self._own = own
        self._taken_over = taken_over
        self._clock = clock
        self._log = log
        self._known: OrderedDict[Path, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """All presets by name."""
        found: set[str] = set()
        for folder in (self._taken_over, self._own):
            try:
                listed = [path.stem for path in folder.iterdir() if path.suffix == EXTENSION and path.is_file()]
            except OSError:
                continue
            found.update(name for name in listed[:LISTED_LIMIT] if is_safe(name))
        return sorted(found)

    def preset(self, name: str) -> Preset | None:
        """The rules of now; those before while the file cannot be read (P68). None when there is no such preset."""
        path = self._path(name)
        if path is None:
            return None
        with self._lock:
            kept = self._known.pop(path, None) or _Kept(LiveFile(path, FILE_LIMIT, self._clock))
            self._known[path] = kept
            while len(self._known) > KEPT_LIMIT:
                self._known.popitem(last=False)
            return kept.now(lambda word: self._log.warning("preset %s: %s", name, word))

    def file(self, name: str) -> EditedFile | None:
        """The file's text and version; None when there is none. Raises FileTooLargeError and OSError."""
        path = self._path(name)
        try:
            return None if path is None else read_edited(path, FILE_LIMIT)
        except FileNotFoundError:
            return None

    def save(self, name: str, preset: Mapping[str, Json], expected: str | None = None) -> str:
        """Store a preset where it lies, a new one beside the others, and return its version.

        ``expected`` is the version that the writer has read, empty for a new preset. Raises OSError, ValueError for
        half rules, EditConflictError when there is another version.
        """
        read_preset(dict(preset), lambda _word: None)
        folder = self._taken_over if self._taken_over.is_dir() else self._own
        path = self._path(name) or folder / f"{name}{EXTENSION}"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = whole(pretty_json(preset, strict=True))
        if len(text.encode("utf-8")) > FILE_LIMIT:
            raise ValueError(f"it is larger than {FILE_LIMIT} bytes")
        return write_edited(path, text, expected, edit_lock(self._home))

    def delete(self, name: str) -> bool:
        """Remove a preset, wherever it lies; false when there is none. Raises OSError."""
        gone = False
        while (path := self._path(name)) is not None:
            remove_atomic(path)
            gone = True
        return gone

    def _path(self, name: str) -> Path | None:
        """The file of this name, not a link out of its folder."""
        if not is_safe(name):
            return None
        for folder in (self._taken_over, self._own):
            path = folder / f"{name}{EXTENSION}"
            if path.is_file() and not path.is_symlink():
                return path
        return None


class _Kept:
    """One file and what was read of it last."""

    def __init__(self, file: LiveFile) -> None:
        self._file = file
        self._preset: Preset | None = None

    def now(self, complain: Callable[[str], None]) -> Preset | None:
        content = self._file.changed(at_once=True)
        if content is None:
            return self._preset
        try:
            value = content.parsed(lambda data: None if data is None else strict_json(data.decode("utf-8-sig")))
            self._preset = None if value is None else read_preset(value, complain)
        except ValueError as fault:
            complain(f"it is not used, {fault}; what was read before stays in force")
        return self._preset
