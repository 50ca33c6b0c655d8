"""Builds groups of tools: over all tools of a server, shown on demand (mcp.md section 2, for every tool)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

from app.extend import CallContext, CallProgress, Door, Piece, ToolCall, ToolResult, ToolSource, ToolSpec
from app.mcp.client.servers import McpServers
from app.mcp.client.status import ServerState, ServerStatus
from app.mcp.groups.file import GroupFile, GroupTable
from app.mcp.groups.groups import Groups, GroupSet, ServerGroup
from app.mcp.groups.injection import GroupInjection, InjectionRules
from app.mcp.groups.placeholders import group_texts
from app.mcp.groups.tools import GroupTools
from app.mcp.groups.watch import GroupWatch
from app.observe.bus import EventBus
from app.prompt.tools import DescribedTools
from app.services.in_force import InForce
from app.tools.router import Router

STATES_SECONDS = 1.0
"""The states of MCP servers are looked at when the last look is at least this long ago."""

_UNREACHED = frozenset({ServerState.FAILED, ServerState.SIGN_IN})


class ToolGroups:
    """The groups of all tools of one router, and the tools that show them.

    ``servers`` are the MCP servers that are groups of their own, ``declared`` gives the groups that a person wrote
    down, ``denied`` what a door shows to nobody. The two tools are there ``always`` where a program has nothing else
    to show (MOD-9). ``clock`` gives seconds of a steady clock.
    """

    def __init__(
        self,
        events: EventBus,
        *,
        router: Callable[[], Router],
        new_id: Callable[[str], str],
        servers: Callable[[], Sequence[ToolSource]],
        declared: Callable[[], GroupTable] = tuple,
        denied: Callable[[Door], tuple[str, ...]] = lambda door: (),
        clock: Callable[[], float] = time.monotonic,
        always: bool = False,
    ) -> None:
        async def call_tool(call: ToolCall, context: CallContext) -> ToolResult:
            return await router().call(call, context)

        async def tools_of(server: str) -> None:
            for one in _mcp(servers()):
                await one.tools_of(server)

        self._states = ServerStates(servers, clock)
        self._router = router
        self._known: tuple[ToolSource, ...] = ()
        self._others: tuple[ToolSource, ...] = ()
        self.groups = Groups(
            self._grouped,
            declared,
            self._states.of_now,
        )
        self.tools = GroupTools(
            self.groups, call_tool, events, new_id=new_id, denied=denied, tools_of=tools_of, always=always
        )
        self.watch = GroupWatch(self.look)
        events.listen(self.tools.progressed, CallProgress)

    def _grouped(self) -> tuple[ToolSource, ...]:
        """All sources of the router but the two tools."""
        sources = self._router().sources
        if sources is not self._known:
            self._known = sources
            self._others = tuple(source for source in sources if source is not self.tools)
        return self._others

    def look(self) -> None:
        """Look at the servers anew, and tell those who want to know when groups have changed."""
        self._states.forget()
        self.tools.look()

    def of_now(self) -> GroupSet:
        """The groups of now."""
        return self.groups.of_now()


def home_groups(
    in_force: InForce,
    events: EventBus,
    *,
    router: Callable[[], Router],
    new_id: Callable[[str], str],
    servers: Callable[[], Sequence[ToolSource]],
) -> ToolGroups:
    """The groups of an installation: those of its file, of its plugins and of its MCP servers."""

    def denied(door: Door) -> tuple[str, ...]:
        settings = in_force.settings
        return {Door.MCP: settings.mcp_deny, Door.OPENAPI: settings.openapi_deny}.get(door, ())

    return ToolGroups(
        events,
        router=router,
        new_id=new_id,
        servers=servers,
        declared=GroupFile(in_force.home, time.monotonic).table,
        denied=denied,
    )


def group_injection(in_force: InForce, groups: ToolGroups) -> GroupInjection:
    """What puts fitting groups into prompts while ``ToolGroupsAuto`` is on."""

    def rules() -> InjectionRules:
        settings = in_force.settings
        return InjectionRules(
            settings.tool_groups_auto, settings.tool_groups_auto_count, settings.tool_groups_auto_tokens
        )

    return GroupInjection(groups.of_now, rules)


def described_tools(router: Callable[[], Router], groups: ToolGroups) -> DescribedTools:
    """What prompts can say of the tools and groups of now."""

    def further() -> Callable[[str], Sequence[Piece] | None]:
        now = groups.of_now()
        return lambda name: group_texts(now, name)

    return DescribedTools(lambda: router().specs(), further)


def server_groups(sources: Sequence[ToolSource]) -> tuple[ServerGroup, ...]:
    """Each MCP server of now as a group, in the order of its file; those that are switched off are none."""
    return tuple(
        ServerGroup(status.name, status.description, _why_unreached(status))
        for servers in _mcp(sources)
        for status in servers.states()
        if status.state is not ServerState.DISABLED
    )


def _why_unreached(status: ServerStatus) -> str:
    """Empty for a server that can be called; one that is tried again is told of as before until that has succeeded."""
    if status.state in _UNREACHED:
        return status.error or status.state
    return status.error if status.state is ServerState.STARTING else ""


def _mcp(sources: Sequence[ToolSource]) -> tuple[McpServers, ...]:
    return tuple(source for source in sources if isinstance(source, McpServers))


class ServerStates:
    """The groups that MCP servers are, looked at anew when their tools are others or after ``STATES_SECONDS``."""

    def __init__(self, servers: Callable[[], Sequence[ToolSource]], clock: Callable[[], float]) -> None:
        self._servers = servers
        self._clock = clock
        self._looked = -math.inf
        self._maps: tuple[Mapping[str, ToolSpec], ...] = ()
        self._groups: tuple[ServerGroup, ...] = ()

    def forget(self) -> None:
        """Look anew at the next use."""
        self._looked = -math.inf

    def of_now(self) -> tuple[ServerGroup, ...]:
        """One for each server; at most that old."""
        servers = self._servers()
        maps = tuple([source.tools() for source in servers])
        same = len(maps) == len(self._maps) and all(new is old for new, old in zip(maps, self._maps, strict=True))
        if not same or self._clock() - self._looked >= STATES_SECONDS:
            self._maps, self._looked = maps, self._clock()
            self._groups = server_groups(servers)
        return self._groups
