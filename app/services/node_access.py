"""Who may be connected as a node: keys of nodes at the hub's door, and the end of connections that lost one (B15)."""

from __future__ import annotations

from collections.abc import Callable

from app.config.settings import Settings
from app.hub.clients import ClientType
from app.hub.hub import Hub
from app.hub.nodes.keys import NodeKeys

POLICY = 1008
"""Close code for who may not stay."""


def identify_nodes(keys: NodeKeys) -> Callable[[ClientType, str], str | None]:
    """Names who brings a key of their own; it opens the path of nodes alone."""
    return lambda kind, key: keys.identify(key) if kind is ClientType.NODE else None


def hang_up_without_key(hub: Hub, keys: NodeKeys) -> None:
    """From now on end the connection of each node whose key counts no longer."""
    keys.on_end(lambda name: _hang_up(hub, name, "the key of this node counts no longer"))


def keep_to(settings: Settings, hub: Hub) -> None:
    """End the connections that these settings, which are in force from now on, would not let in."""
    if settings.node_keys_only:
        _hang_up(hub, "", "nodes need a key of their own")


def _hang_up(hub: Hub, identity: str, reason: str) -> None:
    """End the connections of the node with this key, or of those with the common one."""
    for client in hub.clients(ClientType.NODE):
        if client.identity == identity:
            client.close(POLICY, reason)
