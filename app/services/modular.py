"""The modular proxy alone: many MCP servers, two tools for the client (mcp.md section 2, ``vcp modular``)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import both
from app.extend import Json
from app.mcp.client.servers import McpServers
from app.mcp.client.servers_file import ServerTable
from app.mcp.client.status import ServerLimits, ServerState
from app.mcp.groups.proxy import SETTLED_SECONDS, Expose, FirstSettling, ProxyOffers
from app.observe.bus import EventBus
from app.services.ids import Ids
from app.services.tool_groups import ToolGroups
from app.tools.router import Router
from app.tools.schemas.check import check_of

if TYPE_CHECKING:  # at run time imported by a function, once the process knows that it will serve
    from app.mcp.server.door import Fault, McpDoor

log = logging.getLogger(__name__)

INSTRUCTIONS = both(
    "这里的工具按组存放：先用 get-modular-tools 查看一组的工具，再用 call-modular-tool 调用。",
    "Tools are kept in groups here: read those of a group with get-modular-tools, then run one with call-modular-tool.",
)

_NO_SCHEMAS: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy at work."""

    servers: McpServers
    groups: ToolGroups
    router: Router
    door: McpDoor
    settled: asyncio.Event
