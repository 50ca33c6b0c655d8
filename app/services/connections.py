"""Builds what serves WebSockets: the hub, and what is fed by the events of the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from app.hub.chrome import Chrome
from app.hub.clients import ClientType
from app.hub.hub import Hub
from app.hub.log_feed import HEARD, LogFeed
from app.hub.masks import Masks
from app.hub.node_files import HolderFor, NodeFiles
from app.hub.replay import LogReplay
from app.hub.replay_file import REPLAY_FILE
from app.observe.bus import EventBus
from app.plugins.missing_files import FILE_BYTES
from app.services.client_secrets import ClientSecrets
from app.services.in_force import InForce

MIB = 1024 * 1024


def hub(
    in_force: InForce,
    new_id: Callable[[str], str],
    socket_key: Callable[[], str],
    identify: Callable[[ClientType, str], str | None],
) -> Hub:
    """Who is connected. ``socket_key`` is the key of now that clients show, ``identify`` names who has another one."""

    def max_message_bytes(kind: ClientType) -> int:
        settings = in_force.settings
        return (settings.node_max_frame_mb if kind is ClientType.NODE else settings.socket_max_frame_mb) * MIB

    def keys(kind: ClientType) -> Sequence[str]:
        return () if kind is ClientType.NODE and in_force.settings.node_keys_only else (socket_key(),)

    return Hub(new_id=new_id, clock=time.time, max_message_bytes=max_message_bytes, keys=keys, identify=identify)


def node_files(in_force: InForce, holder_for: HolderFor) -> NodeFiles:
    """What fetches files that plugins lack from the node beside the client."""
    return NodeFiles(holder_for, max_bytes=FILE_BYTES, frame_bytes=lambda: in_force.settings.node_max_frame_mb * MIB)


def log_replay(in_force: InForce, hub: Hub, *, keep: bool) -> LogReplay:
    """What devices missed while they were away; with ``keep`` it outlives the process."""
    return LogReplay(
        hub,
        in_force.home / REPLAY_FILE if keep else None,
        clock=time.time,
        zone=in_force.zone,
        count=lambda: in_force.settings.log_replay_count,
        hours=lambda: in_force.settings.log_replay_hours,
    )


def feed_clients(in_force: InForce, hub: Hub, replay: LogReplay, events: EventBus, secrets: ClientSecrets) -> None:
    """From now on clients are told what happens, and browsers are answered."""
    feed = LogFeed(
        hub,
        replay,
        clock=time.time,
        zone=in_force.zone,
        max_chars=lambda: in_force.settings.tool_result_max_chars,
        masks=Masks(secrets),
        push_masks=Masks(secrets.without_addresses),
    )
    events.listen(feed.hear, *HEARD)
    Chrome(hub, time.time)
