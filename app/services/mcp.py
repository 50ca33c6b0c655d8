"""All that has to do with the Model Context Protocol and with groups of tools.

Importing the SDK takes half a second, so the modules that need it are imported by the functions that first use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from app.extend import Lifecycle, PlaceholderSource, Preprocessor, RouteSource, ToolSource
from app.hub.approval.guard import Approvals
from app.observe.bus import EventBus
from app.services.completions import PlainCompletions
from app.services.in_force import InForce
from app.services.mcp_client import mcp_servers
from app.services.mcp_http import asker
from app.services.mcp_server import McpServing, mcp_door
from app.services.mcp_shelves import NO_SHELVES, Shelves
from app.services.mcp_trust import McpTrust
from app.services.tool_groups import described_tools, group_injection, home_groups
from app.tools.router import Router


class Mcp:
    """The parts of one server, made in one order.

    ``groups`` are the tools that show others, ``servers`` those of MCP servers; local tools win against both (D68).
    ``router`` and ``approvals`` are asked at each use; ``complete`` asks models. Clients are never told ``secrets``.
    """

    def __init__(
        self,
        in_force: InForce,
        events: EventBus,
        router: Callable[[], Router],
        approvals: Callable[[], Approvals],
        new_id: Callable[[str], str],
        complete: PlainCompletions,
        secrets: Callable[[], Iterable[str]],
    ) -> None:
        self._in_force = in_force
        self._events = events
        self._router = router
        self._approvals = approvals
        self._new_id = new_id
        self.groups: tuple[ToolSource, ...] = ()
        self.servers: tuple[ToolSource, ...] = ()
        self.placeholders: tuple[PlaceholderSource, ...] = ()
        self.preprocessors: tuple[Preprocessor, ...] = ()
        self.routes: tuple[RouteSource, ...] = ()
        self.lifecycles: tuple[Lifecycle, ...] = ()
        self.tool_groups = home_groups(in_force, events, router=router, new_id=new_id, servers=lambda: self.servers)
        self.described_tools = described_tools(router, self.tool_groups)
        self._injection = group_injection(in_force, self.tool_groups)
        self.groups += (self.tool_groups.tools,)
        self.lifecycles += (self.tool_groups.watch,)

        self.trust = McpTrust(in_force, events, approvals, complete, background=in_force.owns_home)
        self.upstream_servers = mcp_servers(in_force, events, self.trust)
        self.servers += (self.upstream_servers,)
        self.lifecycles += (self.trust, self.upstream_servers)

        self.shelves: Callable[[], Shelves] = lambda: NO_SHELVES  # until somebody who knows all parts gives some
        self.serving = McpServing(
            lambda: mcp_door(
                in_force,
                events,
                router(),
                new_id=new_id,
                approvals=approvals(),
                secrets=secrets,
                asker=asker,
                **self.shelves().named(),
            )
        )
        self.lifecycles += (self.serving,)

    def in_force_preprocessors(self) -> tuple[Preprocessor, ...]:
        """Those that the settings of now want; asked anew after a reload."""
        return (*self.preprocessors, *((self._injection,) if self._in_force.settings.tool_groups_auto else ()))
