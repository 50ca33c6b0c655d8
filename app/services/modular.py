"""The modular proxy alone: many MCP servers, two tools for the client (mcp.md section 2, ``vcp modular``)."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import ConfigError, both
from app.extend import AnswerAction, Json, PersonAnswer, PersonQuestion
from app.mcp.client.sampling import Sampling
from app.mcp.client.server_entry import ServerEntry
from app.mcp.client.servers import McpServers
from app.mcp.client.servers_file import ServerTable
from app.mcp.client.status import ServerLimits, ServerState
from app.mcp.groups.proxy import SETTLED_SECONDS, Expose, FirstSettling, ProxyOffers
from app.observe.bus import EventBus
from app.services.ids import Ids
from app.services.tool_groups import ToolGroups
from app.tools.router import Router
from app.tools.schemas.check import SchemaFault, check_of

if TYPE_CHECKING:  # at run time imported by functions, once it is known that somebody will be served
    from app.mcp.client.oauth.sign_ins import SignIns
    from app.mcp.client.questions import Questions
    from app.mcp.server.door import McpDoor

log = logging.getLogger(__name__)

INSTRUCTIONS = both(
    "这里的工具按组存放：先用 get-modular-tools 查看一组的工具，再用 call-modular-tool 调用。",
    "Tools are kept in groups here: read those of a group with get-modular-tools, then run one with call-modular-tool.",
)


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy at work; ``settled`` once every server has been tried."""

    servers: McpServers
    groups: ToolGroups
    router: Router
    door: McpDoor
    settled: asyncio.Event


@asynccontextmanager
async def modular_proxy(
    table: Callable[[], ServerTable],
    *,
    expose: Callable[[], Expose],
    folder: Path,
    state: Path,
    environ: Mapping[str, str] | None = None,
    limits: Callable[[], ServerLimits] = ServerLimits,
    settled_seconds: float = SETTLED_SECONDS,
) -> AsyncIterator[Proxy]:
    """The proxy over the servers of ``table``, started and in the end stopped.

    Relative paths of the servers are those of ``folder``; what signing in leaves is kept below ``state``.
    """
    from app.mcp.server.door import McpDoor, McpDoorRules

    events, ids = EventBus(), Ids()
    signed_in = _Signing(state)
    servers = McpServers(
        table,
        limits,
        home=folder,
        environ=lambda: os.environ if environ is None else environ,
        ours=lambda name: False,
        events=events,
        clock=time.time,
        questions=lambda entry: _questions(entry, folder),
        sign_in=signed_in.auth,
    )
    router: Router
    groups = ToolGroups(events, router=lambda: router, new_id=ids.new, servers=lambda: (servers,), always=True)
    router = Router((groups.tools, servers), (), events)
    door = McpDoor(
        offers=ProxyOffers(router.catalogue, expose),
        call_tool=router.call,
        events=events,
        changed=router.changed,
        rules=McpDoorRules,
        new_id=ids.new,
        clock=time.time,
        validate=lambda schema, value: None if groups.tools.has_schema(schema) else _fault(schema, value),
        instructions=INSTRUCTIONS,
    )
    settled = asyncio.Event()
    door.server.middleware.append(FirstSettling(settled, settled_seconds))
    try:
        await servers.start()
        await groups.watch.start()
        await door.start()
        settling = asyncio.create_task(_settle(servers, groups, settled, settled_seconds))
        try:
            yield Proxy(servers, groups, router, door, settled)
        finally:
            settling.cancel()
            await asyncio.wait((settling,))
    finally:
        await door.stop()
        await groups.watch.stop()
        await servers.stop()
        await signed_in.stop()


async def _settle(servers: McpServers, groups: ToolGroups, settled: asyncio.Event, seconds: float) -> None:
    """Wait for the first attempts and say how they went (mcp.md 2.8)."""
    await servers.wait_settled(seconds)
    groups.look()
    settled.set()
    states = [status for status in servers.states() if status.state is not ServerState.DISABLED]
    good = [status.name for status in states if status.state in (ServerState.READY, ServerState.IDLE)]
    bad = [status.name for status in states if status.name not in good]
    for name in good:
        log.info("\u2713 %s", name)
    if bad:
        log.warning("success_groups=[%s], failed_groups=[%s]", ", ".join(good), ", ".join(bad))
    else:
        log.info("connected %d groups, all valid", len(good))


def _fault(schema: Mapping[str, Json], value: Json) -> SchemaFault | None:
    return check_of(schema).fault(value)


class _Signing:
    """Who is signed in at which server; nothing of it is there before a server wants it."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._sign_ins: SignIns | None = None

    def auth(self, entry: ServerEntry) -> object:
        from app.mcp.client.oauth.sign_ins import SignIns

        if self._sign_ins is None:
            self._sign_ins = SignIns(self._state, clock=time.time, background=True)
        return self._sign_ins.auth(entry)

    async def stop(self) -> None:
        if self._sign_ins is not None:
            await self._sign_ins.stop()


class _Nobody:
    """There is no person here; the client behind a call is asked before this (MCP-62)."""

    async def ask(self, question: PersonQuestion, seconds: float) -> PersonAnswer:
        return PersonAnswer(AnswerAction.CANCEL)


def _questions(entry: ServerEntry, folder: Path) -> Questions:
    from app.mcp.client.questions import Questions

    async def no_model(body: dict[str, Json], depth: int) -> Json:
        raise ConfigError(both("此程序不调用模型", "this program asks no model"))

    sampling = Sampling(
        no_model,
        model=lambda: "",
        max_tokens=lambda: 1,
        per_minute=lambda: 60,
        max_depth=lambda: 1,
        clock=time.monotonic,
    )
    return Questions(entry, home=folder, people=_Nobody, sampling=sampling, seconds=lambda: 1.0)
