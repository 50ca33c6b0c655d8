"""Prompts: the agents that an MCP client can take as the beginning of a conversation (mcp.md MCP-29, MCP-17)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from mcp_types import Completion, GetPromptResult, ListPromptsResult


class PromptShelf(Protocol):
    """What the server's door shows as prompts."""

    async def list(self, cursor: str | None = None) -> ListPromptsResult:
        """One page, sorted by name (MCP-15). Raises BadRequestError for a cursor that no page gave (-32602)."""
        ...

    async def get(self, name: str, arguments: Mapping[str, str]) -> GetPromptResult:
        """The prompt with its arguments put in.

        Raises NotFoundError for an unknown name, BadRequestError for a missing argument; both are -32602 (MCP-29).
        """
        ...

    async def complete(self, name: str, argument: str, value: str, given: Mapping[str, str]) -> Completion:
        """Values of the prompt's ``argument`` that begin with ``value``, at most 100 (MCP-17).

        Raises NotFoundError for an unknown prompt.
        """
        ...

    def changed(self, told: Callable[[], None]) -> None:
        """Call ``told`` when the list is another one: in the event loop, quick, and it must not raise."""
        ...
