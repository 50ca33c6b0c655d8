"""Tools, groups and a router over them, for the tests of groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from app.extend import LOCAL, CallContext, Door, Guard, ToolCall, ToolCommand, ToolResult, ToolSpec
from app.mcp.groups.file import GroupTable, read_groups
from app.mcp.groups.groups import Groups, ServerGroup
from app.mcp.groups.tools import CALL_TOOL, GET_TOOLS, GroupTools
from app.observe.bus import EventBus
from app.tools.router import Router
from tests.fixed_tools import FixedTools

SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
    "required": ["path"],
}

CONTEXT = CallContext("turn-1", Door.MCP)


class Working(FixedTools):
    """Tools that answer with what they were called with, or with what ``answers`` has for them; can be replaced."""

    def __init__(self, *specs: ToolSpec, **answers: ToolResult) -> None:
        super().__init__(*specs)
        self.answers = answers
        self.calls: list[tuple[ToolCall, CallContext]] = []
        self.told: list[Callable[[], None]] = []

    def changed(self, told: Callable[[], None]) -> None:
        self.told.append(told)

    def replace(self, *specs: ToolSpec) -> None:
        self.specs = {spec.name: spec for spec in specs}
        for told in self.told:
            told()

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        started()
        self.calls.append((call, context))
        return self.answers.get(spec.name) or ToolResult(structured={"called": spec.name, "with": dict(call.arguments)})


def plugin(name: str, description: str = "", *, groups: str = "", parameters: Any = None, about: str = "") -> ToolSpec:
    """A tool on this machine."""
    commands = (ToolCommand(name, "", description or f"What {name} does.", parameters=parameters),)
    return ToolSpec(name, LOCAL, f"{name} 插件", commands, groups=frozenset(groups.split()), about=about)


def served(server: str, name: str, description: str = "", **command: Any) -> ToolSpec:
    """A tool of an MCP server, as its client lists it."""
    one = ToolCommand(id=name, command="", description=description, typed=True, **{"parameters": SCHEMA, **command})
    return ToolSpec(f"{server}.{name}", f"mcp:{server}", name, (one,), groups=frozenset({server}))


def table(**groups: Mapping[str, Any]) -> GroupTable:
    """What a file with these groups says."""
    return read_groups(json.dumps({"groups": groups}).encode())[0]


class Bench:
    """A router over some sources and the tools that show groups of theirs."""

    def __init__(
        self,
        *sources: FixedTools,
        declared: GroupTable = (),
        servers: tuple[ServerGroup, ...] = (),
        guards: tuple[Guard, ...] = (),
        **options: Any,
    ) -> None:
        self.declared, self.servers = declared, servers
        self.events = EventBus()
        self.heard: list[Any] = []
        self.events.listen(self.heard.append)
        self.groups = Groups(lambda: sources, lambda: self.declared, lambda: self.servers)
        self.ids = iter(f"inner-{number}" for number in range(1, 1000))
        self.tools = GroupTools(
            self.groups,
            lambda call, context: self.router.call(call, context),
            self.events,
            new_id=lambda kind: next(self.ids),
            **options,
        )
        self.router = Router((*sources, self.tools), guards, self.events)

    def names(self) -> list[str]:
        return [listed.name for listed in self.router.listed()]

    async def get(self, group: Any = None, context: CallContext = CONTEXT, **more: Any) -> ToolResult:
        given = {"group": group} if group is not None else {}
        return await self.router.call(ToolCall("outer", GET_TOOLS, {**given, **more}), context)

    async def run(self, context: CallContext = CONTEXT, **arguments: Any) -> ToolResult:
        return await self.router.call(ToolCall("outer", CALL_TOOL, arguments), context)

    async def text(self, context: CallContext = CONTEXT, **arguments: str) -> ToolResult:
        """A call that was written as text."""
        return await self.router.call(ToolCall("outer", CALL_TOOL, arguments, arguments), context)


def text_of(result: ToolResult) -> str:
    """The one text of an answer to an MCP client."""
    assert result.mcp is not None
    (content,) = result.mcp["content"]
    assert content["type"] == "text"
    text: str = content["text"]
    return text
