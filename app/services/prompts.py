"""Builds the prompt engine: anew for each configuration, over files and sources that outlive it."""

from __future__ import annotations

import time
from collections.abc import Iterable

from app.extend import PlaceholderSource
from app.prompt.agents import AgentBook
from app.prompt.background_results import BackgroundResultSource
from app.prompt.diaries import AllDiariesSource, DiarySource, Notebooks
from app.prompt.emoji_lists import LISTS_FOLDER, EmojiListSource
from app.prompt.engine import PromptEngine
from app.prompt.files import TextFiles
from app.prompt.settings import PromptSettings
from app.prompt.tools import DescribedTools
from app.prompt.variables import VariableFiles
from app.services.in_force import InForce
from app.tools.background_results import BackgroundResults

AGENT_MAP = "agent_map.json"


class PromptFiles:
    """The files of a home that prompts are made of, read when they are used and kept while they stay as they are."""

    def __init__(self, in_force: InForce) -> None:
        home = in_force.home
        self.agents = AgentBook(home / AGENT_MAP, TextFiles(home / "Agent"))
        self.variables = VariableFiles(TextFiles(home / "TVStxt"))
        self.emoji_lists = EmojiListSource(TextFiles(home / LISTS_FOLDER))


def prompt_engine(
    in_force: InForce,
    files: PromptFiles,
    tools: DescribedTools,
    *,
    image_key: str,
    background_results: BackgroundResults,
    placeholders: Iterable[PlaceholderSource],
) -> PromptEngine:
    """The engine for the configuration of now.

    ``placeholders`` are the sources beside those of the home's files; ``image_key`` is the picture server's own key,
    which wins, or empty.
    """
    settings = in_force.settings
    notebooks = Notebooks(in_force.notebooks, settings.diary_max_chars)
    return PromptEngine(
        _prompt_settings(in_force, image_key),
        files.agents,
        files.variables,
        tools.specs,
        (
            files.emoji_lists,
            DiarySource(notebooks),
            AllDiariesSource(notebooks),
            BackgroundResultSource(background_results, lambda: in_force.settings.tool_result_max_chars),
            *placeholders,
        ),
        time.time,
        tools.further,
    )


def _prompt_settings(in_force: InForce, image_key: str) -> PromptSettings:
    config, settings = in_force.config, in_force.settings
    return PromptSettings(
        variables=config.families.variables,
        sar=config.families.sar,
        detectors=config.families.detectors,
        super_detectors=config.families.super_detectors,
        zone=config.report_zone,
        port=settings.port or in_force.port(),
        image_key=image_key or settings.image_key,
        expand_agents_in_all_roles=settings.expand_agents_in_all_roles,
        resolve_variables_in_any_order=settings.resolve_variables_in_any_order,
        detectors_last=settings.compat_profile == "head",
    )
