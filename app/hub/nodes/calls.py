"""Carries out calls of tools that far nodes offer: who takes one, and what if that node is lost (D60, spec 6.4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from app.errors import both
from app.extend import CallContext, Door, ErrorKind, Json, ToolCall, ToolResult, ToolSpec
from app.hub.nodes.callbacks import NodeCallbacks
from app.hub.nodes.link import Node, NodeBusyError, NodeError, NodeLostError, NodeTimeoutError, NodeUnsentError
from app.hub.nodes.pools import Load, Offer, least_busy
from app.hub.nodes.results import result_of
from app.protocol.markers import node_not_connected
from app.tools.plain_arguments import plain_arguments

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 8
"""Nodes that are tried for one call."""

Members = Callable[[str, str], Sequence[Offer[Node]]]
"""The nodes that can take a call of a tool now: of the pool (first argument empty), or behind a name before ``#``."""


class NodeCalls:
    """``members`` gives those who can take a call. ``head``: the later form of requests, which tells where a call
    comes from.
    """

    def __init__(self, members: Members, callbacks: NodeCallbacks, *, head: Callable[[], bool]) -> None:
        self._members = members
        self._callbacks = callbacks
        self._head = head
        self._turns = 0

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        """Run a call on one node; on the next one where it was surely not begun, or may be begun twice."""
        if not spec.callable:
            return ToolResult(
                error_kind=ErrorKind.EXECUTION,
                message=both(
                    f"节点上的插件 {spec.name} 不能被调用",
                    f"plugin {spec.name} of a node is of a type that cannot be called",
                ),
            )
        try:
            arguments = plain_arguments(spec, call, as_given=context.door is Door.SCHEDULE)
        except ValueError as error:
            return ToolResult(
                error_kind=ErrorKind.EXECUTION,
                message=both("参数不能写成 JSON", "the arguments cannot be written as JSON") + f": {error}",
            )
        extra = _origin(context) if self._head() else None
        head, mark, _ = call.tool.partition("#")
        asked = head if mark else ""
        tried: set[Node] = set()
        ends: float | None = None
        failed: NodeError | None = None
        clock = asyncio.get_running_loop().time
        for _ in range(MAX_ATTEMPTS):
            left = [offer for offer in self._members(asked, spec.name) if offer.node not in tried]
            if not left:
                break
            offer = self._chosen(left)
            node, limit = offer.node, offer.spec.timeout
            tried.add(node)
            if ends is None:
                ends = clock() + limit
                if context.deadline is not None and context.deadline < ends:
                    ends = context.deadline
                    limit = round(max(0.0, ends - clock()), 3)
            try:
                data = await node.execute(
                    spec.name,
                    arguments,
                    max(0.0, ends - clock()),
                    told_seconds=limit,
                    context=extra,
                    sent=partial(started, node=node.name),
                )
            except (NodeUnsentError, NodeBusyError) as error:
                if not isinstance(failed, NodeLostError):  # that one may have been carried out, which counts more
                    failed = error
            except NodeLostError as error:
                log.warning("node %s was lost while it ran %s (%s)", node.name or node.id, spec.name, error.message)
                failed = NodeLostError(_maybe_done(spec.name))
                if not offer.spec.idempotent:
                    break
            except NodeError as error:
                failed = error
                break
            else:
                result = result_of(spec.name, data)
                if result.ok:
                    self._callbacks.answered(node, spec.name, result.structured, context.mute)
                return result
        return _failure(failed or NodeUnsentError(node_not_connected(asked or spec.origin)))

    def _chosen(self, offers: Sequence[Offer[Node]]) -> Offer[Node]:
        if len(offers) == 1:
            return offers[0]
        loads = [
            Load(
                offer.node.running(offer.spec.name),
                offer.spec.max_running,
                offer.node.latency,
                offer.node.last_turn,
            )
            for offer in offers
        ]
        chosen = offers[least_busy(loads)]
        self._turns += 1
        chosen.node.last_turn = self._turns
        return chosen


def _origin(context: CallContext) -> Json:
    """Where a call comes from, beside its arguments, so that no model can forge it."""
    return {"turnId": context.turn_id, "source": str(context.door), "depth": context.depth}


def _maybe_done(tool: str) -> str:
    return both(
        f"节点在执行 {tool} 时断开连接，此调用可能已经执行，没有自动重试",
        f"the node was lost while it ran {tool}; the call may have been carried out and was not repeated",
    )


def _failure(error: NodeError) -> ToolResult:
    kind = ErrorKind.EXECUTION
    if isinstance(error, NodeTimeoutError):
        kind = ErrorKind.TIMEOUT
    elif isinstance(error, NodeBusyError):
        kind = ErrorKind.QUEUE
    return ToolResult(error_kind=kind, message=error.message)
