"""Prompts: agents, and what plugins offer, as the beginning of a conversation (mcp.md MCP-29, MCP-17)."""

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

from app.errors import BadRequestError, NotFoundError, VcpError, both
from app.extend import CallContext, Json, PromptSource
from app.extend import PromptArgument as Argument
from app.mcp.server.listing import page
from app.mcp.server.resources import completion, whole
from app.prompt.agents import PREFIX, AgentBook
from app.protocol.tool_values import clean


class PromptShelf(Protocol):
    """What the server's door shows as prompts."""

    async def list(self, cursor: str | None = None) -> ListPromptsResult:
        """One page, sorted by name (MCP-15). Raises BadRequestError for a cursor that no page gave (-32602)."""
        ...

    async def get(self, name: str, arguments: Mapping[str, str], context: CallContext) -> GetPromptResult:
        """The prompt with its arguments put in. ``context`` is who wants it; its ``caller`` may be asked first.

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


class Prompts:
    """The ``PromptShelf`` over agents and the prompts of plugins.

    Of the agents it has those that a pattern of ``wanted`` fits (``MCPPrompts``); they win against a plugin's prompt of
    the same name. ``expand`` makes of a text of the operator's what a model would read of it in a system message.
    ``sources`` gives the plugins' prompts of now.
    """

    def __init__(
        self,
        book: AgentBook,
        wanted: Callable[[], Sequence[str]],
        expand: Callable[[str], Awaitable[str]],
        sources: Callable[[], Sequence[PromptSource]] = tuple,
    ) -> None:
        self._book = book
        self._wanted = wanted
        self._expand = expand
        self._sources = sources
        self._told: list[Callable[[], None]] = []

    async def list(self, cursor: str | None = None) -> ListPromptsResult:
        """See ``PromptShelf.list``."""
        said = both("开场的话，接在角色提示词之后", "what the person says first, behind the agent's prompt")
        agents = await self._agents()
        prompts = {source.name: _written(source) for source in reversed(self._sources())}
        for name in agents:
            arguments = [PromptArgument(name=INPUT, description=said, required=False)]
            prompts[name] = Prompt(name=name, description=both(f"角色 {name}", f"agent {name}"), arguments=arguments)
        shown, following = page([prompts[name] for name in sorted(prompts)], cursor, lambda prompt: prompt.name)
        return ListPromptsResult(prompts=list(shown), next_cursor=following)

    async def get(self, name: str, arguments: Mapping[str, str], context: CallContext) -> GetPromptResult:
        """See ``PromptShelf.get``; what the person says is never expanded (D9)."""
        source = await self._find(name)
        if source is not None:
            _check_arguments(arguments, source.arguments)
            return _result(source, await source.get(arguments, context))
        _check_arguments(arguments, (Argument(INPUT),))
        texts = [await self._expand("{{" + PREFIX + name + "}}"), arguments.get(INPUT, "")]
        return GetPromptResult(
            description=both(f"角色 {name}", f"agent {name}"),
            messages=[
                PromptMessage(role="user", content=TextContent(type="text", text=whole(text))) for text in texts if text
            ],
        )

    async def complete(self, name: str, argument: str, value: str, given: Mapping[str, str]) -> Completion:
        """See ``PromptShelf.complete``: what a person may say to an agent is not for us to guess."""
        source = await self._find(name)
        return completion(await source.complete(argument, value, given) if source is not None else (), value)

    def changed(self, told: Callable[[], None]) -> None:
        """See ``PromptShelf.changed``."""
        self._told.append(told)

    def news(self) -> None:
        """The list may be another one."""
        for told in self._told:
            told()

    async def _find(self, name: str) -> PromptSource | None:
        """The plugin's prompt of this name, None for an agent. Raises NotFoundError."""
        if name in await self._agents():
            return None
        source = next((source for source in self._sources() if source.name == name), None)
        if source is None:
            raise NotFoundError(both(f"没有名为 {name[:200]} 的提示词", f"no prompt is called {name[:200]}"))
        return source

    async def _agents(self) -> Set[str]:
        wanted = self._wanted()
        if not wanted:
            return frozenset()
        aliases = (await asyncio.to_thread(self._book.load)).aliases
        return {alias for alias in aliases if any(fnmatch.fnmatchcase(alias, pattern) for pattern in wanted)}


def _written(source: PromptSource) -> Prompt:
    """A plugin's prompt as a line of the list."""
    arguments = [
        PromptArgument(name=whole(one.name), description=whole(one.description) or None, required=one.required)
        for one in source.arguments
    ]
    return Prompt(
        name=whole(source.name),
        title=whole(source.title) or None,
        description=whole(source.description) or None,
        arguments=arguments,
    )


def _check_arguments(given: Mapping[str, str], known: Sequence[Argument]) -> None:
    unknown = sorted(set(given) - {one.name for one in known})
    if unknown:
        shown = ", ".join(unknown)[:200]
        raise BadRequestError(both(f"没有参数 {shown}", f"there is no argument {shown}"))
    missing = [one.name for one in known if one.required and one.name not in given]
    if missing:
        shown = ", ".join(missing)[:200]
        raise BadRequestError(both(f"缺少参数 {shown}", f"the argument {shown} is missing"))


def _result(source: PromptSource, made: str | Sequence[Mapping[str, Json]]) -> GetPromptResult:
    """What a plugin made, as the protocol has it. Raises VcpError for what is none of the protocol."""
    messages = [{"role": "user", "content": {"type": "text", "text": made}}] if isinstance(made, str) else list(made)
    try:
        written = {"description": source.description or None, "messages": clean(messages)}
        return GetPromptResult.model_validate(written, by_name=False)
    except ValueError:  # pydantic's error is one too
        name = source.name[:200]
        raise VcpError(
            both(f"插件的提示词不符合 MCP 协议：{name}", f"the plugin's prompt {name} is none of the protocol")
        ) from None
