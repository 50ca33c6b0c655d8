"""Builds the client of MCP servers: ``mcp_servers.json`` of the home, and what its servers may have and ask."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from app.config.settings import Settings, names
from app.config.snapshot import Config
from app.config.upstreams import is_of_family
from app.extend import EventSink
from app.mcp.client.consent import Consents
from app.mcp.client.servers import McpServers
from app.mcp.client.servers_file import FILE_NAME, ServersFile
from app.mcp.client.status import ServerLimits
from app.services.in_force import InForce
from app.services.mcp_trust import McpTrust

_FAMILIES = ("Agent", "Tar", "Var", "Sar", "Detector", "SuperDetector")
"""Beginnings of the names of settings that people make up themselves (spec vcp-core 2.3)."""


def mcp_servers(in_force: InForce, events: EventSink, trust: McpTrust) -> McpServers:
    """The servers of the home. A process that does not own it starts none before it is needed (D88)."""
    servers = _servers(
        in_force,
        events,
        trust.consents,
        questions=trust.questions,
        sign_in=trust.auth,
        ready=trust.let_in,
        on_demand=not in_force.owns_home,
    )
    trust.when_signed_in(servers.retry)
    return servers


def checked_servers(in_force: InForce, events: EventSink, consents: Consents) -> McpServers:
    """The servers of the home for somebody who looks at them one by one: nobody answers their questions."""
    from app.mcp.client.oauth.sign_ins import SignIns  # it imports the SDK, which takes half a second

    return _servers(in_force, events, consents, sign_in=SignIns(in_force.home).auth, on_demand=True)


def _servers(in_force: InForce, events: EventSink, consents: Consents, **further: Any) -> McpServers:
    file = ServersFile(in_force.home / FILE_NAME, lambda: in_force.config.environ, time.monotonic)
    return McpServers(
        file.table,
        in_force.following(server_limits),
        home=in_force.home,
        environ=lambda: in_force.config.environ,
        ours=is_ours(lambda: in_force.config),
        events=events,
        clock=time.time,
        consents=consents,
        **further,
    )


def server_limits(settings: Settings) -> ServerLimits:
    """What the settings say for servers that say nothing else."""
    return ServerLimits(
        connect_seconds=settings.mcp_connect_seconds,
        call_seconds=settings.mcp_call_seconds,
        call_max_seconds=settings.mcp_call_max_seconds,
        idle_seconds=settings.mcp_idle_seconds,
        result_bytes=settings.mcp_result_limit_mb * 1024 * 1024,
    )


def is_ours(config: Callable[[], Config]) -> Callable[[str], bool]:
    """Tells the names of settings and keys of this server, which no MCP server inherits (D72)."""
    settings = frozenset(names())

    def ours(name: str) -> bool:
        known = name in settings or name in config().file_keys
        return known or name.startswith(_FAMILIES) or is_of_family(name)

    return ours
