"""The fields of a manifest, read tolerantly: what has the wrong shape has its default and leaves a complaint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from app.errors import ManifestError
from app.extend import Json


def kind_of(value: Json) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    kinds: dict[type, str] = {str: "a string", dict: "an object", list: "a list"}
    return kinds.get(type(value), "a number")


class ManifestFields:
    """Reads fields of the object ``raw``; ``path`` names it in complaints."""

    def __init__(self, path: Path | str, raw: Mapping[str, Json]) -> None:
        self._path = path
        self._raw = raw
        self._complaints: list[str] = []

    def _complain(self, field: str, what: str) -> None:
        self._complaints.append(f"{self._path}: field {field}: {what}")

    def _required_text(self, field: str) -> str:
        value = self._raw.get(field)
        if not isinstance(value, str) or not value.strip():
            found = "missing" if value is None else f"must be a string with text, is {kind_of(value)}"
            raise ManifestError(f"{self._path}: field {field}: {found}")
        return value.strip()

    def _text(self, holder: Mapping[str, Json], key: str, field: str) -> str:
        value = holder.get(key)
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        self._complain(field, f"must be a string, is {kind_of(value)}; ignored")
        return ""

    def _flag(self, holder: Mapping[str, Json], key: str, field: str, *, default: bool) -> bool:
        value = holder.get(key)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        self._complain(field, f"must be true or false, is {kind_of(value)}; ignored")
        return default

    def _object(self, holder: Mapping[str, Json], key: str, field: str) -> Mapping[str, Json]:
        value = holder.get(key)
        if isinstance(value, dict):
            return value
        if value is not None:
            self._complain(field, f"must be an object, is {kind_of(value)}; ignored")
        return {}

    def _list(self, holder: Mapping[str, Json], key: str, field: str) -> list[Json]:
        value = holder.get(key)
        if isinstance(value, list):
            return value
        if value is not None:
            self._complain(field, f"must be a list, is {kind_of(value)}; ignored")
        return []

    def _declared(self, entry: Mapping[str, Json], key: str, place: str) -> Mapping[str, Json] | None:
        """An object that may be missing; an empty one says nothing."""
        return (self._object(entry, key, f"{place}.{key}") if entry.get(key) else None) or None
