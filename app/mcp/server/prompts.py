"""Prompts: the agents that an MCP client can take as the beginning of a conversation (mcp.md MCP-29, MCP-17)."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from typing import Protocol

from mcp_types import (
    Completion,
    GetPromptResult,
    ListPromptsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
)

from app.errors import BadRequestError, NotFoundError, both
from app.mcp.server.listing import page
from app.mcp.server.resources import whole
from app.prompt.agents import PREFIX, AgentBook


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


INPUT = "input"
"""The argument of every prompt: what the person says first."""


class AgentPrompts:
    """The ``PromptShelf`` over agents: those that a pattern of ``wanted`` fits (``MCPPrompts``).

    ``expand`` makes of a text of the operator's what a model would read of it in a system message.
    """

    def __init__(
        self, book: AgentBook, wanted: Callable[[], Sequence[str]], expand: Callable[[str], Awaitable[str]]
    ) -> None:
        self._book = book
        self._wanted = wanted
        self._expand = expand
        self._told: list[Callable[[], None]] = []

    async def list(self, cursor: str | None = None) -> ListPromptsResult:
        """See ``PromptShelf.list``."""
        shown, following = page(sorted(await self._names()), cursor, lambda name: name)
        said = both("开场的话，接在角色提示词之后", "what the person says first, behind the agent's prompt")
        return ListPromptsResult(
            prompts=[
                Prompt(
                    name=name,
                    description=both(f"角色 {name}", f"agent {name}"),
                    arguments=[PromptArgument(name=INPUT, description=said, required=False)],
                )
                for name in shown
            ],
            next_cursor=following,
        )

    async def get(self, name: str, arguments: Mapping[str, str]) -> GetPromptResult:
        """See ``PromptShelf.get``; what the person says is never expanded (D9)."""
        await self._check(name)
        unknown = sorted(set(arguments) - {INPUT})
        if unknown:
            shown = ", ".join(unknown)[:200]
            raise BadRequestError(both(f"没有参数 {shown}", f"there is no argument {shown}"))
        texts = [await self._expand("{{" + PREFIX + name + "}}"), arguments.get(INPUT, "")]
        return GetPromptResult(
            description=both(f"角色 {name}", f"agent {name}"),
            messages=[
                PromptMessage(role="user", content=TextContent(type="text", text=whole(text))) for text in texts if text
            ],
        )

    async def complete(self, name: str, argument: str, value: str, given: Mapping[str, str]) -> Completion:
        """See ``PromptShelf.complete``: what a person may say is not for us to guess."""
        await self._check(name)
        return Completion(values=[], total=0, has_more=False)

    def changed(self, told: Callable[[], None]) -> None:
        """See ``PromptShelf.changed``."""
        self._told.append(told)

    def news(self) -> None:
        """The list may be another one."""
        for told in self._told:
            told()

    async def _check(self, name: str) -> None:
        if name not in await self._names():
            raise NotFoundError(both(f"没有名为 {name[:200]} 的提示词", f"no prompt is called {name[:200]}"))

    async def _names(self) -> Set[str]:
        wanted = self._wanted()
        if not wanted:
            return frozenset()
        aliases = (await asyncio.to_thread(self._book.load)).aliases
        return {alias for alias in aliases if any(fnmatch.fnmatchcase(alias, pattern) for pattern in wanted)}
