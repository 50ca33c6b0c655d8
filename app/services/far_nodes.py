"""Builds what knows the far nodes, under the settings of now, and says who may be connected as one (B15)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.config.settings import Settings
from app.extend import EventSink, ToolSource
from app.hub.clients import ClientType
from app.hub.hub import Hub
from app.hub.nodes.files import HolderFor, NodeFiles
from app.hub.nodes.keys import NodeKeys
from app.hub.nodes.link import NodeLimits
from app.hub.nodes.nodes import NodeRules, Nodes
from app.plugins.far_manifest import far_tool
from app.plugins.missing_files import FILE_BYTES
from app.services.in_force import InForce
from app.tools.background_results import BackgroundResults

MIB = 1024 * 1024

POLICY = 1008
"""Close code for who may not stay."""


def far_nodes(
    in_force: InForce,
    hub: Hub,
    events: EventSink,
    results: BackgroundResults,
    new_id: Callable[[str], str],
    local: Sequence[ToolSource],
    keys: NodeKeys,
) -> Nodes:
    """The far nodes that are connected. ``local`` are the sources whose tools win against theirs (W4)."""

    def rules(settings: Settings) -> NodeRules:
        return NodeRules(
            link=NodeLimits(settings.node_max_frame_mb * MIB, settings.socket_queue_mb * MIB),
            callback_bytes=settings.callback_body_limit_mb * MIB,
            placeholder_chars=settings.static_value_max_chars,
            ping_seconds=settings.socket_ping_seconds,
            head=settings.compat_profile == "head",
        )

    def local_names() -> frozenset[str]:
        return frozenset(name for source in local for name in source.tools())

    return Nodes(
        hub,
        events,
        rules=in_force.following(rules),
        read_manifest=far_tool,
        store=results.store,
        new_id=new_id,
        local_names=local_names,
        keys=keys,
    )


def node_files(in_force: InForce, holder_for: HolderFor) -> NodeFiles:
    """What fetches files that plugins lack from the node beside the client."""
    return NodeFiles(holder_for, max_bytes=FILE_BYTES, frame_bytes=lambda: in_force.settings.node_max_frame_mb * MIB)


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
