"""What the modular proxy lists: the two tools first, and where that is wanted each tool of each group (MOD-14)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from app.extend import SERVER_ORIGIN
from app.mcp.groups.texts import CALL_TOOL, GET_TOOLS
from app.tools.catalogue import Catalogue
from app.tools.offers import DoorRules, Offered, Offers, mcp_naming

FLAT_MARK = "__"
"""Between a group and its tool in a flat name."""

SETTLED_SECONDS = 30.0
"""So long the first list and the first call wait for servers that are still connecting (MOD-7)."""

_WAITING = frozenset({"tools/list", "tools/call"})


class Expose(StrEnum):
    """What clients of the proxy see."""

    MODULAR = "modular"
    FLAT = "flat"
    BOTH = "both"

    def rules(self) -> DoorRules:
        """The rules of the proxy's door."""
        two = (GET_TOOLS, CALL_TOOL)
        return {Expose.MODULAR: DoorRules(allow=two), Expose.FLAT: DoorRules(deny=two)}.get(self, DoorRules())


class ProxyOffers(Offers):
    """The offers of the proxy: the two tools in their fixed order, then the tools of the groups by name."""

    def __init__(self, catalogue: Callable[[], Catalogue], expose: Callable[[], Expose]) -> None:
        super().__init__(catalogue, lambda: expose().rules(), lambda *groups: flat_names(catalogue(), *groups))
        self._sorted: tuple[Offered, ...] = ()
        self._in_order: tuple[Offered, ...] = ()

    def all(self) -> tuple[Offered, ...]:
        """All that is offered; the same object while nothing has changed."""
        offered = super().all()
        if offered is not self._sorted:
            self._sorted = offered
            order = {GET_TOOLS: 0, CALL_TOOL: 1}
            self._in_order = tuple(sorted(offered, key=lambda one: order.get(one.full_name, len(order))))
        return self._in_order


def flat_names(catalogue: Catalogue, *groups: Sequence[str]) -> Mapping[str, str]:
    """Names of tools as ``GROUP__TOOL``; those of the two tools stay (MOD-14)."""
    wanted: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(name for group in groups for name in group):
        found = catalogue.find(name)
        server = found.spec.origin.removeprefix(SERVER_ORIGIN) if found else ""
        flat = f"{server}{FLAT_MARK}{name[len(server) + 1 :]}" if server and name.startswith(f"{server}.") else name
        while flat in taken:
            flat += "_"
        taken.add(flat)
        wanted[name] = flat
    named = mcp_naming([GET_TOOLS, CALL_TOOL], list(wanted.values()))
    return {name: named[flat] for name, flat in wanted.items()}


def _known_to_nobody(tool: str) -> bool:
    return False


class FirstSettling:
    """Middleware of the SDK's server: lists and calls wait until the servers have been tried once (MOD-7).

    Everything else, the handshake above all, is answered at once, and so are calls of tools that are ``known``.
    """

    def __init__(
        self,
        settled: asyncio.Event,
        seconds: float = SETTLED_SECONDS,
        known: Callable[[str], bool] = _known_to_nobody,
    ) -> None:
        self._settled = settled
        self._seconds = seconds
        self._known = known

    async def __call__(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Wait where the method wants it, at most so long, then go on."""
        if ctx.method in _WAITING and not self._settled.is_set() and not self._is_known(ctx):
            try:
                async with asyncio.timeout(self._seconds):
                    await self._settled.wait()
            except TimeoutError:
                self._settled.set()  # whoever comes next has waited long enough
        return await call_next(ctx)

    def _is_known(self, ctx: Any) -> bool:
        name = ctx.params.get("name") if ctx.method == "tools/call" and ctx.params else None
        return isinstance(name, str) and self._known(name)
