"""What a person says in the home about a plugin that came with the program, whose own folder belongs to the program.

In a folder of the home that has the plugin's name and no manifest of its own:

* ``config.env``: the plugin's settings;
* ``plugin-texts.json``: other descriptions, ``{"description": …, "commands": {identifier: description}}``;
* ``plugin-manifest.json.block``: a copy of its manifest with ``"ofTheProgram": true``: the plugin is switched off.

So an upgrade of the program brings newer plugins and keeps what people have set.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.config.small_file import read_small
from app.errors import NotFoundError, both
from app.extend import Json
from app.plugins.manifest import MANIFEST_BYTES_LIMIT, Manifest, manifest_of
from app.protocol.json_text import strict_json

TEXTS_NAME = "plugin-texts.json"
OF_THE_PROGRAM = "ofTheProgram"
"""Key in a blocked manifest that only stands for a plugin of the program, and is removed when that is switched on."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Descriptions that take the place of those of a manifest; ``commands`` by identifier. None: as in the manifest."""

    description: str | None = None
    commands: Mapping[str, str] = field(default_factory=dict)


NO_TEXTS = Texts()


def read_texts(folder: Path) -> Texts:
    """The texts in a folder of the home; blocks. Raises OSError and ValueError, but not for a missing file."""
    try:
        data = read_small(folder / TEXTS_NAME, MANIFEST_BYTES_LIMIT)
    except FileNotFoundError:
        return NO_TEXTS
    try:
        value = strict_json(data.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("must hold a JSON object")
    description, commands = value.get("description"), value.get("commands")
    named = commands.items() if isinstance(commands, dict) else ()
    return Texts(
        description if isinstance(description, str) else None,
        {name: text for name, text in named if isinstance(text, str)},
    )


def texts_json(texts: Texts) -> bytes:
    """The file's content."""
    value: dict[str, Json] = {} if texts.description is None else {"description": texts.description}
    return manifest_json({**value, "commands": dict(texts.commands)})


def with_texts(manifest: Manifest, texts: Texts, place: Path) -> Manifest:
    """The manifest with these descriptions; those of commands that it has not are passed over."""
    if texts == NO_TEXTS:
        return manifest
    raw: Mapping[str, Json] = manifest.raw
    if texts.description is not None:
        raw = described(raw, texts.description)
    for name, text in texts.commands.items():
        if command_of(raw, name) is not None:
            raw = command_described(raw, name, text)
    return manifest_of(raw, place)


# --- changing what a manifest says ---------------------------------------------------------------------------------


def described(raw: Mapping[str, Json], text: str) -> dict[str, Json]:
    """A manifest with another description."""
    return {**raw, "description": text}


def command_described(raw: Mapping[str, Json], name: str, text: str) -> dict[str, Json]:
    """A manifest in which the command of this identifier has another description; raises NotFoundError."""
    changed: dict[str, Json] = copy.deepcopy(dict(raw))
    command = command_of(changed, name)
    if command is None:
        raise NotFoundError(both(f"没有命令 {name[:64]!r}", f"Command '{name[:64]}' not found."))
    command["description"] = text
    return changed


def command_of(raw: Mapping[str, Json], name: str) -> dict[str, Json] | None:
    """The first command whose ``commandIdentifier`` or ``command`` this is (vcp-core 8.2)."""
    capabilities = raw.get("capabilities")
    commands = capabilities.get("invocationCommands") if isinstance(capabilities, dict) else None
    for command in commands if isinstance(commands, list) else ():
        if isinstance(command, dict) and name in (command.get("commandIdentifier"), command.get("command")):
            return command
    return None


def manifest_json(raw: Mapping[str, Json]) -> bytes:
    """A manifest as it is written: indented by two, as it is read."""
    return (json.dumps(dict(raw), ensure_ascii=False, indent=2) + "\n").encode("utf-8", "surrogatepass")
