"""Prompts for those who write them: all placeholders of now, and what a text would become."""

from __future__ import annotations

import asyncio
from itertools import chain

from app.hub.nodes.placeholders import NodePlaceholders
from app.memory.recall.source import RecallSource
from app.plugins.statics import StaticPlugins
from app.prompt.diaries import Notebooks
from app.prompt.placeholder_list import (
    PlaceholderLine,
    agent_lines,
    built_in_lines,
    file_lines,
    notebook_lines,
    static_lines,
    tool_lines,
    variable_lines,
)
from app.prompt.preview import LookedFor, Preview, previewed
from app.services.prompts import prompt_engine
from app.services.root import Services


async def prompt_preview(services: Services, text: str, *, role: str, model: str, recall: bool = False) -> Preview:
    """What ``text`` becomes as a message of ``role``, for ``model`` as clients name it.

    No plugin runs and, without ``recall``, no memory is searched. Raises PromptLimitError.
    """
    asked = (StaticPlugins, NodePlaceholders, *((RecallSource,) if recall else ()))
    sources = [source if isinstance(source, asked) else LookedFor(source) for source in services.placeholder_sources()]
    engine = prompt_engine(
        services.in_force,
        services.prompt_files,
        services.mcp.described_tools,
        image_key=services.found_plugins.image_key,
        background_results=services.background_results,
        placeholders=sources,
    )
    unasked = [source for source in sources if isinstance(source, LookedFor)]
    return await previewed(engine, unasked, text, role=role, model=services.model_redirect.internal(model))


async def placeholders_of_now(services: Services) -> list[PlaceholderLine]:
    """Everything that can stand in a prompt now, each text once."""
    tools = services.mcp.described_tools.specs()
    groups = list(services.mcp.tool_groups.of_now().groups)
    in_memory = [
        *variable_lines(services.config.families),
        *built_in_lines(),
        *tool_lines(tools, groups),
        *static_lines(
            ((key, state.plugin) for state in services.statics.states() for key in state.keys),
            chinese="静态插件",
            english="static plugin",
        ),
        *static_lines(services.nodes.placeholders.keys(), chinese="节点", english="node"),
    ]
    on_disk = await asyncio.to_thread(_on_disk, services)
    return list({line.text: line for line in chain(on_disk, in_memory)}.values())


def _on_disk(services: Services) -> list[PlaceholderLine]:
    notebooks = Notebooks(services.in_force.notebooks, 0)
    return [
        *agent_lines(services.prompt_files.agents.load().aliases),
        *notebook_lines(notebooks.names()),
        *file_lines(services.in_force.home),
    ]
