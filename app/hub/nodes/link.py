"""One connected far node: what it offers, and the calls that it has not answered yet (spec 6.4; B32)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType

from app.errors import VcpError, both
from app.extend import Json
from app.hub.clients import Client, encoded
from app.hub.nodes.manifests import Announced, Offered
from app.hub.nodes.pools import Offer
from app.hub.nodes.results import error_text
from app.hub.nodes.state import NodeState
from app.protocol.markers import node_not_connected, node_timed_out

MAX_CALLS = 900
"""Calls that one node may have unanswered at a time: fewer than the messages that the transport lets wait, so that a
node which is slow for a moment is not hung up on.
"""

MAX_ERROR_CHARS = 500
"""Of the text of the last failure, as it is shown to people."""

CANCEL_TOOL = "cancelTool"
"""The ability to end a call that nobody waits for any more."""


class NodeError(VcpError):
    """A far node did not do what it was asked for."""

    status = 502
    code = "node_error"


class NodeUnsentError(NodeError):
    """The node is not there, so it knows nothing of the call."""


class NodeBusyError(NodeError):
    """The node has too much to do; it knows nothing of the call."""


class NodeLostError(NodeError):
    """The connection ended while the node had the call: it may have been carried out."""


class NodeTimeoutError(NodeError):
    """The node did not answer in time."""


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """What one node may cost; sizes in bytes. ``queue_bytes`` is what the transport lets wait for it."""

    frame_bytes: int
    queue_bytes: int


class Node:
    """A node as long as its connection lasts.

    ``name`` is empty until it is registered, ``offers`` are those that count of the ``offered`` tools. ``reported`` are
    addresses that it says it has, which proves nothing. ``early_placeholders`` came before it had a name, ``greeting``
    is what it is told if it says nothing.
    """

    def __init__(self, client: Client, limits: Callable[[], NodeLimits], new_id: Callable[[], str]) -> None:
        self.client = client
        self.id = f"dist-{client.id}"
        self.name = ""
        self.announced = Announced()
        self.offered = Offered(MappingProxyType({}))
        self.offers: Mapping[str, Offer[Node]] = MappingProxyType({})
        self.reported: frozenset[str] = frozenset()
        self.early_placeholders: Mapping[str, Json] = {}
        self.greeting: asyncio.TimerHandle | None = None
        self.latency: float | None = None
        self.last_turn = 0
        self.open = True
        self._limits = limits
        self._new_id = new_id
        self._pending: dict[str, asyncio.Future[Mapping[str, Json] | NodeError]] = {}
        self._running_of: dict[str, int] = {}
        self._probe: asyncio.Task[float | None] | None = None
        self._ahead = 0
        self._calls = 0
        self._failures = 0
        self._last_error = ""

    @property
    def identity(self) -> str:
        """Whose key it showed; empty for the common one."""
        return self.client.identity

    def greeted(self) -> None:
        """No greeting is due any more."""
        if self.greeting is not None:
            self.greeting.cancel()
            self.greeting = None

    def announces(self, capability: str) -> bool:
        """Whether the node says that it has this ability."""
        return capability in self.announced.capabilities

    def running(self, tool: str) -> int:
        """Calls of one tool that are unanswered."""
        return self._running_of.get(tool, 0)

    def state(self) -> NodeState:
        """The node as lists show it."""
        return NodeState(
            name=self.name,
            version=self.announced.version,
            address=self.client.address,
            since=self.client.since,
            tools=tuple(self.offers),
            labels=self.announced.labels,
            running=len(self._pending),
            calls=self._calls,
            failures=self._failures,
            latency=self.latency,
            last_error=self._last_error,
            client=self.client.id,
            identity=self.client.identity,
        )

    # ------------------------------------------------------------------ calls

    async def request(self, tool: str, arguments: Mapping[str, Json], seconds: float) -> Json:
        """What the node answers to a request of the server itself; raises NodeError."""
        data = await self.execute(tool, arguments, seconds)
        if data.get("status") != "success":
            raise NodeError(error_text(tool, data))
        return data.get("result")

    async def execute(
        self,
        tool: str,
        arguments: Mapping[str, Json],
        seconds: float,
        *,
        told_seconds: float | None = None,
        context: Json = None,
        sent: Callable[[], None] | None = None,
    ) -> Mapping[str, Json]:
        """The ``data`` of the node's ``tool_result``, with whatever status.

        ``seconds`` is how long it may take, ``told_seconds`` the limit that the error names. ``sent`` is called when
        the request is on its way. Raises NodeError; who cancels the call cancels it at the node, if that can do it.
        """
        request_id = self._new_id()
        frame = self._frame(request_id, tool, arguments, context)
        future: asyncio.Future[Mapping[str, Json] | NodeError] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = future
        was_waiting = self.client.socket.waiting
        if not self.client.send(frame):
            del self._pending[request_id]
            raise NodeUnsentError(node_not_connected(self.id))
        if not was_waiting:
            self._ahead = self.client.socket.waiting  # of this message, which may be longer than all that may wait
        self._calls += 1
        self._running_of[tool] = self._running_of.get(tool, 0) + 1
        if sent is not None:
            sent()
        timer = future.get_loop().call_later(seconds, self._expire, request_id, tool, told_seconds or seconds)
        try:
            answer = await future
        except asyncio.CancelledError:
            self._give_up(request_id)
            raise
        finally:
            timer.cancel()
            self._pending.pop(request_id, None)
            self._running_of[tool] -= 1
            if not self._running_of[tool]:
                del self._running_of[tool]
        if isinstance(answer, NodeError):
            self._failed(answer.message)
            raise answer
        if answer.get("status") != "success":
            self._failed(error_text(tool, answer))
        return answer

    def _frame(self, request_id: str, tool: str, arguments: Mapping[str, Json], context: Json) -> bytes:
        if not self.open:
            raise NodeUnsentError(node_not_connected(self.id))
        if len(self._pending) >= MAX_CALLS:
            raise NodeBusyError(
                both(
                    f"节点 {self.name} 上未完成的调用已达上限 {MAX_CALLS} 个",
                    f"node {self.name} has {MAX_CALLS} unanswered calls, no more are sent to it",
                )
            )
        data: dict[str, Json] = {"requestId": request_id, "toolName": tool, "toolArgs": arguments}
        if context is not None:
            data["_vcpContext"] = context
        try:
            frame = encoded({"type": "execute_tool", "data": data})
        except (TypeError, ValueError, RecursionError) as error:
            raise NodeError(
                both("参数不能写成 JSON", "the arguments cannot be written as JSON") + f" ({type(error).__name__})"
            ) from error
        limits = self._limits()
        if len(frame) > limits.frame_bytes:
            raise NodeError(
                both(
                    f"参数过大：{len(frame)} 字节，节点单帧上限 {limits.frame_bytes} 字节（NodeMaxFrameMB）",
                    f"the arguments are too large: {len(frame)} bytes, a node's frame has at most "
                    f"{limits.frame_bytes} (NodeMaxFrameMB)",
                )
            )
        waiting = self.client.socket.waiting
        if waiting and waiting + len(frame) > self._ahead + limits.queue_bytes:  # the transport would hang up
            raise NodeBusyError(
                both(
                    f"节点 {self.name} 尚未取走之前的数据，请稍后重试",
                    f"node {self.name} has not taken yet what was sent to it before, try again later",
                )
            )
        return frame

    def answered(self, data: Mapping[str, Json]) -> bool:
        """A ``tool_result`` came; False when no call waits for it."""
        request_id = data.get("requestId")
        future = self._pending.pop(request_id, None) if isinstance(request_id, str) else None
        if future is None or future.done():
            return False
        future.set_result(data)
        return True

    def lost(self, reason: str) -> None:
        """The connection is over: all that wait are told at once (B32)."""
        self.open = False
        waiting, self._pending = self._pending, {}
        for future in waiting.values():
            if not future.done():
                future.set_result(NodeLostError(reason))

    def _expire(self, request_id: str, tool: str, seconds: float) -> None:
        future = self._pending.get(request_id)
        if future is None or future.done():
            return
        self._give_up(request_id)
        future.set_result(NodeTimeoutError(node_timed_out(tool, self.id, seconds)))

    def _give_up(self, request_id: str) -> None:
        """Nobody waits any more: the node may stop, if it knows how."""
        if self._pending.pop(request_id, None) is not None and self.open and self.announces(CANCEL_TOOL):
            self.client.send({"type": "cancel_tool", "data": {"requestId": request_id}})

    def _failed(self, message: str) -> None:
        self._failures += 1
        self._last_error = message[:MAX_ERROR_CHARS]

    # ------------------------------------------------------------------ is it there

    def look(self, seconds: float) -> asyncio.Task[float | None]:
        """Begin to measure how long a ping takes; those who ask while one is on its way share it."""
        if self._probe is None:
            self._probe = asyncio.create_task(self.client.socket.ping(seconds), name=f"ping {self.id}")
            self._probe.add_done_callback(self._probed)
        return self._probe

    async def is_there(self, seconds: float) -> bool:
        """Whether the node answers a ping in time."""
        return await asyncio.shield(self.look(seconds)) is not None

    def _probed(self, probe: asyncio.Task[float | None]) -> None:
        self._probe = None
        if not probe.cancelled() and probe.exception() is None and (latency := probe.result()) is not None:
            self.latency = latency


def request_ids(prefix: str) -> Callable[[], str]:
    """Ids that differ from each other and, with another ``prefix``, from those of other starts of the server."""
    numbers = count(1)
    return lambda: f"{prefix}-{next(numbers):x}"
