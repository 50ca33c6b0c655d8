"""Builds what serves WebSockets: the hub, and what is fed by the events of the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from app.hub.clients import ClientType
from app.hub.hub import Hub
from app.services.in_force import InForce

MIB = 1024 * 1024


def hub(in_force: InForce, new_id: Callable[[str], str], socket_key: Callable[[], str]) -> Hub:
    """Who is connected. ``socket_key`` is the key of now that WebSocket clients show."""

    def max_message_bytes(kind: ClientType) -> int:
        settings = in_force.settings
        return (settings.node_max_frame_mb if kind is ClientType.NODE else settings.socket_max_frame_mb) * MIB

    def keys(kind: ClientType) -> Sequence[str]:
        return () if kind is ClientType.NODE and in_force.settings.node_keys_only else (socket_key(),)

    return Hub(new_id=new_id, clock=time.time, max_message_bytes=max_message_bytes, keys=keys)
