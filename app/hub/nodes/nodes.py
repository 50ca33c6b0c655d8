"""All far nodes: what they say, the tools that they bring, and how they are reached (spec 6.4; D19, D60).

A node is what has introduced itself over a connection to ``/vcp-distributed-server``. What it says is data: names are
checked, texts are put into prompts literally, and nothing that it claims gives it more than its key does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from app.extend import (
    CallContext,
    Clock,
    EventSink,
    Json,
    NodeJoined,
    NodeLeft,
    SocketRequest,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from app.hub.clients import Client, ClientType, Message
from app.hub.hub import Hub
from app.hub.nodes.callbacks import NodeCallbacks, StoreResult
from app.hub.nodes.calls import NodeCalls
from app.hub.nodes.intake import Intake
from app.hub.nodes.link import Node, NodeLimits, request_ids
from app.hub.nodes.manifests import ReadManifest, node_address, node_name, read_announced, read_tools
from app.hub.nodes.names import PING_SECONDS, NodeNames, NodeRights
from app.hub.nodes.placeholders import NodePlaceholders
from app.hub.nodes.pools import Offer, Pool, offer_of, pool_of
from app.hub.nodes.state import NodeState
from app.protocol.hub_messages import node_acknowledged

log = logging.getLogger(__name__)

MAX_REPORTED = 64
"""Addresses that a node may report."""

ACKNOWLEDGE_SECONDS = 1.0
"""A node that has said nothing for so long is told that it is connected: some introduce themselves only then."""

SERVER_LEAVES = 1001
SHOWN = 20
"""Names in one line of the log."""


@dataclass(frozen=True, slots=True)
class NodeRules:
    """The settings that nodes are under: what one connection may cost, sizes in bytes, ``placeholder_chars`` of one
    value, seconds between pings. ``head`` selects the later form of requests (D16).
    """

    link: NodeLimits
    callback_bytes: int
    placeholder_chars: int
    ping_seconds: float
    head: bool


class Nodes:
    """The far nodes that are connected, as a source of tools; ``placeholders`` is their source of placeholders.

    ``rules`` gives the settings of now, ``read_manifest`` makes a tool of a manifest, ``store`` keeps a background
    result. ``local_names`` are the names of tools that this server has without nodes: those win (W4). ``keys`` are
    those that belong to one node each. ``busy`` is a steady clock, by which reading what nodes register has its limits.
    """

    def __init__(
        self,
        hub: Hub,
        events: EventSink,
        *,
        rules: Callable[[], NodeRules],
        read_manifest: ReadManifest,
        store: StoreResult,
        new_id: Callable[[str], str],
        local_names: Callable[[], Collection[str]],
        keys: NodeRights | None = None,
        busy: Clock = time.perf_counter,
    ) -> None:
        self._events = events
        self._rules = rules
        self._read_manifest = read_manifest
        self._local_names = local_names
        self._keys = keys
        self._new_request_id = request_ids(new_id("node"))
        self._connected: dict[str, Node] = {}
        self._registrations = Intake(self._read_registration, busy)
        self._names = NodeNames(keys, self._entered, self._gone)
        self._pools: Mapping[str, Pool[Node]] = MappingProxyType({})
        self._tools: Mapping[str, ToolSpec] = MappingProxyType({})
        self._left_over: set[str] = set()
        self._told: list[Callable[[], None]] = []
        self._pinging: asyncio.Task[None] | None = None
        self.placeholders = NodePlaceholders(lambda: rules().placeholder_chars)
        self._callbacks = NodeCallbacks(
            store, events, max_bytes=lambda: rules().callback_bytes, local_names=local_names
        )
        self._calls = NodeCalls(self._members, self._callbacks, head=lambda: rules().head)
        hub.joined(ClientType.NODE, self._joined)
        hub.left(ClientType.NODE, self._left)
        for message_type, listener in (
            ("register_tools", self._register),
            ("report_ip", self._report_ip),
            ("update_static_placeholders", self._update_placeholders),
            ("tool_result", self._tool_result),
            ("plugin_callback_forward", self._callback),
        ):
            hub.heard(ClientType.NODE, message_type, listener)
        if keys is not None:
            keys.on_change(self._keys_changed)

    # ------------------------------------------------------------------ a source of tools

    def tools(self) -> Mapping[str, ToolSpec]:
        """The pooled tools by name."""
        return self._tools

    def changed(self, told: Callable[[], None]) -> None:
        """Call ``told`` whenever nodes or their tools have changed."""
        self._told.append(told)

    def addressed(self, name: str) -> ToolSpec | None:
        """The tool behind ``node#tool`` or ``label#tool``, also one that lost its name to another (D60, W4)."""
        head, mark, tool = name.partition("#")
        members = self._members(head, tool) if mark and head else ()
        return members[0].spec if members else None

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        """Run a call on the node that is named before the ``#``, or on the least busy one of the pool."""
        return await self._calls.call(spec, call, context, started)

    def _members(self, head: str, tool: str) -> Sequence[Offer[Node]]:
        if not head:
            pool = self._pools.get(tool)
            return pool.members if pool is not None else ()
        nodes = self._names.nodes
        if (node := nodes.get(head)) is not None:
            return (node.offers[tool],) if tool in node.offers else ()
        offers = (offer for node in nodes.values() if (offer := node.offers.get(tool)) is not None)
        pool = pool_of(offer for offer in offers if head in offer.spec.labels)
        return pool.members if pool is not None else ()

    # ------------------------------------------------------------------ what others ask

    def list(self) -> Sequence[NodeState]:
        """The registered nodes, those first that have been here longest."""
        return [node.state() for node in self._names.nodes.values()]

    def addresses(self) -> Collection[str]:
        """The addresses from which nodes are connected (D19); what they report of themselves proves nothing."""
        return frozenset(node.client.address for node in self._names.nodes.values())

    def knows_task(self, plugin: str, task: str) -> bool:
        """Whether a node named this task of a plugin of its own in an answer (D19)."""
        return plugin not in self._local_names() and self._callbacks.knows(plugin, task)

    def muted_task(self, plugin: str, task: str) -> bool:
        """Whether nothing of this task is to be pushed, since its turn was interrupted (D27)."""
        return self._callbacks.muted(plugin, task)

    def holder_for(self, url: str, context: CallContext) -> Node | None:
        """The node that has the file of a ``file://`` address for this caller, or None (spec 5.9, D62).

        By the caller's address: where the node's connection comes from, then what it reports; else by the node's name
        as the address's host.
        """
        nodes = tuple(self._names.nodes.values())
        caller, wanted = context.client_ip, _host(url)
        nearest = (
            [node for node in nodes if node.client.address == caller],
            [node for node in nodes if caller in node.reported],
            [node for node in nodes if wanted and node.name.lower() == wanted],
        )
        return next((found[0] for found in nearest if found), None)

    # ------------------------------------------------------------------ what nodes say

    def _joined(self, client: Client, request: SocketRequest) -> None:
        node = self._connected[client.id] = Node(client, self._link_limits, self._new_request_id)
        kind = f"with the key of {client.identity}" if client.identity else "with the common key"
        log.info("a far node is connected from %s %s", client.address, kind)
        acknowledged = node_acknowledged(node.id, client.id)
        if self._rules().head:
            client.send(acknowledged)
        else:  # nodes that know no acknowledgement introduce themselves at once, and get none
            node.greeting = asyncio.get_running_loop().call_later(ACKNOWLEDGE_SECONDS, client.send, acknowledged)

    def _link_limits(self) -> NodeLimits:
        return self._rules().link

    def _register(self, client: Client, message: Message) -> None:
        """``register_tools``: what a node sends is all that it has, so it replaces what it sent before."""
        node, data = self._heard(client, message)
        if not isinstance(data.get("tools"), list):
            log.warning("node %s registers no list of tools; ignored", node.name or node.id)
            return
        self._registrations.put(node, data)

    def _read_registration(self, node: Node, data: Mapping[str, Json]) -> Generator[None]:
        entries, announced = data["tools"], read_announced(data)
        offered = yield from read_tools(entries, announced.labels, self._read_manifest)
        if not node.open:
            return
        node.announced, node.offered = announced, offered
        if node.offered.unusable:
            log.warning(
                "node %s: %d of its %d tools cannot be used: no name, type or entry point, a name that is twice there, "
                "or too many or too large",
                node.name or node.id,
                node.offered.unusable,
                len(entries),
            )
        if node.name:
            self._refresh(node)
        self._introduce(node, node.announced.name)

    def _report_ip(self, client: Client, message: Message) -> None:
        node, data = self._heard(client, message)
        local = data.get("localIPs")
        said = [*(local[:MAX_REPORTED] if isinstance(local, list) else ()), data.get("publicIP")]
        node.reported = frozenset(address for ip in said if (address := node_address(ip)))
        self._introduce(node, node_name(data.get("serverName")))

    def _update_placeholders(self, client: Client, message: Message) -> None:
        node, data = self._heard(client, message)
        values = data.get("placeholders")
        if not isinstance(values, dict):
            log.warning("node %s sends no object of placeholders; ignored", node.name or node.id)
            return
        self._introduce(node, node_name(data.get("serverName")))
        if not node.name:
            node.early_placeholders = values
        else:
            self._take_placeholders(node, values)

    def _take_placeholders(self, node: Node, values: Mapping[str, Json]) -> None:
        left_out = self.placeholders.update(node.id, values)
        if left_out:
            log.warning(
                "node %s: %d of its placeholders are left out: no names, or too many, or too long", node.name, left_out
            )

    def _tool_result(self, client: Client, message: Message) -> None:
        node, data = self._heard(client, message)
        if not node.answered(data):
            log.info("node %s sends a result that no call waits for; ignored", node.name or node.id)

    def _callback(self, client: Client, message: Message) -> None:
        node, data = self._heard(client, message)
        self._callbacks.take(node, data)

    def _heard(self, client: Client, message: Message) -> tuple[Node, Mapping[str, Json]]:
        node, data = self._connected[client.id], message.get("data")
        node.greeted()
        return node, data if isinstance(data, dict) else {}

    def _introduce(self, node: Node, wanted: str) -> None:
        if node.identity and wanted and wanted != node.identity and not node.name:
            log.warning("the node with the key of %s calls itself %s; its key counts", node.identity, wanted)
        self._names.give(node, wanted)

    # ------------------------------------------------------------------ who comes and goes

    def _entered(self, node: Node) -> None:
        values, node.early_placeholders = node.early_placeholders, {}
        if values:
            self._take_placeholders(node, values)
        self._refresh(node, new=True)
        node.look(PING_SECONDS)

    def _refresh(self, node: Node, *, new: bool = False) -> None:
        """Put the tools that the node may bring in force, as they are offered now."""
        before = node.offers
        node.offers = MappingProxyType(
            {
                name: offer_of(
                    node,
                    replace(spec, origin=f"node:{node.name}"),
                    node.offered.schemas[name],
                    lambda own: self._may_bring(node, own),
                )
                for name, spec in node.offered.tools.items()
                if self._may_bring(node, name)
            }
        )
        if not new and node.offers == before:
            return
        self._arrange({**before, **node.offers})
        refused = len(node.offered.tools) - len(node.offers)
        log.info(
            "node %s has %d tools%s", node.name, len(node.offers), f"; {refused} are not on its list" if refused else ""
        )
        self._tell_of_losers(node)
        self._events.publish(NodeJoined(node.name, node.client.address, tuple(node.offers)))

    def _may_bring(self, node: Node, tool: str) -> bool:
        return self._keys is None or self._keys.allows(node.identity, tool)

    def _tell_of_losers(self, node: Node) -> None:
        local = self._local_names()
        here = [name for name in node.offers if name in local]
        others = [
            name
            for name in node.offers
            if name in self._pools and any(offer.node is node for offer in self._pools[name].outside)
        ]
        for why, names in (
            ("this server has tools of these names, which win", here),
            ("other nodes have different tools of these names", others),
        ):
            if names:
                shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
                log.warning("node %s: %s; call them as %s#<tool>: %s", node.name, why, node.name, shown)

    def _gone(self, node: Node, reason: str) -> None:
        if not node.open:  # else it only gets another name
            self.placeholders.forget(node.id)
        if node.name in self._names.nodes:  # a successor: its tools take the place of these in one step
            self._left_over |= node.offers.keys()
        else:
            self._arrange(node.offers)
        log.info("node %s is gone: %s", node.name, reason)
        self._events.publish(NodeLeft(node.name, reason))

    def _left(self, client: Client, code: int) -> None:
        node = self._connected.pop(client.id)
        node.greeted()
        self._registrations.forget(node)
        node.lost(f"connection closed ({code})")
        self._names.leave(node, f"connection closed ({code})")

    def _arrange(self, names: Collection[str]) -> None:
        """Make the pools of these names anew."""
        nodes = self._names.nodes.values()
        pools = dict(self._pools)
        left_over, self._left_over = self._left_over, set()
        for name in (*names, *left_over):
            offers = (offer for node in nodes if (offer := node.offers.get(name)) is not None)
            pool = pool_of(offers)
            if pool is not None:
                pools[name] = pool
            else:
                pools.pop(name, None)
        self._pools = MappingProxyType(pools)
        self._tools = MappingProxyType({name: pool.spec for name, pool in pools.items()})
        for told in self._told:
            told()

    # ------------------------------------------------------------------ keys

    def _keys_changed(self) -> None:
        for node in tuple(self._names.nodes.values()):
            self._refresh(node)

    # ------------------------------------------------------------------ life

    async def start(self) -> None:
        """Begin to measure how far nodes are."""
        self._pinging = asyncio.create_task(self._ping_all(), name="pings of nodes")

    async def _ping_all(self) -> None:
        while True:
            await asyncio.sleep(self._rules().ping_seconds)
            for node in tuple(self._names.nodes.values()):
                node.look(PING_SECONDS)

    def health(self) -> str:
        """Nodes may be missing; the server is well all the same."""
        return ""

    async def stop(self) -> None:
        """End all calls and connections of nodes."""
        if self._pinging is not None:
            self._pinging.cancel()
            await asyncio.wait([self._pinging])
        self._registrations.stop()
        await self._names.stop()
        for node in tuple(self._connected.values()):
            node.lost("the server stops")
            node.client.close(SERVER_LEAVES, "the server stops")
        await self._callbacks.stop()


def _host(url: str) -> str:
    """The host of a ``file://`` address as a node's name, in small letters; empty without one."""
    try:
        return node_name(unquote(urlsplit(url).netloc)).lower()
    except ValueError:
        return ""
