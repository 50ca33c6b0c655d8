"""In-process tools for tests of the turn: they end when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from app.extend import CallContext, ToolCall, ToolResult, ToolSpec
from tests.fixed_tools import FixedTools


class GatedTools(FixedTools):
    """Tools whose calls wait for a gate of their name; what happens to them is in ``log``."""

    def __init__(self, *names: str) -> None:
        super().__init__(*(ToolSpec(name, "test", name) for name in names))
        self.gates = {name: asyncio.Event() for name in names}
        self.begun = {name: asyncio.Event() for name in names}
        self.ended = {name: asyncio.Event() for name in names}
        self.log: list[str] = []

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
