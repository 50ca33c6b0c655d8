"""What is read of the tools that a far node announces (spec 6.4).

Manifests of nodes hold folders and secrets. Only the fields that a tool needs are looked at, nothing else is kept, and
nothing of them is ever logged but names of tools.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address, ip_address
from itertools import islice
from types import MappingProxyType

import orjson

from app.errors import ManifestError
from app.extend import Json, ToolCommand, ToolPush, ToolSpec
from app.hub.clients import encoded, most_values
from app.hub.nodes.pools import schema_of
from app.protocol.markers import NODE_FILE_TOOL
from app.protocol.node_names import NODE_NAME_CHARS, is_node_name
from app.protocol.tool_values import clean

MAX_TOOLS = 1000
"""Tools of one node; further ones are left out."""

MAX_COMMANDS = 200
"""Commands of one tool."""

MAX_NAME_CHARS = 128
MAX_DISPLAY_CHARS = 200
MAX_TEXT_CHARS = 100_000
"""Longest description or example; the beginning of a longer one is kept."""

MAX_SCHEMA_BYTES = 256 * 1024
MAX_TOOL_VALUES = 50_000
"""Values in what is kept of one tool's manifest, about; one with more is left out, since each is looked at."""

MAX_NODE_CHARS = 8 * 1024 * 1024
"""Texts and schemas of all tools of one node together."""

MAX_SECONDS = 86_400.0
"""Longest time limit of a call."""

MAX_LABELS = 32
MAX_ADDRESS_CHARS = 64

ReadManifest = Callable[[Mapping[str, Json]], ToolSpec]
"""Makes a tool of a manifest with the fields that are kept here; raises ManifestError."""

_KEPT = ("name", "displayName", "pluginType", "communication", "webSocketPush", "eager", "idempotent", "maxRunning")
_OBJECTS_OF_COMMAND = ("parameters", "outputSchema", "annotations")
_TEXTS_OF_COMMAND = ("commandIdentifier", "command", "description", "example", "typed", "toolName", "title")
_KEPT_OF_COMMAND = (*_TEXTS_OF_COMMAND, *_OBJECTS_OF_COMMAND)


@dataclass(frozen=True, slots=True)
class Offered:
    """The usable tools of a registration by name, and how many of its entries are none.

    ``schemas`` is what ``schema_of`` says of each tool.
    """

    tools: Mapping[str, ToolSpec]
    unusable: int = 0
    schemas: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Announced:
    """What a node says of itself: the name it wants (empty: none), its program's version, labels and abilities."""

    name: str = ""
    version: str = ""
    labels: tuple[str, ...] = ()
    capabilities: frozenset[str] = frozenset()


def read_announced(data: Mapping[str, Json]) -> Announced:
    """What a node says of itself in ``register_tools``; whatever has the wrong shape was not said."""
    capabilities = data.get("capabilities")
    said = capabilities.items() if isinstance(capabilities, dict) else ()
    version = data.get("version")
    return Announced(
        name=node_name(data.get("serverName")),
        version=_line(version, NODE_NAME_CHARS) if isinstance(version, str) else "",
        labels=_labels(data.get("labels")),
        capabilities=frozenset(name for name, value in islice(said, MAX_LABELS) if value is True),
    )


def node_name(said: Json) -> str:
    """The name that stands for what a node calls itself, such as ``My_PC`` for ``My PC``; empty where nothing is left.

    Names stand before a ``#`` in names of tools, in logs and in tables, so only letters, digits and ``-_.`` stay.
    """
    if not isinstance(said, str):
        return ""
    text = unicodedata.normalize("NFC", said.strip()[: 4 * NODE_NAME_CHARS])
    plain = "".join(character if character.isalnum() or character in "-_." else "_" for character in text)
    name = plain.lstrip("-_.")[:NODE_NAME_CHARS]
    return name if is_node_name(name) else ""


def node_address(said: Json) -> str:
    """An IP address in the form in which those of clients are compared; empty for what is none."""
    if not isinstance(said, str) or len(said) > MAX_ADDRESS_CHARS:
        return ""
    try:
        address = ip_address(said.strip().partition("%")[0])
    except ValueError:
        return ""
    return str(address.ipv4_mapped or address) if isinstance(address, IPv6Address) else str(address)


def read_tools(entries: Sequence[Json], labels: tuple[str, ...], read: ReadManifest) -> Generator[None, None, Offered]:
    """The tools of a registration, yielding after each; of two with one name the first counts (spec 6.4)."""
    tools: dict[str, ToolSpec] = {}
    schemas: dict[str, str] = {}
    unusable = max(0, len(entries) - MAX_TOOLS)
    left = MAX_NODE_CHARS
    for entry in entries[:MAX_TOOLS]:
        yield
        name = entry.get("name") if isinstance(entry, dict) else None
        if name == NODE_FILE_TOOL:
            continue
        manifest = _reduced(entry) if isinstance(entry, dict) else None
        spec = None if manifest is None else _spec(manifest, read)
        size = 0 if spec is None else _size(spec)
        if spec is None or spec.name in tools or size > left:
            unusable += 1
            continue
        left -= size
        tools[spec.name] = replace(spec, labels=frozenset((*labels, *_labels(entry.get("labels")))))
        schemas[spec.name] = schema_of(spec)
    return Offered(MappingProxyType(tools), unusable, schemas)


def is_tool_name(name: Json) -> bool:
    """Whether a remote tool may have this name: it stands in prompts between braces and behind a ``#``."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS or name != name.strip():
        return False
    return name.isprintable() and not any(character in "#{}「」" for character in name)


def _reduced(entry: Mapping[str, Json]) -> dict[str, Json] | None:
    """The fields of a manifest that are kept, within their limits; None when it cannot be a tool, or is too large."""
    name = entry.get("name")
    if not is_tool_name(name) or not entry.get("pluginType") or not entry.get("entryPoint"):
        return None
    manifest: dict[str, Json] = {field: entry[field] for field in _KEPT if field in entry}
    manifest["entryPoint"] = {"command": "remote"}
    manifest["displayName"] = _line(entry.get("displayName") or name, MAX_DISPLAY_CHARS)
    capabilities = entry.get("capabilities")
    commands = capabilities.get("invocationCommands") if isinstance(capabilities, dict) else None
    if isinstance(commands, list):
        kept = [_reduced_command(command) for command in commands[:MAX_COMMANDS] if isinstance(command, dict)]
        manifest["capabilities"] = {"invocationCommands": kept}
    try:
        if most_values(encoded(manifest)) > MAX_TOOL_VALUES:
            return None
        cleaned: dict[str, Json] = clean(manifest)
    except (ValueError, RecursionError):
        return None
    return cleaned


def _reduced_command(command: Mapping[str, Json]) -> dict[str, Json]:
    kept = {
        field: value[:MAX_TEXT_CHARS] if isinstance(value, str) else value
        for field in _KEPT_OF_COMMAND
        if (value := command.get(field)) is not None
    }
    for name in ("command", "commandIdentifier", "title"):
        if isinstance(kept.get(name), str):
            kept[name] = _line(kept[name], MAX_DISPLAY_CHARS)
    if "toolName" in kept and not is_tool_name(kept["toolName"]):
        del kept["toolName"]
    for name in _OBJECTS_OF_COMMAND:
        try:
            fits = len(orjson.dumps(kept.get(name))) <= MAX_SCHEMA_BYTES
        except TypeError:
            fits = False
        if not fits:
            del kept[name]
    return kept


def _spec(manifest: Mapping[str, Json], read: ReadManifest) -> ToolSpec | None:
    try:
        spec = read(manifest)
    except ManifestError:
        return None
    return replace(
        spec,
        timeout=min(spec.timeout, MAX_SECONDS),
        push=_push(spec.push),
    )


def _push(push: ToolPush | None) -> ToolPush | None:
    if push is None or any(len(text or "") > MAX_NAME_CHARS for text in (push.message_type, push.target_client_type)):
        return None
    return push


def _size(spec: ToolSpec) -> int:
    return len(spec.name) + len(spec.display) + sum(_size_of_command(command) for command in spec.commands)


def _size_of_command(command: ToolCommand) -> int:
    objects = (command.parameters, command.output_schema, command.annotations)
    texts = (command.id, command.command, command.description, command.example, command.title)
    return sum(map(len, texts)) + sum(len(orjson.dumps(one)) for one in objects if one is not None)


def _labels(value: Json) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(dict.fromkeys(label for label in value[:MAX_LABELS] if isinstance(label, str) and is_node_name(label)))


def _line(value: Json, limit: int) -> str:
    """The text as one line without control characters."""
    text = value if isinstance(value, str) else ""
    return "".join(c if c.isprintable() else " " for c in text[:limit]).strip()
