"""Plugin manifests: ``plugin-manifest.json`` read tolerantly, complained about precisely (spec 5.2).

Only what makes a plugin unusable is an error: broken JSON, no name, no type, no entry point. Everything else that has
the wrong shape costs that one field, which then has its default, and leaves a complaint that names file and field.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from app.config.small_file import read_small
from app.errors import ManifestError
from app.extend import Json, ToolCommand, ToolPush
from app.plugins.group_names import declared_groups
from app.plugins.manifest_fields import ManifestFields, kind_of
from app.plugins.timetable import cron_fault
from app.protocol.json_text import compact_json, strict_json

MANIFEST_NAME = "plugin-manifest.json"
BLOCKED_NAME = "plugin-manifest.json.block"
MANIFEST_BYTES_LIMIT = 4 * 1024 * 1024

MAX_KEY_CHARS = 200
"""Longest name of a placeholder."""

DEFAULT_SECONDS = 60.0
DEFAULT_ASYNC_SECONDS = 1800.0
PLUGIN_TYPES = frozenset(
    {"static", "messagePreprocessor", "synchronous", "asynchronous", "service", "hybridservice"},
)

IN_PROCESS_TYPES = frozenset({"messagePreprocessor", "service", "hybridservice"})
"""Types that are modules inside the server (spec 5.3)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of ``configSchema``: its type word and, in the object form only, its default as text."""

    type: str
    object_form: bool = False
    default: str | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One entry of ``capabilities.systemPromptPlaceholders``."""

    placeholder: str
    description: str = ""

    @property
    def key(self) -> str:
        """What stands between the braces in a prompt; empty for a text that no prompt can hold as a placeholder."""
        key = self.placeholder.strip().removeprefix("{{").removesuffix("}}").strip()
        return "" if re.search(r"[{}\r\n]", key) or len(key) > MAX_KEY_CHARS else key


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says; ``raw`` keeps all of it, unknown fields too.

    ``timeout`` is in seconds. ``interpreter`` is ``server`` when ``python`` in the command means the interpreter that
    runs the server (D38). ``inherit_env`` says which part of the server's environment the plugin sees: True all of it,
    a set of names a safe base and these (B9). ``cron`` is a sound expression or None. ``eager`` (D24), ``idempotent``
    (D29), ``max_running`` and ``groups`` are our own.
    """

    name: str
    plugin_type: str
    display: str
    description: str
    version: str
    author: str
    protocol: str
    command_line: str
    script: str
    entry_type: str
    interpreter: str | None
    timeout: float
    cron: str | None
    requires_admin: bool
    has_routes: bool
    settings: Mapping[str, Setting]
    commands: tuple[ToolCommand, ...]
    placeholders: tuple[Placeholder, ...]
    push: ToolPush | None
    eager: bool
    idempotent: bool
    max_running: int | None
    inherit_env: bool | frozenset[str]
    groups: frozenset[str]
    raw: Mapping[str, Json]
    complaints: tuple[str, ...] = ()

    @property
    def runs_in_node(self) -> bool:
        """True for modules that only a Node process could load; the server does not run them (D37)."""
        if self.protocol != "direct":
            return False
        return self.entry_type == "nodejs" or self.script.endswith((".js", ".cjs", ".mjs", ".ts"))

    @property
    def callable_over_stdio(self) -> bool:
        """True for plugins that run as one process per call (spec 5.3)."""
        return self.plugin_type in ("synchronous", "asynchronous") and self.protocol == "stdio"

    @property
    def answers_first(self) -> bool:
        """True for plugins whose process answers first and goes on working (spec 5.6 asynchronous)."""
        return self.plugin_type == "asynchronous" and self.protocol == "stdio"

    @property
    def static_over_stdio(self) -> bool:
        """True for plugins that run at the start and by a timetable, for the text that they print (spec 5.3)."""
        return self.plugin_type == "static" and self.protocol == "stdio"


def read_manifest(path: Path) -> Manifest:
    """Read one manifest file.

    Raises ManifestError, which names the file and the line and column (broken JSON) or the field, when the plugin
    cannot be used at all; what is merely odd is in ``Manifest.complaints``. A byte-order mark, CRLF and keys that occur
    twice (comments) are accepted.
    """
    return manifest_of(_load(path), path)


def manifest_of(raw: Mapping[str, Json], place: Path | str) -> Manifest:
    """The manifest that is this JSON object; ``place`` names it in complaints. Raises ManifestError."""
    return _Reader(place, raw).manifest()


def _load(path: Path) -> Mapping[str, Json]:
    try:
        data = read_small(path, MANIFEST_BYTES_LIMIT + 1)
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > MANIFEST_BYTES_LIMIT:
        raise ManifestError(f"{path}: larger than {MANIFEST_BYTES_LIMIT} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ManifestError(f"{path}: line {line}: not UTF-8 (byte {data[error.start]:#04x})") from error
    try:
        raw = strict_json(text)
    except json.JSONDecodeError as error:
        raise ManifestError(f"{path}: line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise ManifestError(f"{path}: nested too deeply") from error
    except ValueError as error:
        raise ManifestError(f"{path}: {error}") from error
    if not isinstance(raw, dict):
        raise ManifestError(f"{path}: must hold a JSON object, not {kind_of(raw)}")
    return MappingProxyType(raw)


class _Reader(ManifestFields):
    """Turns one JSON object into a Manifest and collects complaints on the way."""

    def manifest(self) -> Manifest:
        raw = self._raw
        name = self._required_text("name")
        plugin_type = self._required_text("pluginType")
        if plugin_type not in PLUGIN_TYPES:
            self._complain("pluginType", f"unknown type {plugin_type!r}, listed but not run")
        entry = raw.get("entryPoint")
        if not isinstance(entry, dict):
            raise ManifestError(f"{self._path}: field entryPoint: must be an object, is {kind_of(entry)}")
        command_line = self._text(entry, "command", "entryPoint.command")
        script = self._text(entry, "script", "entryPoint.script")
        communication = self._object(raw, "communication", "communication")
        default_protocol = "direct" if script and not command_line else "stdio"
        protocol = self._text(communication, "protocol", "communication.protocol") or default_protocol
        if protocol == "stdio" and not command_line:
            self._complain("entryPoint.command", "missing; the plugin cannot be started")
        if protocol == "direct" and script.endswith(".py") and plugin_type in PLUGIN_TYPES - IN_PROCESS_TYPES:
            self._complain("pluginType", f"{plugin_type} cannot be a module of the server (protocol direct); not run")
        capabilities = self._object(raw, "capabilities", "capabilities")
        return Manifest(
            name=name,
            plugin_type=plugin_type,
            display=self._text(raw, "displayName", "displayName") or name,
            description=self._text(raw, "description", "description"),
            version=self._text(raw, "version", "version"),
            author=self._text(raw, "author", "author"),
            protocol=protocol,
            command_line=command_line,
            script=script,
            entry_type=self._text(entry, "type", "entryPoint.type"),
            interpreter=self._text(entry, "interpreter", "entryPoint.interpreter") or None,
            timeout=self._timeout(communication, plugin_type),
            cron=self._cron(),
            # Anything but a plain no asks for the code: a slip of the pen must not open an administrator's tool (B11).
            requires_admin=raw.get("requiresAdmin") not in (None, False),
            has_routes=self._flag(raw, "hasApiRoutes", "hasApiRoutes", default=False),
            settings=self._settings(),
            commands=self._commands(capabilities),
            placeholders=self._placeholders(capabilities),
            push=self._push(),
            eager=self._flag(raw, "eager", "eager", default=True),
            idempotent=self._flag(raw, "idempotent", "idempotent", default=False),
            max_running=self._max_running(),
            inherit_env=self._inherit_env(),
            groups=declared_groups(raw.get("groups"), partial(self._complain, "groups")),
            raw=raw,
            complaints=tuple(self._complaints),
        )

    def _timeout(self, communication: Mapping[str, Json], plugin_type: str) -> float:
        default = DEFAULT_ASYNC_SECONDS if plugin_type == "asynchronous" else DEFAULT_SECONDS
        value = communication.get("timeout")
        if value is None or value == 0:
            return default
        try:
            milliseconds = math.nan if isinstance(value, bool | list | dict) else float(value)
        except (ValueError, OverflowError):
            milliseconds = math.nan
        if not (math.isfinite(milliseconds) and milliseconds > 0):
            self._complain("communication.timeout", f"must be a number of milliseconds above 0; {default:g} s is used")
            return default
        return milliseconds / 1000

    def _cron(self) -> str | None:
        cron = self._text(self._raw, "refreshIntervalCron", "refreshIntervalCron").strip()
        fault = cron_fault(cron) if cron else ""
        if fault:
            self._complain("refreshIntervalCron", f"{fault}; the plugin runs at the start only")
        return None if fault else cron or None

    def _settings(self) -> Mapping[str, Setting]:
        schema = self._raw.get("configSchema")
        if isinstance(schema, list):
            # One plugin in the wild has this form; it never named any usable key (spec 5.2).
            return MappingProxyType({})
        settings: dict[str, Setting] = {}
        for key, value in self._object(self._raw, "configSchema", "configSchema").items():
            if isinstance(value, str):
                settings[key] = Setting(value)
            elif isinstance(value, dict):
                kind = value.get("type")
                settings[key] = Setting(
                    type=kind if isinstance(kind, str) else "string",
                    object_form=True,
                    default=_default_text(value.get("default")),
                    description=value["description"] if isinstance(value.get("description"), str) else "",
                )
            else:
                self._complain(f"configSchema.{key}", f"must be a type word or an object, is {kind_of(value)}; ignored")
        return MappingProxyType(settings)

    def _commands(self, capabilities: Mapping[str, Json]) -> tuple[ToolCommand, ...]:
        commands = []
        field = "capabilities.invocationCommands"
        for index, entry in enumerate(self._list(capabilities, "invocationCommands", field)):
            place = f"{field}[{index}]"
            if not isinstance(entry, dict):
                self._complain(place, f"must be an object, is {kind_of(entry)}; ignored")
                continue
            command = self._text(entry, "command", f"{place}.command")
            own = self._text(entry, "toolName", f"{place}.toolName")
            commands.append(
                ToolCommand(
                    id=self._text(entry, "commandIdentifier", f"{place}.commandIdentifier") or command or own,
                    command=command,
                    description=self._text(entry, "description", f"{place}.description"),
                    example=self._text(entry, "example", f"{place}.example"),
                    parameters=self._declared(entry, "parameters", place),
                    typed=self._flag(entry, "typed", f"{place}.typed", default=False),
                    tool_name=own or None,
                    title=self._text(entry, "title", f"{place}.title"),
                    output_schema=self._declared(entry, "outputSchema", place),
                    annotations=self._declared(entry, "annotations", place),
                )
            )
        return tuple(commands)

    def _placeholders(self, capabilities: Mapping[str, Json]) -> tuple[Placeholder, ...]:
        found = []
        field = "capabilities.systemPromptPlaceholders"
        for index, entry in enumerate(self._list(capabilities, "systemPromptPlaceholders", field)):
            place = f"{field}[{index}]"
            name = self._text(entry, "placeholder", f"{place}.placeholder") if isinstance(entry, dict) else ""
            if not name:
                self._complain(place, "must be an object with a placeholder; ignored")
                continue
            placeholder = Placeholder(name, self._text(entry, "description", f"{place}.description"))
            if not placeholder.key:
                self._complain(f"{place}.placeholder", "is no name that can stand between two pairs of braces; ignored")
                continue
            found.append(placeholder)
        return tuple(found)

    def _push(self) -> ToolPush | None:
        push = self._object(self._raw, "webSocketPush", "webSocketPush")
        if not self._flag(push, "enabled", "webSocketPush.enabled", default=False):
            return None
        return ToolPush(
            message_type=self._text(push, "messageType", "webSocketPush.messageType") or None,
            target_client_type=self._text(push, "targetClientType", "webSocketPush.targetClientType") or None,
        )

    def _max_running(self) -> int | None:
        value = self._raw.get("maxRunning")
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
        self._complain("maxRunning", "must be a whole number from 1; ignored")
        return None

    def _inherit_env(self) -> bool | frozenset[str]:
        value = self._raw.get("inheritEnv")
        if value is None or value is True:
            return True
        if value is False:
            return False
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            return frozenset(value)
        # Who wrote this field wanted less than everything, so a value that cannot be read hands out nothing.
        self._complain("inheritEnv", "must be true, false or a list of names; read as false")
        return False


def _default_text(value: Json) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value
    return compact_json(value)
