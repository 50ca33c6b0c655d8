"""A small memory for the tests of recall: fragments by notebook, and a home with notebooks on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any

from app.extend import Message
from app.memory.index.records import NotebookState
from app.memory.ranking.requests import GateValue, GroupActivation, Hit, RecallQuery, Retrieval, Retrieved
from app.memory.recall.ai_memo import AiMemo, AiMemoAnswer, AiMemoRules, Ask
from app.memory.recall.answer import Answer, ChainAnswer, ChainStage
from app.memory.recall.cache import AnswerCache
from app.memory.recall.parts import RecallParts, RecallRules
from app.memory.recall.recaller import Found, Recaller
from app.memory.recall.source import RecallSource
from app.prompt.diaries import Notebooks
from app.protocol.recall import find_declarations
from app.protocol.recall_chains import ChainCall
from tests.memory.ranking.records import record

NOW = datetime(2025, 11, 27, 15, 30, tzinfo=UTC)


@dataclass(slots=True)
class PlayedRetriever:
    """Answers with what lies in ``texts``, best first, and remembers what it was asked."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    asked: list[Retrieval] = field(default_factory=list)
    queries: list[RecallQuery] = field(default_factory=list)
    gated: list[tuple[str, ...]] = field(default_factory=list)
    timely: int = 0
    groups: tuple[GroupActivation, ...] = ()
    day: date | None = None
    lexical_only: bool = False
    notes: tuple[str, ...] = ()
    gates_by: str = "name"
    waits: float = 0.0

    async def retrieve(self, query: RecallQuery, retrieval: Retrieval) -> Retrieved:
        self.asked.append(retrieval)
        self.queries.append(query)
        if self.waits:
            await asyncio.sleep(self.waits)
        texts = [(name, text) for name in retrieval.notebooks for text in self.texts.get(name, [])]
        if any(text == "FAULT" for _, text in texts):
            raise OSError("the index is away")
        hits = []
        for number, (name, text) in enumerate(texts[: retrieval.k]):
            chunk = record(number + 1, text, notebook=name, day=self.day)
            hits.append(Hit(chunk, text, len(text), 1 - number / 100, "rag", 0.7, {"dense": 0.5}))
        first_timely = len(hits) - self.timely if retrieval.time else len(hits)
        hits = [replace(hit, source="time") if at >= first_timely else hit for at, hit in enumerate(hits)]
        groups = self.groups if retrieval.group else ()
        return Retrieved(tuple(hits), groups=groups, lexical_only=self.lexical_only, notes=self.notes)

    async def gate(self, query: RecallQuery, notebooks: Sequence[str]) -> list[GateValue]:
        self.gated.append(tuple(notebooks))
        self.queries.append(query)
        return [GateValue(name, self.values.get(name, 0.0), 0.5, self.gates_by, 0.6) for name in notebooks]


@dataclass(slots=True)
class PlayedThinking:
    """Goes through one stage and remembers the call."""

    calls: list[ChainCall] = field(default_factory=list)

    async def walk(self, call: ChainCall, query: RecallQuery) -> ChainAnswer:
        self.calls.append(call)
        if call.chain == "none":
            return ChainAnswer("none", known=False, auto=False)
        return ChainAnswer(
            call.chain, True, call.auto, (ChainStage("前思维簇", 1, (("想 {{Date}} $&", 0.9),), False, ""),)
        )


async def no_model(prompt: str) -> str:
    raise AssertionError("no model was to be asked")


@dataclass(slots=True)
class Played:
    """All of it over one home."""

    home: Path
    ask: Ask = no_model
    configured: bool = False
    retriever: PlayedRetriever = field(default_factory=PlayedRetriever)
    thinking: PlayedThinking = field(default_factory=PlayedThinking)
    rules: RecallRules = field(default_factory=RecallRules)
    generations: dict[str, int] = field(default_factory=dict)
    version: int = 0
    told: list[Mapping[str, Any]] = field(default_factory=list)
    watched: bool = False
    enabled: bool = True
    without_parts: bool = False
    cold: dict[str, list[str]] = field(default_factory=dict)
    time: float = 0.0
    recaller: Recaller = field(init=False)
    source: RecallSource = field(init=False)

    def __post_init__(self) -> None:
        def kept() -> AnswerCache[Any]:
            return AnswerCache(lambda: 100, lambda: 3600, lambda: self.time)

        memo_cache: AnswerCache[AiMemoAnswer] = kept()
        found_cache: AnswerCache[Found] = kept()
        notebooks = lambda: Notebooks(self.home / "dailynote", 100_000)  # noqa: E731 - asked at each use
        self.recaller = Recaller(
            lambda: None if self.without_parts else self._parts(),
            self._cold_parts,
            notebooks,
            AiMemo(self.ask, notebooks, self.home, lambda: AiMemoRules(self.configured, 5, 60_000, ""), memo_cache),
            lambda: self.rules,
            home=self.home,
            now=lambda: NOW,
            cache=found_cache,
            random=lambda: Random(1),
        )
        self.source = RecallSource(
            lambda: self.recaller,
            enabled=lambda: self.enabled,
            max_seconds=lambda: 30.0,
            inform=lambda: (lambda message, _turn: self.told.append(message)) if self.watched else None,
        )

    def _parts(self) -> RecallParts:
        states = {
            name: NotebookState(number, name, self.generations.get(name, 0), 1, 1)
            for number, name in enumerate(self.retriever.texts)
        }
        return RecallParts(self.retriever, self.thinking, lambda: states, lambda: self.version, self._fresh)

    async def _cold_parts(self) -> RecallParts | None:
        states = {name: NotebookState(number, name, 0, 1, 1) for number, name in enumerate(self.cold)}
        retriever = PlayedRetriever(self.cold, dict.fromkeys(self.cold, 0.7))
        return RecallParts(retriever, self.thinking, lambda: states, lambda: 0, self._fresh) if states else None

    async def _fresh(self) -> None:
        return None

    def answers(self, text: str, *messages: Message) -> list[Answer]:
        """The answers for all declarations of a text."""

        async def main() -> list[Answer]:
            declarations = [item for _, item in find_declarations(text)]
            request = await self.recaller.request(declarations, messages or [{"role": "user", "content": "天气"}])
            return await self.recaller.answers(declarations, request)

        return asyncio.run(main())

    def texts(self, text: str, *messages: Message) -> list[str | None]:
        """Their texts."""
        return [answer.text for answer in self.answers(text, *messages)]

    def write(self, notebook: str, **files: str) -> None:
        """Files of a notebook by their stems."""
        folder = self.home / "dailynote" / notebook
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / f"{name}.txt").write_text(text, encoding="utf-8")
