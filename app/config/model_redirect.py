"""``ModelRedirect.json``: names of models for clients, and what they are called upstream (spec 1.4, 1.5; P67)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from app.config.live_file import LiveFile

log = logging.getLogger(__name__)

FILE_NAME = "ModelRedirect.json"
MAX_FILE_BYTES = 1024 * 1024

_NOTHING: Mapping[str, str] = MappingProxyType({})


def parse(data: bytes) -> Mapping[str, str]:
    """The map from public to internal names, in the order of the file.

    Names must be equal to the letter. Keys that begin with ``//`` or ``#`` are comments; what is no text, and blank
    names, are left out. Raises ValueError when it is no JSON object.
    """
    value = json.loads(data.decode("utf-8-sig"))
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object of names")
    return {
        public: internal
        for public, internal in value.items()
        if isinstance(internal, str) and internal and public and not public.startswith(("//", "#"))
    }


class ModelRedirect:
    """The names of now. The file may be edited while the server runs; a broken one leaves the last good in force."""

    def __init__(self, home: Path, clock: Callable[[], float]) -> None:
        self._file = LiveFile(home / FILE_NAME, MAX_FILE_BYTES, clock)
        self._internal = _NOTHING
        self._public = _NOTHING

    def internal(self, model: str) -> str:
        """What the upstream calls a model; the name itself when nothing else is said."""
        self._look()
        return self._internal.get(model, model)

    def public_names(self) -> Mapping[str, str]:
        """The public name of each internal one; of several the last in the file counts. Empty: nothing to do."""
        self._look()
        return self._public

    def _look(self) -> None:
        content = self._file.changed()
        if content is None:
            return
        try:
            names = content.parsed(lambda data: _NOTHING if data is None else parse(data))
        except ValueError as error:
            log.error("%s cannot be read (%s); the names of models stay as they were", self._file.path, error)
            return
        self._internal = MappingProxyType(dict(names))
        self._public = MappingProxyType({internal: public for public, internal in names.items()})
