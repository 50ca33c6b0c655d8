"""The manifest of a plugin that a far node offers, as a tool of this server (spec 3.5, 5.2, 6.4)."""

from __future__ import annotations

from collections.abc import Mapping

from app.extend import Json, ToolSpec
from app.plugins.manifest import DEFAULT_SECONDS, manifest_of
from app.protocol.markers import NODE_DISPLAY

CALLABLE = frozenset({"synchronous", "asynchronous", "hybridservice"})
"""Types whose plugins can be called; those of others are listed (spec 5.3)."""


def far_tool(raw: Mapping[str, Json]) -> ToolSpec:
    """The tool that a manifest of a node describes; its origin is left open. Raises ManifestError.

    Without a time limit of its own a call has that of synchronous plugins, also for asynchronous ones (spec 6.4).
    """
    manifest = manifest_of(raw, "manifest of a node")
    communication = raw.get("communication")
    limited = isinstance(communication, dict) and bool(communication.get("timeout"))
    return ToolSpec(
        name=manifest.name,
        origin="",
        display=NODE_DISPLAY + manifest.display,
        commands=manifest.commands,
        timeout=manifest.timeout if limited else DEFAULT_SECONDS,
        idempotent=manifest.idempotent,
        eager=manifest.eager,
        callable=manifest.plugin_type in CALLABLE,
        max_running=manifest.max_running,
        push=manifest.push,
    )
