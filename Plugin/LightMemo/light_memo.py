"""LightMemo: a model searches notes itself (memory.md 6.1, 6.2)."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from app.extend import CallContext, Json, MemorySearch, PluginContext, Remembered, ToolCall
from app.memory.diaries.files import DiaryError
from app.memory.diaries.permissions import Permissions, read_permissions
from app.protocol.recall_frames import LightMemoHit, light_memo_frame, light_memo_no_author, light_memo_nothing

from .questions import Question, names, read_question

ARRANGED_PREFIX = "已整理"
CLUSTER_SUFFIX = "簇"
ADDRESSED_SUFFIX = "日记本"
SHOWN_NOTEBOOKS = 20
KINDS = {"hybrid": "混合", "rerank": "Rerank", "vector": "向量", "words": "BM25"}


class LightMemo:
    """The plugin: one search over the memory of the server."""

    def __init__(self, context: PluginContext) -> None:
        self._context = context

    async def call(self, call: ToolCall, _context: CallContext) -> Json:
        """The text for the model; raises DiaryError, and what memory raises."""
        question = read_question(call.arguments)
        permissions = await asyncio.to_thread(read_permissions, Path(self._context.home))
        notebooks = self._notebooks(question, permissions)
        if not notebooks:
            return light_memo_no_author(question.maid) if question.scoped else light_memo_nothing(question.shown)
        found = await self._context.memory.search(
            MemorySearch(
                question.query,
                notebooks,
                k=question.k,
                authors=question.authors,
                tags_all=question.tags_all,
                tags_any=question.tags_any,
                ranges=question.ranges,
                words=question.words,
                tag_boost=question.tag_boost,
                rerank=question.rerank,
            )
        )
        if not found:
            return await self._nothing(question, notebooks)
        return light_memo_frame(question.shown, _shown(notebooks), [_hit(one) for one in found])

    def _notebooks(self, question: Question, permissions: Permissions) -> tuple[str, ...]:
        """Where to look; DiaryError for a folder that nobody knows."""
        known = [name for name in self._context.memory.notebooks() if permissions.may_read(question.maid, name)]
        if question.folders:
            return tuple(dict.fromkeys(_named(name, known) for name in question.folders))
        out = frozenset(names(self._context.config.get("EXCLUDED_FOLDERS") or ""))
        searched = [
            name
            for name in known
            if not name.startswith(ARRANGED_PREFIX) and not name.endswith(CLUSTER_SUFFIX) and name not in out
        ]
        if question.scoped:
            searched = [name for name in searched if _folded(question.maid) in _folded(name)]
        return tuple(searched)

    async def _nothing(self, question: Question, notebooks: tuple[str, ...]) -> str:
        """Whether nobody has signed so at all, or nothing of it fits the question."""
        if question.scoped:
            name = MemorySearch(question.maid, notebooks, k=1, authors=question.authors)
            if not await self._context.memory.search(name):
                return light_memo_no_author(question.maid)
        return light_memo_nothing(question.shown)


def _named(name: str, known: Sequence[str]) -> str:
    """The notebook that is meant: of this name, or without 日记本, whatever its case and width."""
    if name in known:
        return name
    wanted = {_folded(name), _folded(name.removesuffix(ADDRESSED_SUFFIX))}
    for notebook in known:
        if _folded(notebook) in wanted:
            return notebook
    raise DiaryError(f"没有日记本 {name[:60]!r}", f"there is no notebook {name[:60]!r}")


def _folded(name: str) -> str:
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())


def _shown(notebooks: Sequence[str]) -> list[str]:
    if len(notebooks) <= SHOWN_NOTEBOOKS:
        return list(notebooks)
    return [*notebooks[:SHOWN_NOTEBOOKS], f"… ({len(notebooks)})"]


def _hit(one: Remembered) -> LightMemoHit:
    score = min(1.0, max(0.0, one.score))
    return LightMemoHit(one.text, one.notebook, score, KINDS.get(one.kind, one.kind), one.matched_tags)


def create(context: PluginContext) -> LightMemo:
    """The plugin's object."""
    return LightMemo(context)
