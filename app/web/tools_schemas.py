"""Schemas of tools as components of an OpenAPI 3.1 document: references lead there, and none leads in a circle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from app.extend import Json

MAX_DEPTH = 64
MAX_EXPANDED = 5_000
"""Depth and number of sub-schemas that a reader meets who puts in the target of each reference."""

_HOLDERS = frozenset(
    [
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "oneOf",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
"""Keywords with one schema, or a list of them."""

_MAPS = frozenset(["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"])
"""Keywords with schemas by name."""

_DEFINITIONS = ("$defs", "definitions")
_REFERENCE = "$ref"
_DROPPED = frozenset(
    {"$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef", "$schema"}
)

Schema = Mapping[str, Json]


class SchemaTooWideError(Exception):
    """Whoever puts in the targets of all references gets more than ``MAX_EXPANDED`` sub-schemas, or too deep ones."""


def component(schema: Schema, name: str) -> dict[str, Json]:
    """The schema as ``#/components/schemas/<name>`` of a document.

    References within it lead to the same places there. Programs that import tools often put the target in the place of
    each reference, so a reference that leads back to where it stands becomes an open schema (P87), one to another
    document too, and a schema that would grow too large or too deep is replaced by an open object. What is not read
    as a schema (``enum``, ``default``, ``examples`` …) stays as it was written.
    """
    names = dict(_named_places(schema))
    try:
        cut = _Walk(schema, names).cut
    except SchemaTooWideError:
        kept = {key: schema[key] for key in ("title", "description") if isinstance(schema.get(key), str)}
        return {**kept, "type": "object", "additionalProperties": True}
    return _written(schema, "", f"#/components/schemas/{name}", names, cut)


def _children(schema: Schema, place: str) -> Iterator[tuple[str, str, str | int | None, dict[str, Json]]]:
    """Every sub-schema: its place, the keyword, the key below it (None: the keyword's own value), the value."""
    for keyword, value in schema.items():
        if keyword in _HOLDERS:
            if isinstance(value, dict):
                yield f"{place}/{keyword}", keyword, None, value
            elif isinstance(value, list):
                for index, one in enumerate(value):
                    if isinstance(one, dict):
                        yield f"{place}/{keyword}/{index}", keyword, index, one
        elif keyword in _MAPS and isinstance(value, dict):
            for key, one in value.items():
                if isinstance(one, dict):
                    yield f"{place}/{keyword}/{_escaped(key)}", keyword, key, one


def _named_places(schema: Schema, place: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """What a reference may call a sub-schema beside its place: ``#anchor`` and ``$id``."""
    for keyword, mark in (("$anchor", "#"), ("$id", "")):
        if isinstance(name := schema.get(keyword), str):
            yield mark + name, place
    if depth < MAX_DEPTH:
        for inner, _, _, value in _children(schema, place):
            yield from _named_places(value, inner, depth + 1)


def _target(reference: str, names: Mapping[str, str]) -> str | None:
    """The place that a reference means, "" for the whole schema, None when it is in no place of this schema."""
    if reference in names:
        return names[reference]
    if reference == "#":
        return ""
    return unquote(reference[1:]) if reference.startswith("#/") else None


def _at(schema: Schema, place: str) -> Schema | None:
    found: Json = schema
    for part in place.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(key)
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found if isinstance(found, Mapping) else None


class _Walk:
    """Goes wherever references lead; ``cut`` holds the places of those that lead back to themselves or nowhere."""

    def __init__(self, schema: Schema, names: Mapping[str, str]) -> None:
        self.cut: set[str] = set()
        self._schema = schema
        self._names = names
        self._open: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._visit("", schema, 0)

    def _visit(self, place: str, schema: Schema, depth: int) -> int:
        """How many sub-schemas stand here when all references are put in."""
        if place in self._sizes:
            return self._sizes[place]
        if place in self._open:
            return 1
        if depth >= MAX_DEPTH:
            raise SchemaTooWideError
        self._open.add(place)
        size = 1
        if isinstance(reference := schema.get(_REFERENCE), str):
            size += self._follow(place, reference, depth)
        for inner, keyword, _, value in _children(schema, place):
            met = self._visit(inner, value, depth + 1)
            size += 0 if keyword in _DEFINITIONS else met
        self._open.discard(place)
        if size > MAX_EXPANDED:
            raise SchemaTooWideError
        self._sizes[place] = size
        return size

    def _follow(self, place: str, reference: str, depth: int) -> int:
        target = _target(reference, self._names)
        found = _at(self._schema, target) if target is not None else None
        if target is None or found is None or target in self._open:
            self.cut.add(place)
            return 0
        return self._visit(target, found, depth + 1)


def _written(schema: Schema, place: str, root: str, names: Mapping[str, str], cut: set[str]) -> dict[str, Json]:
    """The schema with its references led to ``root``, without those in ``cut``."""
    written: dict[str, Json] = {key: value for key, value in schema.items() if key not in _DROPPED}
    if isinstance(reference := written.get(_REFERENCE), str):
        target = _target(reference, names)
        if place in cut or target is None:
            del written[_REFERENCE]
        else:
            written[_REFERENCE] = root + target.replace("%", "%25").replace(" ", "%20")
    for inner, keyword, key, value in _children(schema, place):
        new = _written(value, inner, root, names, cut)
        if key is None:
            written[keyword] = new
            continue
        holder = written[keyword]
        if holder is schema[keyword]:  # not yet a copy
            holder = written[keyword] = list(holder) if isinstance(holder, list) else dict(holder)
        holder[key] = new
    return written


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
