"""What a node tells the main server of itself: its tools and the texts of its static plugins (spec 6.4)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from app import __version__
from app.extend import Json, ToolSpec
from app.hub.clients import encoded
from app.plugins.discovery import Plugin, PluginSet

log = logging.getLogger(__name__)

Entry = TypeVar("Entry", bound=Json)

FILE_TOOL = "internal_request_file"
"""The tool by which a main server asks for files; every node has it, and none lists it."""

CAPABILITIES: Mapping[str, Json] = {"cancelTool": True, "filePieces": True}

_PRIVATE_FIELDS = frozenset({"pluginSpecificEnvConfig", "basePath", "folderPath"})
"""Fields in which other programs keep a plugin's secrets and its place on the disk; they stay here."""

_SPARE_BYTES = 64 * 1024
"""What a message holds beside tools or texts."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node offers: ``manifests`` as they are sent, ``names`` by which its tools may be called.

    ``statics`` are the static plugins whose texts are sent.
    """

    manifests: tuple[Mapping[str, Json], ...] = ()
    names: frozenset[str] = frozenset()
    statics: frozenset[str] = frozenset()


def offer(found: PluginSet, specs: Mapping[str, ToolSpec], home: Path) -> Offer:
    """The callable plugins of the home, and those of the program that serve in place of one (D37).

    What the program brings along is not offered: every main server has that itself.
    """
    root = (home / "Plugin").resolve()
    ported = {plugin.name for plugin in found.ported}
    own = [plugin for plugin in found.plugins if plugin.name in ported or plugin.folder.is_relative_to(root)]
    tools = [plugin for plugin in own if _is_offered(plugin, specs)]
    commands = {command.tool_name for plugin in tools for command in plugin.manifest.commands if command.tool_name}
    return Offer(
        manifests=tuple(_manifest(plugin) for plugin in tools),
        names=frozenset(commands.union(plugin.name for plugin in tools)),
        statics=frozenset(plugin.name for plugin in own if plugin.manifest.static_over_stdio),
    )


def _is_offered(plugin: Plugin, specs: Mapping[str, ToolSpec]) -> bool:
    names = (plugin.name, *(command.tool_name for command in plugin.manifest.commands if command.tool_name))
    return plugin.name != FILE_TOOL and any((spec := specs.get(name)) is not None and spec.callable for name in names)


def _manifest(plugin: Plugin) -> Mapping[str, Json]:
    return {key: value for key, value in plugin.manifest.raw.items() if key not in _PRIVATE_FIELDS}


def registration(name: str, offered: Offer, labels: Sequence[str], max_bytes: int) -> bytes:
    """The message ``register_tools``; tools that do not fit into ``max_bytes`` are left out and named in the log."""
    tools = list(_fitting(((str(one["name"]), one) for one in offered.manifests), max_bytes, "tool"))
    data = {
        "serverName": name,
        "tools": [manifest for _, manifest in tools],
        "capabilities": dict(CAPABILITIES),
        "version": __version__,
        "labels": list(labels),
    }
    return encoded({"type": "register_tools", "data": data})


def placeholders(name: str, texts: Mapping[str, str | None], max_bytes: int) -> bytes:
    """The message ``update_static_placeholders`` with all texts; those that do not fit are left out and logged.

    None takes one away that was told before: main servers keep what is not named.
    """
    kept = {"{{" + key + "}}": text for key, text in _fitting(texts.items(), max_bytes, "placeholder")}
    data = {"serverName": name, "placeholders": kept}
    return encoded({"type": "update_static_placeholders", "data": data})


def addresses(name: str, local: Sequence[str]) -> bytes:
    """The message ``report_ip``. Nobody is asked for the public address: the main server sees it."""
    return encoded({"type": "report_ip", "data": {"serverName": name, "localIPs": list(local), "publicIP": ""}})


def _fitting(entries: Iterable[tuple[str, Entry]], max_bytes: int, what: str) -> Iterable[tuple[str, Entry]]:
    room = max_bytes - _SPARE_BYTES
    for key, value in entries:
        size = len(encoded({key: value}))
        if size > room:
            log.error("%s %s is not offered: with it the message is over NodeMaxFrameMB", what, key)
            continue
        room -= size
        yield key, value


class CurrentOffer:
    """The offer of now, made anew when plugins have changed.

    ``make`` makes one; whoever knows of a change calls ``renew``. ``told`` are called with each that is a new one.
    """

    def __init__(self, make: Callable[[], Offer]) -> None:
        self._make = make
        self._made: Offer | None = None

    def renew(self) -> None:
        """Plugins have changed."""
        self._made = None

    def __call__(self) -> Offer:
        """The offer of now."""
        if self._made is None:
            self._made = self._make()
        return self._made
