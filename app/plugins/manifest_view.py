"""Manifests as administrators are shown them: whole, secrets masked (vcp-core 8.2; D84)."""

from __future__ import annotations

from collections.abc import Mapping

from app.extend import Json, ToolSpec
from app.plugins.environment import resolve_settings
from app.plugins.manifest import Manifest
from app.plugins.plugin_edit import Installed
from app.protocol.secret_texts import MASK, is_secret_name, masked_text

FAR_TYPE = "synchronous"
"""What tools of nodes are called; their program's type is not known here."""


def masked_settings(values: Mapping[str, str]) -> dict[str, Json]:
    """Settings with their keys; values under names that tell of a secret, and well-known tokens, are masked."""
    return {name: MASK if is_secret_name(name) and value else masked_text(value) for name, value in values.items()}


def full_manifest(one: Installed, environ: Mapping[str, str]) -> dict[str, Json]:
    """All that the manifest says, where the plugin lies, and its settings of now with secrets masked."""
    if one.manifest is None:
        return {"name": one.name, "basePath": str(one.folder)}
    own = one.plugin.own if one.plugin is not None else {}
    return {
        **_without_secrets(one.manifest),
        "basePath": str(one.folder),
        "pluginSpecificEnvConfig": masked_settings(resolve_settings(one.manifest, own, environ)),
    }


def _without_secrets(manifest: Manifest) -> dict[str, Json]:
    raw = dict(manifest.raw)
    schema = raw.get("configSchema")
    if isinstance(schema, dict):
        raw["configSchema"] = {name: _masked_default(name, value) for name, value in schema.items()}
    return raw


def _masked_default(name: str, value: Json) -> Json:
    secret = isinstance(value, dict) and is_secret_name(name) and value.get("default") not in (None, "")
    return {**value, "default": MASK} if secret else value


def far_manifest(spec: ToolSpec, server: str) -> dict[str, Json]:
    """A tool of a node as a manifest: of what nodes send, folders and settings are forgotten as it comes (D84)."""
    commands: list[Json] = [
        {
            name: value
            for name, value in (
                ("commandIdentifier", command.id),
                ("command", command.command),
                ("description", command.description),
                ("example", command.example),
                ("parameters", dict(command.parameters) if command.parameters is not None else None),
            )
            if value not in (None, "")
        }
        for command in spec.commands
    ]
    return {
        "name": spec.name,
        "displayName": spec.display,
        "description": spec.about,
        "pluginType": FAR_TYPE,
        "communication": {"protocol": "stdio", "timeout": round(spec.timeout * 1000)},
        "capabilities": {"invocationCommands": commands},
        "isDistributed": True,
        "serverId": server,
    }
