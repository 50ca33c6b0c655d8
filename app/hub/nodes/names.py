"""Which node is registered under which name (D61, B32; B15 for those with a key of their own)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

from app.hub.nodes.link import Node
from app.protocol.node_names import NODE_NAME_CHARS

log = logging.getLogger(__name__)

MAX_NODES = 500
"""Nodes that may be registered at a time."""

MAX_SAME_NAME = 100
"""Nodes that may want one name."""

PING_SECONDS = 2.0
"""How long a node may take to show that it is still there when another one wants its name."""

REPLACED, TRY_AGAIN = 1001, 1013


class NodeRights(Protocol):
    """Keys that belong to one node each; whoever keeps them ends the connections of those that count no longer."""

    def allows(self, identity: str, tool: str) -> bool:
        """Whether the node with this key may bring this tool."""
        ...

    def reserved(self, name: str) -> bool:
        """Whether a node has this name by its key."""
        ...

    def on_change(self, told: Callable[[], None]) -> None:
        """Call ``told`` whenever keys or lists of tools are different ones than before."""
        ...


class NodeNames:
    """Gives names. ``entered`` is told each node that has got one, ``gone`` each that lost it, and why.

    Who is there keeps the name: another node that wants it becomes ``name-2``. One that does not answer any more is
    replaced in one step, so that its successor's tools are never missing. The name of a key is its node's alone.
    """

    def __init__(
        self, keys: NodeRights | None, entered: Callable[[Node], None], gone: Callable[[Node, str], None]
    ) -> None:
        self._keys = keys
        self._entered = entered
        self._gone = gone
        self._nodes: dict[str, Node] = {}
        self._choosing: dict[Node, asyncio.Task[None]] = {}

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The registered nodes by name, those first that have been here longest."""
        return MappingProxyType(self._nodes)

    def give(self, node: Node, wanted: str) -> None:
        """Find a name for a node, which keeps the one that it has; at once, unless the name must be fought for."""
        if node.name or node in self._choosing:
            return
        name = node.identity or wanted or node.id
        if name not in self._nodes and self._may_have(node, name):
            self._enter(node, name)
            return
        self._choose(node, name)

    def leave(self, node: Node, reason: str) -> None:
        """A node's connection is over."""
        if node.name and self._nodes.get(node.name) is node:
            del self._nodes[node.name]
            self._gone(node, reason)

    def _choose(self, node: Node, wanted: str) -> None:
        task = asyncio.create_task(self._contend(node, wanted), name=f"name for {node.id}")
        self._choosing[node] = task
        task.add_done_callback(lambda done: self._chosen(node, done))

    def _chosen(self, node: Node, task: asyncio.Task[None]) -> None:
        self._choosing.pop(node, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a name for node %s could not be found", node.id, exc_info=error)
            node.client.close(TRY_AGAIN, "no name")

    async def _contend(self, node: Node, wanted: str) -> None:
        for name in _numbered(wanted):
            if await self._taken_over(node, name):
                if name != wanted:
                    log.warning(
                        "a node called %s is here already; the one from %s is registered as %s",
                        wanted,
                        node.client.address,
                        name,
                    )
                return
        log.error("too many nodes are called %s; the one from %s is sent away", wanted, node.client.address)
        node.client.close(TRY_AGAIN, "too many nodes have this name")

    async def _taken_over(self, node: Node, name: str) -> bool:
        """Whether the search is over: the node has the name now, or is gone. False while somebody else has it."""
        while node.open:
            if not self._may_have(node, name):
                return False
            holder = self._nodes.get(name)
            if holder is None:
                self._enter(node, name)
                return True
            if node.identity == name and not holder.identity:
                self._displace(holder)
                continue
            alive = await holder.is_there(PING_SECONDS)
            if self._nodes.get(name) is holder and node.open:
                if alive:
                    return False
                self._replace(holder, node)
                return True
        return True

    def _may_have(self, node: Node, name: str) -> bool:
        return node.identity == name or self._keys is None or not self._keys.reserved(name)

    def _displace(self, holder: Node) -> None:
        """The name turns out to belong to somebody with a key: who has it without one gets another."""
        name, holder.name = holder.name, ""
        del self._nodes[name]
        self._gone_as(holder, name, "the name belongs to a node with a key of its own")
        self._choose(holder, name)

    def _replace(self, holder: Node, node: Node) -> None:
        name, holder.name = holder.name, ""
        log.info("node %s answers no more; its new connection from %s takes its place", name, node.client.address)
        reason = "replaced by a new connection"
        self._nodes[name] = node  # in its place, so that pools keep their order
        node.name = name
        holder.lost(reason)
        holder.client.close(REPLACED, reason)
        self._gone_as(holder, name, reason)
        self._entered(node)

    def _gone_as(self, node: Node, name: str, reason: str) -> None:
        node.name = name
        self._gone(node, reason)
        node.name = ""

    def _enter(self, node: Node, name: str) -> None:
        if len(self._nodes) >= MAX_NODES:
            log.error("%d nodes are registered; the one from %s is sent away", MAX_NODES, node.client.address)
            node.client.close(TRY_AGAIN, "too many nodes")
            return
        node.name = name
        self._nodes[name] = node
        self._entered(node)

    async def stop(self) -> None:
        """Look for names no longer."""
        tasks = tuple(self._choosing.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _numbered(name: str) -> Iterator[str]:
    yield name
    for number in range(2, MAX_SAME_NAME + 1):
        tail = f"-{number}"
        yield name[: NODE_NAME_CHARS - len(tail)] + tail
