"""A JSON Schema made ready for checking: a copy within limits in which every reference is a local one.

Schemas come from strangers (MCP-55, P86, P87). Nothing is fetched: a reference must lead to a place in the schema
itself. What generators get wrong without harm is put right: ``null`` in place of a keyword is taken for no keyword.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urljoin

from app.errors import VcpError, both

Node = dict[str, Any]
Schema = Node | bool

MAX_VALUES = 20_000
"""Values in one schema."""

MAX_CHARS = 1024 * 1024
"""Characters of all its names and texts."""

MAX_DEPTH = 120
"""How deeply lists and objects of a schema may be nested."""

SHOWN_CHARS = 100

ONE = frozenset(
    (
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)
"""Keywords whose value is a schema."""

LISTS = frozenset(("allOf", "anyOf", "items", "oneOf", "prefixItems"))
"""Keywords whose value is a list of schemas."""

MAPS = frozenset(("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"))
"""Keywords whose value holds schemas by name."""

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_DATA = frozenset(("const", "default", "examples"))
_IDENTITY = frozenset(("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$comment"))


class SchemaError(VcpError):
    """A JSON Schema cannot be used; the message says where and why."""

    status = 400
    code = "invalid_schema"


@dataclass(slots=True)
class SchemaDocument:
    """A schema and its parts. ``targets`` holds, by ``id()`` of a node, where its ``$ref`` leads."""

    root: Node
    dialect: str
    nodes: list[Node] = field(default_factory=list)
    targets: dict[int, Schema] = field(default_factory=dict)


def read_schema(schema: Mapping[str, Any] | bool) -> SchemaDocument:
    """The schema made ready; raises SchemaError. ``schema`` itself stays as it is."""
    if isinstance(schema, bool):
        return _Reading({} if schema else {"not": {}}, "").document()
    if not isinstance(schema, Mapping):
        raise SchemaError(both("schema 必须是对象", "a schema must be an object"))
    root = _Copy().of(schema, 0)
    dialect = root.get("$schema")
    return _Reading(root, dialect if isinstance(dialect, str) else "").document()


class _Copy:
    """Copies JSON and counts what it holds."""

    def __init__(self) -> None:
        self._values = 0
        self._chars = 0

    def of(self, value: Any, depth: int) -> Any:
        self._values += 1
        if depth > MAX_DEPTH or self._values > MAX_VALUES or self._chars > MAX_CHARS:
            raise SchemaError(
                both(
                    f"schema 过大或过深：最多 {MAX_VALUES} 个值、{MAX_CHARS} 个字符、{MAX_DEPTH} 层",
                    f"the schema is too large or too deep; at most {MAX_VALUES} values, {MAX_CHARS} characters and "
                    f"{MAX_DEPTH} levels",
                )
            )
        if isinstance(value, Mapping):
            copied: Node = {}
            for name, one in value.items():
                if not isinstance(name, str):
                    raise SchemaError(both("schema 的键必须是字符串", "the names in a schema must be strings"))
                self._chars += len(name)
                copied[name] = self.of(one, depth + 1)
            return copied
        if isinstance(value, list | tuple):
            return [self.of(one, depth + 1) for one in value]
        if isinstance(value, str):
            self._chars += len(value)
        return value


def children(node: Node) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """The schemas that stand directly in ``node``, with the steps that lead there."""
    for keyword, value in node.items():
        if isinstance(value, list):
            if keyword in LISTS:
                yield from (((keyword, str(n)), one) for n, one in enumerate(value) if isinstance(one, dict | bool))
        elif keyword in ONE:
            if isinstance(value, dict | bool):
                yield (keyword,), value
        elif keyword in MAPS and isinstance(value, dict):
            yield from (((keyword, name), one) for name, one in value.items() if isinstance(one, dict | bool))


class _Reading:
    """Finds all schemas in a document, what they are called, and where their references lead."""

    def __init__(self, root: Node, dialect: str) -> None:
        self._document = SchemaDocument(root, dialect)
        self._identifier = "id" if "draft-04" in dialect else "$id"
        self._known: dict[int, str] = {}
        """The resource in which a schema stands, by ``id()``."""
        self._resources: dict[str, tuple[Node, tuple[str, ...]]] = {"": (root, ())}
        self._anchors: dict[tuple[str, str], tuple[Node, tuple[str, ...]]] = {}
        self._dynamic: dict[str, int] = {}

    def document(self) -> SchemaDocument:
        document = self._document
        self._visit(document.root, (), "")
        done = 0
        while done < len(document.nodes):  # a reference may lead to a place that is no schema by itself
            self._resolve(document.nodes[done])
            done += 1
        for node in document.nodes:
            for keyword in [key for key in node if key in _IDENTITY or key == self._identifier]:
                del node[keyword]
        return document

    def _visit(self, schema: Schema, path: tuple[str, ...], base: str) -> None:
        waiting = [(schema, path, base)]
        while waiting:
            schema, path, base = waiting.pop()
            if isinstance(schema, bool) or id(schema) in self._known:
                continue
            for keyword in [key for key, value in schema.items() if value is None and key not in _DATA]:
                del schema[keyword]
            base = self._named(schema, path, base)
            self._known[id(schema)] = base
            self._document.nodes.append(schema)
            waiting.extend((child, (*path, *steps), base) for steps, child in children(schema))

    def _named(self, node: Node, path: tuple[str, ...], base: str) -> str:
        """Enter the names of ``node``; the resource that it belongs to."""
        name = node.get(self._identifier)
        if isinstance(name, str) and name.startswith("#"):
            self._anchors[base, name[1:]] = (node, path)
        elif isinstance(name, str) and name:
            base = _joined(base, name.partition("#")[0])
            self._resources.setdefault(base, (node, path))
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = node.get(keyword)
            if isinstance(anchor, str):
                self._anchors[base, anchor] = (node, path)
        dynamic = node.get("$dynamicAnchor")
        if isinstance(dynamic, str):
            self._dynamic[dynamic] = self._dynamic.get(dynamic, 0) + 1
        return base

    def _resolve(self, node: Node) -> None:
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = node.get(keyword)
            if not isinstance(reference, str):
                continue
            if keyword == "$dynamicRef" and self._dynamic.get(reference.partition("#")[2], 0) > 1:
                raise SchemaError(
                    both(
                        f"不支持有多个目标的 $dynamicRef：{_shown(reference)}",
                        f"a $dynamicRef with more than one target is not supported: {_shown(reference)}",
                    )
                )
            target, path = self._found(reference, self._known[id(node)])
            local = "#" + "".join("/" + quote(step.replace("~", "~0").replace("/", "~1"), safe="~") for step in path)
            if keyword == "$ref":
                node["$ref"] = local
                self._document.targets[id(node)] = target
            else:
                del node[keyword]
                holder: Node = {"$ref": local}
                node["allOf"] = [*node.get("allOf", ()), holder]
                self._known[id(holder)] = ""
                self._document.nodes.append(holder)

    def _found(self, reference: str, base: str) -> tuple[Schema, tuple[str, ...]]:
        """The schema that a reference means and where it stands; SchemaError when there is none in the document."""
        address, _, fragment = reference.partition("#")
        resource = _joined(base, address) if address else base
        held = self._resources.get(resource)
        if held is None:
            raise SchemaError(
                both(
                    f"schema 引用了外部文档，不会读取：{_shown(reference)}",
                    f"the schema refers to another document, which is never fetched: {_shown(reference)}",
                )
            )
        found: Any
        if not fragment or fragment.startswith("/"):
            found, path = held
            steps = fragment.split("/")[1:]
            for step in (unquote(raw).replace("~1", "/").replace("~0", "~") for raw in steps):
                if isinstance(found, dict) and step in found:
                    found = found[step]
                elif isinstance(found, list) and _NUMBER.fullmatch(step) and int(step) < len(found):
                    found = found[int(step)]
                else:
                    found = None
                    break
                path = (*path, step)
        else:
            found, path = self._anchors.get((resource, unquote(fragment)), (None, ()))
        if not isinstance(found, dict | bool):
            raise SchemaError(
                both(f"schema 的引用没有目标：{_shown(reference)}", f"a reference leads nowhere: {_shown(reference)}")
            )
        self._visit(found, path, resource)
        return found, path


def _joined(base: str, name: str) -> str:
    try:
        return urljoin(base, name)
    except ValueError:  # such as an address with half of a bracket
        return name


def _shown(text: str) -> str:
    return ascii(text[:SHOWN_CHARS])
