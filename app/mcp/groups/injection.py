"""Puts the tools of those groups into the prompt that fit the conversation (``ToolGroupsAuto``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.extend import Body, Json, PromptContext, Stage
from app.mcp.groups.choice import GroupIndex, chosen_groups
from app.mcp.groups.groups import Group, GroupSet
from app.mcp.groups.texts import described
from app.protocol.prompt_texts import TOOL_SEPARATOR, tool_group_heading, tool_group_rest
from app.protocol.token_estimate import estimated_tokens

SYSTEM = "system"
USER = "user"


@dataclass(frozen=True, slots=True)
class InjectionRules:
    """What the settings say: whether, how many groups, how many tokens."""

    on: bool
    count: int
    tokens: int


class GroupInjection:
    """One system message with the tools of the fitting groups, directly before the last message of the user.

    All that stands before it is as the client sent it and stays the same in the next request of the conversation, so
    caches of model APIs hold up to there; the last message stays the user's, as some APIs want it. Groups without a
    tool that can be described are not put in.
    """

    name = "tool_groups"
    stage = Stage.AFTER

    def __init__(self, groups: Callable[[], GroupSet], rules: Callable[[], InjectionRules]) -> None:
        self._groups = groups
        self._rules = rules
        self._index: tuple[GroupSet, GroupIndex] | None = None

    async def process(self, body: Body, context: PromptContext) -> Body:
        """The body with that message; as it is when nothing fits, or nobody asks."""
        del context
        rules = self._rules()
        if not rules.on:
            return body
        messages: list[Json] = body["messages"]
        places = [place for place, message in enumerate(messages) if message.get("role") == USER]
        if not places:
            return body
        texts = [_text(messages[place]) for place in places]
        text = await asyncio.to_thread(self._said, self._groups(), texts, rules)  # long histories have many words
        if not text:
            return body
        said = {"role": SYSTEM, "content": text}
        return {**body, "messages": [*messages[: places[-1]], said, *messages[places[-1] :]]}

    def _said(self, groups: GroupSet, user_texts: Sequence[str], rules: InjectionRules) -> str:
        names = chosen_groups(self._index_of(groups), user_texts, rules.count)
        return injected_text([groups.groups[name] for name in names], rules.tokens)

    def _index_of(self, groups: GroupSet) -> GroupIndex:
        known = self._index
        if known is None or known[0] is not groups:
            known = self._index = groups, GroupIndex(group for group in groups.available() if group.members)
        return known[1]


def _text(message: Mapping[str, Json]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def injected_text(groups: Sequence[Group], tokens: int) -> str:
    """The tools of these groups, within an estimated number of tokens; empty when there is nothing to say.

    Of a group that has no room whole come as many tools as have, and how many are left out.
    """
    blocks: list[str] = []
    left = tokens
    for group in groups:
        heading = tool_group_heading(group.name)
        left_for_tools = left - estimated_tokens(heading) - estimated_tokens(tool_group_rest(group.name, 0))
        texts: list[str] = []
        rest = 0
        for _, text in described(group):
            cost = estimated_tokens(text) + estimated_tokens(TOOL_SEPARATOR)
            if rest or cost > left_for_tools:
                rest += 1
                continue
            texts.append(text)
            left_for_tools -= cost
        if not texts:
            continue
        if rest:
            texts.append(tool_group_rest(group.name, rest))
        blocks.append(heading + TOOL_SEPARATOR.join(texts))
        left = left_for_tools
    return "\n\n".join(blocks)
