"""In-process tools for tests of the turn: they end when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from app.extend import CallContext, ToolCall, ToolResult, ToolSpec


class GatedTools:
    """Tools whose calls wait for a gate of their name; what happens to them is in ``log``."""

    def __init__(self, *names: str) -> None:
        self._specs = {name: ToolSpec(name, "test", name) for name in names}
        self.gates = {name: asyncio.Event() for name in names}
        self.begun = {name: asyncio.Event() for name in names}
        self.ended = {name: asyncio.Event() for name in names}
        self.log: list[str] = []

    def changed(self, told: Callable[[], None]) -> None:
        """These tools never change."""

    def tools(self) -> Mapping[str, ToolSpec]:
        return self._specs

    def addressed(self, name: str) -> ToolSpec | None:
        return None

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        started()
        self.begun[spec.name].set()
        try:
            await self.gates[spec.name].wait()
            self.log.append(f"{spec.name} done")
            return ToolResult(structured=f"{spec.name} said")
        except asyncio.CancelledError:
            self.log.append(f"{spec.name} cancelled")
            raise
        finally:
            self.ended[spec.name].set()
