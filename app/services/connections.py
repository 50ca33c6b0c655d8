"""Builds what serves WebSockets: the hub, and what is fed by the events of the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from app.config.settings import Settings
from app.hub.clients import ClientType
from app.hub.hub import Hub
from app.hub.node_keys import NodeKeys
from app.services.in_force import InForce

MIB = 1024 * 1024
POLICY = 1008
"""Close code for who may not stay."""


def hub(in_force: InForce, new_id: Callable[[str], str], socket_key: Callable[[], str], node_keys: NodeKeys) -> Hub:
    """Who is connected. ``socket_key`` is the key of now that WebSocket clients show; nodes may have their own."""

    def max_message_bytes(kind: ClientType) -> int:
        settings = in_force.settings
        return (settings.node_max_frame_mb if kind is ClientType.NODE else settings.socket_max_frame_mb) * MIB

    def keys(kind: ClientType) -> Sequence[str]:
        return () if kind is ClientType.NODE and in_force.settings.node_keys_only else (socket_key(),)

    def identify(kind: ClientType, key: str) -> str | None:
        return node_keys.identify(key) if kind is ClientType.NODE else None

    made = Hub(new_id=new_id, clock=time.time, max_message_bytes=max_message_bytes, keys=keys, identify=identify)
    node_keys.on_end(lambda name: _hang_up(made, name, "the key of this node counts no longer"))
    return made


def keep_to(settings: Settings, hub: Hub) -> None:
    """End the connections that these settings, which are in force from now on, would not let in."""
    if settings.node_keys_only:
        _hang_up(hub, "", "nodes need a key of their own")


def _hang_up(hub: Hub, identity: str, reason: str) -> None:
    """End the connections of the node with this key, or of those with the common one."""
    for client in hub.clients(ClientType.NODE):
        if client.identity == identity:
            client.close(POLICY, reason)
