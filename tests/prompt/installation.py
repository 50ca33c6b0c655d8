"""A small home on disk and an engine over it, for the tests of the prompt engine."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.extend import Found, Message, PlaceholderSource, PromptContext, ToolSpec, Trust
from app.prompt.agents import AgentBook
from app.prompt.diaries import AllDiariesSource, DiarySource, Notebooks
from app.prompt.engine import ExpandedPrompt, PromptEngine, Publish
from app.prompt.files import TextFiles
from app.prompt.scope import EVERY_ROLE
from app.prompt.settings import PromptSettings
from app.prompt.tools import FurtherTexts, no_further_texts
from app.prompt.variables import VariableFiles

NOW = datetime(2026, 1, 4, 17, 2, 3, tzinfo=UTC).timestamp()


class Home:
    """Writes files of an installation and expands prompts with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for folder in ("Agent", "TVStxt", "dailynote"):
            (path / folder).mkdir()
        self.book = AgentBook(path / "agent_map.json", TextFiles(path / "Agent"))
        self.files = VariableFiles(TextFiles(path / "TVStxt"))
        self.notebooks = Notebooks(path / "dailynote", max_chars=10_000)

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8"))
        return file

    def agents(self, **texts: str) -> None:
        """One file and one alias for each."""
        for alias, text in texts.items():
            self.write(f"Agent/{alias}.txt", text)
        self.write("agent_map.json", json.dumps({alias: f"{alias}.txt" for alias in texts}))

    def expand(
        self,
        messages: Sequence[Message],
        settings: PromptSettings | None = None,
        *,
        model: str = "gpt-y",
        tools: Mapping[str, ToolSpec] | None = None,
        sources: Sequence[PlaceholderSource] = (),
        now: float = NOW,
        publish: Publish | None = None,
        further: FurtherTexts = no_further_texts,
    ) -> ExpandedPrompt:
        engine = PromptEngine(
            settings or PromptSettings(),
            self.book,
            self.files,
            lambda: tools or {},
            (DiarySource(self.notebooks), AllDiariesSource(self.notebooks), *sources),
            lambda: now,
            lambda: further,
        )
        return asyncio.run(engine.expand(messages, model, publish=publish))

    def text(self, text: str, settings: PromptSettings | None = None, *, role: str = "system", **options: Any) -> str:
        """The text of a single message after expansion."""
        expanded = self.expand([{"role": role, "content": text}], settings, **options)
        content = expanded.messages[0]["content"]
        assert isinstance(content, str)
        return content


@dataclass(slots=True)
class TableSource:
    """A placeholder source that answers from a table and remembers what it was asked."""

    name: str
    pattern: re.Pattern[str]
    texts: Mapping[str, str]
    roles: frozenset[str] = frozenset({"system"})
    trust: Trust = Trust.DATA
    after_detectors: bool = False
    asked: list[tuple[Found, ...]] = field(default_factory=list)
    contexts: list[PromptContext] = field(default_factory=list)

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        self.asked.append(tuple(found))
        self.contexts.append(context)
        return {item.text: self.texts[item.text] for item in found if item.text in self.texts}


def static_source(**texts: str) -> TableSource:
    """Shaped like static plugin values: exact keys, system text only."""
    return TableSource(
        "static",
        re.compile("|".join(re.escape("{{" + key + "}}") for key in texts)),
        {"{{" + key + "}}": text for key, text in texts.items()},
    )


def async_source(**texts: str) -> TableSource:
    """Shaped like results of background tasks: every role, after detectors."""
    return TableSource(
        "async_result",
        re.compile(r"\{\{VCP_ASYNC_RESULT::([A-Za-z0-9_.-]+)::([A-Za-z0-9_-]+)\}\}"),
        {"{{VCP_ASYNC_RESULT::P::" + task + "}}": text for task, text in texts.items()},
        roles=EVERY_ROLE,
        after_detectors=True,
    )


def emoji_source(**texts: str) -> TableSource:
    """Shaped like emoji lists."""
    return TableSource(
        "emoji",
        re.compile(r"\{\{([^{}\r\n]+?)表情包\}\}"),
        {"{{" + key + "表情包}}": text for key, text in texts.items()},
    )


def recall_source(**texts: str) -> TableSource:
    """Shaped like recall declarations."""
    return TableSource(
        "recall",
        re.compile(r"\[\[([^\[\]\r\n]+?)日记本([^\[\]\r\n]*)\]\]"),
        {"[[" + key + "日记本]]": text for key, text in texts.items()},
    )
