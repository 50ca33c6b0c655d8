"""Tool clients over lines of memory: each frame is served in the moment in which it is sent."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from app.extend import (
    CallContext,
    Door,
    Event,
    Guard,
    Json,
    SocketHandler,
    SocketRequest,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from app.hub.tool_clients.calls import ToolSocketRules
from app.hub.tool_clients.registry import RegistryLimits
from app.hub.tool_clients.runs import RunLimits
from app.hub.tool_clients.tool_clients import ToolClients
from app.tools.router import Router
from tests.fixed_tools import FixedTools

MIB = 2**20
RULES = ToolSocketRules(8 * MIB, MIB, 4 * MIB, 60, password_wanted=False)


class Line:
    """The client's end of a connection; with ``breaks_at`` it is gone in the middle of that frame."""

    def __init__(self, clients: ToolClients, query: str = "", breaks_at: int | None = None) -> None:
        self.address = "127.0.0.1"
        self.waiting = 0
        self.frames: list[Any] = []
        self.closed: int | None = None
        self._breaks_at = breaks_at
        self._handler: SocketHandler = clients.accept(SocketRequest("/ws/tools", "127.0.0.1", {"snapshot": query}))
        self._handler.opened(self)

    def send(self, text: str | bytes) -> bool:
        if self.closed is not None:
            return False
        if self._breaks_at is not None and len(self.frames) + 1 >= self._breaks_at:
            self.leave(1013)
            return False
        self.frames.append(json.loads(text))
        return True

    def close(self, code: int = 1000, reason: str = "") -> None:
        del reason
        self.leave(code)

    async def ping(self, seconds: float) -> float | None:
        return 0.0 if seconds else None

    def says(self, message: Any) -> None:
        """The client sends a frame."""
        if isinstance(message, bytes):
            self._handler.binary(message)
        else:
            self._handler.text(message if isinstance(message, str) else json.dumps(message))

    def leave(self, code: int = 1006) -> None:
        """The connection ends."""
        if self.closed is None:
            self.closed = code
            self._handler.closed(code)

    def heard(self) -> list[Any]:
        """The frames since the last time."""
        frames, self.frames = self.frames, []
        return frames


class Ours(FixedTools):
    """A source with one tool of the server: it answers ``result`` as soon as the gate is open."""

    def __init__(self) -> None:
        super().__init__(ToolSpec("Ours", "local", "Ours"), ToolSpec("Still", "local", "Still", callable=False))
        self.result = ToolResult(structured={"answer": 42})
        self.gate = asyncio.Event()
        self.gate.set()

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        del spec, call, context
        started()
        await self.gate.wait()
        return self.result


class Events:
    """Keeps what was published."""

    def __init__(self) -> None:
        self.published: list[Event] = []

    def publish(self, event: Event) -> None:
        self.published.append(event)


class Bench:
    """A tool socket with a router, and one tool of the server beside those of its clients."""

    def __init__(
        self, registry: RegistryLimits | None = None, runs: RunLimits | None = None, guards: Sequence[Guard] = ()
    ) -> None:
        self.ours = Ours()
        self.events = Events()
        self.rules = RULES
        numbers = itertools.count(1)
        self.clients = ToolClients(
            call_tool=lambda call, context: self.router.call(call, context),
            elsewhere=Router((self.ours,), (), self.events).find_spec,
            reserved=lambda name: name == "AllTools",
            render=lambda _call, result: result.structured,
            rules=lambda: self.rules,
            keys=lambda: ("key",),
            new_id=lambda kind: f"{kind}-{next(numbers)}",
            clock=lambda: 0.0,
            registry_limits=registry,
            run_limits=runs,
        )
        self.router = Router((self.ours, self.clients), guards, self.events)

    def line(self, query: str = "", breaks_at: int | None = None) -> Line:
        """A new connection."""
        return Line(self.clients, query, breaks_at)

    def call(
        self, name: str = "roll", arguments: Json = None, call_id: str = "c1", depth: int = 0
    ) -> asyncio.Task[ToolResult]:
        """A call from another door."""
        call = ToolCall(id=call_id, tool=name, arguments=arguments or {})
        return asyncio.ensure_future(self.router.call(call, CallContext(turn_id="t", door=Door.AGENT, depth=depth)))

    async def settle(self) -> None:
        """Whatever can go on without a client has done so."""
        for _ in range(6):
            await asyncio.sleep(0)

    def assert_empty(self) -> None:
        """Nothing is left of anybody."""
        assert self.clients.clients() == ()
        assert self.clients.tools() == {}
        assert self.clients.running() == 0
