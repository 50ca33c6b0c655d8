"""All that is served over WebSockets: who is connected, what they bring, and what they are told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from app.config.approval_rules import ApprovalFile
from app.config.snapshot import Config
from app.extend import ApprovalAsked, ApprovalSettled, Lifecycle, PlaceholderSource, SocketSource, ToolSource
from app.hub.approval.feed import ApprovalFeed
from app.hub.approval.guard import Approvals
from app.hub.chrome import Chrome
from app.hub.clients import ClientType
from app.hub.hub import Hub
from app.hub.log.feed import HEARD, LogFeed
from app.hub.log.replay import LogReplay
from app.hub.log.replay_file import REPLAY_FILE
from app.hub.masks import Masks
from app.hub.nodes.keys import NodeKeys
from app.observe.bus import EventBus
from app.plugins.discovery import PluginSet
from app.services import far_nodes
from app.services.client_secrets import ClientSecrets
from app.services.in_force import InForce
from app.services.tool_socket import tool_clients
from app.tools.background_results import BackgroundResults
from app.tools.router import Router

MIB = 1024 * 1024


class Sockets:
    """The parts behind the WebSockets of one server, made in one order.

    ``own_tools`` are the sources of tools of this server itself, which win against those of nodes and tool clients;
    ``further`` are those that nodes and tool clients bring. ``plugins``, ``placeholders`` and ``router`` are asked at
    each use; clients are never told ``secrets``. With ``keep`` what VCPLog clients missed outlives the process.
    """

    def __init__(
        self,
        in_force: InForce,
        events: EventBus,
        *,
        plugins: Callable[[], PluginSet],
        secrets: ClientSecrets,
        background_results: BackgroundResults,
        own_tools: Sequence[ToolSource],
        placeholders: Callable[[], Iterable[PlaceholderSource]],
        router: Callable[[], Router],
        new_id: Callable[[str], str],
        keep: bool,
    ) -> None:
        self._in_force = in_force
        self._plugins = plugins

        # Who is connected.
        self.node_keys = NodeKeys(in_force.home, time.monotonic)
        self.hub = Hub(
            new_id=new_id,
            clock=time.time,
            max_message_bytes=self._max_message_bytes,
            keys=self._keys,
            identify=far_nodes.identify_nodes(self.node_keys),
        )
        far_nodes.hang_up_without_key(self.hub, self.node_keys)

        # What they bring.
        self.nodes = far_nodes.far_nodes(
            in_force, self.hub, events, background_results, new_id, own_tools, self.node_keys
        )
        self.tool_clients = tool_clients(
            in_force,
            (*own_tools, self.nodes),
            placeholders,
            router,
            events,
            new_id=new_id,
            socket_key=self.key,
        )
        self.further: tuple[ToolSource, ...] = (self.nodes, self.tool_clients)

        # What they are asked and told.
        self.approvals = Approvals(
            ApprovalFile(in_force.home, time.monotonic).rules, events, clock=time.time, new_id=new_id
        )
        questions = ApprovalFeed(
            self.hub, self.approvals, clock=time.time, zone=in_force.zone, clean=Masks(secrets).value
        )
        events.listen(questions.heard, ApprovalAsked, ApprovalSettled)
        self.log_replay = LogReplay(
            self.hub,
            in_force.home / REPLAY_FILE if keep else None,
            clock=time.time,
            zone=in_force.zone,
            count=lambda: in_force.settings.log_replay_count,
            hours=lambda: in_force.settings.log_replay_hours,
        )
        feed = LogFeed(
            self.hub,
            self.log_replay,
            clock=time.time,
            zone=in_force.zone,
            max_chars=lambda: in_force.settings.tool_result_max_chars,
            masks=Masks(secrets),
            push_masks=Masks(secrets.without_addresses),
        )
        events.listen(feed.hear, *HEARD)
        Chrome(self.hub, time.time)

        self.served: tuple[SocketSource, ...] = (self.hub, self.tool_clients)
        self.lifecycles: tuple[Lifecycle, ...] = (
            self.log_replay,  # it stops after the hub, and keeps who was there
            self.hub,
            self.node_keys,
            self.nodes,
            self.approvals,
            self.tool_clients,
        )

    def key(self) -> str:
        """The key that clients show: VCPLog's own, ``VCP_Key``, or the server's key (spec 2.2)."""
        return self._plugins().socket_key or self._in_force.settings.socket_key or self._in_force.key

    def count(self, kind: ClientType) -> int:
        """How many clients of a type are connected."""
        return self.hub.count(kind) or self.tool_clients.count(kind)

    def settings_changed(self, config: Config) -> None:
        """Let go whom the settings that are in force from now on would not let in, and look at all tools again."""
        far_nodes.keep_to(config.settings, self.hub)
        self.tool_clients.look_again()

    def _keys(self, kind: ClientType) -> Sequence[str]:
        return () if kind is ClientType.NODE and self._in_force.settings.node_keys_only else (self.key(),)

    def _max_message_bytes(self, kind: ClientType) -> int:
        settings = self._in_force.settings
        return (settings.node_max_frame_mb if kind is ClientType.NODE else settings.socket_max_frame_mb) * MIB
