"""Tools for tests that are always the same ones; what a call of one does is for each test to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.extend import CallContext, ToolCall, ToolResult, ToolSpec


class FixedTools:
    """A source of these tools, which nobody calls; where somebody does, a subclass has another ``call``."""

    def __init__(self, *specs: ToolSpec) -> None:
        self.specs: dict[str, ToolSpec] = {spec.name: spec for spec in specs}

    def changed(self, told: Callable[[], None]) -> None:
        """These tools never change."""

    def tools(self) -> Mapping[str, ToolSpec]:
        return self.specs

    def addressed(self, name: str) -> ToolSpec | None:
        return None

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        raise AssertionError(f"{spec.name} is called")
