"""A door over tools that tests write, and the SDK's clients of both eras in front of it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp import Client

from app.extend import LOCAL, CallContext, Event, Guard, ToolCall, ToolCommand, ToolResult, ToolSource, ToolSpec
from app.mcp.server.door import McpDoor, McpDoorRules
from app.observe.bus import EventBus
from app.services.mcp_server import fault_of
from app.tools.offers import DoorRules, Offers
from app.tools.router import Router
from tests.fixed_tools import FixedTools

MODERN = "2026-07-28"
ERAS = ("legacy", MODERN)

Work = Callable[[ToolCall, CallContext], Awaitable[ToolResult]]


class Tools(FixedTools):
    """A source of tools that may change; what a call does is ``work``, by the tool's name."""

    def __init__(self) -> None:
        super().__init__()
        self.work: dict[str, Work] = {}
        self.calls: list[ToolCall] = []
        self.contexts: list[CallContext] = []
        self._told: list[Callable[[], None]] = []

    def add(self, name: str, work: Work, *commands: ToolCommand, **fields: Any) -> None:
        """A tool; with keyword arguments of a command it has that one command."""
        spec_fields = {key: fields.pop(key) for key in ("origin", "display", "groups") if key in fields}
        if not commands:
            commands = (ToolCommand(id="run", command="", **{"description": f"Runs {name}", **fields}),)
        spec = ToolSpec(
            name, spec_fields.pop("origin", LOCAL), spec_fields.pop("display", name), commands, **spec_fields
        )
        self.work[name] = work
        self.put({**self.specs, name: spec})

    def put(self, specs: Mapping[str, ToolSpec]) -> None:
        """These are the tools now."""
        self.specs = dict(specs)
        for told in self._told:
            told()

    def changed(self, told: Callable[[], None]) -> None:
        self._told.append(told)

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        started()
        self.calls.append(call)
        self.contexts.append(context)
        return await self.work[spec.name](call, context)


class DoorBench:
    """A door and what stands behind it."""

    def __init__(self, *guards: Guard, source: ToolSource | None = None, **fields: Any) -> None:
        self.tools = Tools()
        self.bus = EventBus()
        self.events: list[Event] = []
        self.bus.listen(self.events.append)
        self.router = Router([source or self.tools], guards, self.bus)
        self.rules = McpDoorRules()
        self.shown = DoorRules()
        ids = itertools.count(1)
        self.door = McpDoor(
            offers=Offers(self.router.catalogue, lambda: self.shown),
            call_tool=self.router.call,
            events=self.bus,
            changed=self.router.changed,
            rules=lambda: self.rules,
            new_id=lambda kind: f"{kind}-{next(ids)}",
            clock=lambda: 1_800_000_000.0,
            **{"validate": fault_of, "debounce_seconds": 0.01, **fields},
        )

    async def __aenter__(self) -> DoorBench:
        await self.door.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.door.stop()

    def client(self, era: str, **fields: Any) -> Client:
        """A client of the SDK."""
        return Client(self.door.server, mode=era, **fields)


async def says(call: ToolCall, context: CallContext) -> ToolResult:
    """The work of a tool that says what it was given."""
    return ToolResult(structured={"said": dict(call.arguments)})


def answering(result: ToolResult) -> Work:
    """The work of a tool that always answers this."""

    async def work(call: ToolCall, context: CallContext) -> ToolResult:
        return result

    return work


async def forever(call: ToolCall, context: CallContext) -> ToolResult:
    """The work of a tool that never ends by itself."""
    await asyncio.Event().wait()
    raise AssertionError("an event that nobody sets was set")
