"""Answers all declarations of a prompt together: one question, one embedding, each declaration by itself (11.27).

A fault costs one declaration and never the turn: it becomes ``[RAG处理失败]``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from app.memory.ranking.gate import aggregate
from app.memory.ranking.requests import GateValue, RecallQuery, Retrieval, Retrieved
from app.memory.recall.ai_memo import AiMemo
from app.memory.recall.answer import Answer, Outcome, guarded
from app.memory.recall.attachments import media_parts
from app.memory.recall.budget import allowances, within
from app.memory.recall.cache import AnswerCache, cache_key
from app.memory.recall.parts import RecallParts, RecallRules
from app.memory.recall.question import recall_query
from app.memory.recall.rendering import chain_text, fragments_text
from app.memory.recall.whole import whole_text
from app.prompt.diaries import Notebooks
from app.prompt.scope import folded_role
from app.protocol import recall_frames as frames
from app.protocol.recall import ChainDeclaration, Declaration, LicenceToken, NotebookDeclaration
from app.protocol.recall_query import dynamic_k

log = logging.getLogger(__name__)

AI_MEMO_CANDIDATES = 5
"""So many times as many fragments are recalled for a model to choose from (``::AIMemo+``)."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for one declaration, as it is kept in the cache."""

    gates: tuple[GateValue, ...]
    retrieved: Retrieved | None


@dataclass(frozen=True, slots=True)
class Request:
    """One turn: its question, its texts, how many messages each role has, and whether AIMemo is allowed.

    ``cold`` answers declarations of cold bases; None where there are none. ``keep`` false leaves caches as they are
    (``explain``).
    """

    query: RecallQuery
    counts: Mapping[str, int]
    licensed: bool
    rules: RecallRules
    parts: RecallParts | None
    cold: RecallParts | None
    keep: bool

    def parts_of(self, declaration: NotebookDeclaration) -> RecallParts | None:
        """What answers it."""
        return self.cold if declaration.cold else self.parts


class Recaller:
    """See the module. Callables are asked at each use; ``parts`` makes what needs numpy when it is first needed."""

    def __init__(
        self,
        parts: Callable[[], RecallParts | None],
        cold: Callable[[], Awaitable[RecallParts | None]],
        notebooks: Callable[[], Notebooks],
        ai_memo: AiMemo,
        rules: Callable[[], RecallRules],
        *,
        home: Path,
        now: Callable[[], datetime],
        cache: AnswerCache[Found],
        random: Callable[[], Random],
    ) -> None:
        self._parts = parts
        self._cold = cold
        self._notebooks = notebooks
        self._ai_memo = ai_memo
        self._rules = rules
        self._home = home
        self._now = now
        self._cache = cache
        self._random = random

    @property
    def seconds(self) -> float:
        """How long an answer may take at most."""
        rules = self._rules()
        return (rules.model_seconds if self._ai_memo.configured else rules.seconds) + 5

    async def request(
        self, declarations: Sequence[Declaration], messages: Sequence[Mapping[str, Any]], *, keep: bool = True
    ) -> Request:
        """The turn that declarations are answered for; the index is left alone where they only want whole files."""
        rules = self._rules()
        query = await asyncio.to_thread(
            recall_query, messages, self._now(), week_start=rules.week_start, time_n2025=rules.time_n2025
        )
        counts = Counter(folded_role(message.get("role")) for message in messages)
        licensed = any(isinstance(item, LicenceToken) for item in declarations)
        searching = any(map(_searches, declarations))
        parts = await asyncio.to_thread(self._parts) if searching else None
        if parts is not None:
            await parts.fresh()
        asked_cold = any(isinstance(item, NotebookDeclaration) and item.cold for item in declarations)
        cold = await self._cold() if asked_cold else None
        return Request(query, counts, licensed, rules, parts, cold, keep)

    async def answers(self, declarations: Sequence[Declaration], request: Request) -> list[Answer]:
        """An answer for each declaration, in their order. Never raises for one of them."""
        firsts: dict[object, NotebookDeclaration] = {}
        tasks: list[asyncio.Task[Answer] | Answer] = []
        joint = self._joint(declarations, request)
        async with asyncio.TaskGroup() as group:

            def run(
                declaration: Declaration, work: Coroutine[Any, Any, Answer], seconds: float
            ) -> asyncio.Task[Answer]:
                return group.create_task(guarded(declaration, work, seconds))

            for declaration in declarations:
                match declaration:
                    case LicenceToken():
                        tasks.append(Answer(declaration, Outcome.REMOVED, ""))
                    case ChainDeclaration():
                        tasks.append(run(declaration, self._chain(declaration, request), request.rules.seconds))
                    case NotebookDeclaration():
                        if declaration.asks in firsts:
                            tasks.append(Answer(declaration, Outcome.REPEAT, ""))
                            continue
                        firsts[declaration.asks] = declaration
                        asks_model = self._asks_model(declaration, request)
                        seconds = request.rules.model_seconds if asks_model else request.rules.seconds
                        work = self._notebook(declaration, request, joint.get(declaration.modifiers.ai_memo_preset, ()))
                        tasks.append(run(declaration, work, seconds))
        answers = [task if isinstance(task, Answer) else task.result() for task in tasks]
        return await self._finished(answers, request)

    # --- one declaration ---

    async def _notebook(
        self, declaration: NotebookDeclaration, request: Request, joint: Sequence[NotebookDeclaration]
    ) -> Answer:
        modifiers = declaration.modifiers
        if declaration.cold and not _has_base(declaration, request):
            return Answer(declaration, Outcome.LEFT, None, why="there is no such folder in knowledge/")
        if not modifiers.lets_through(request.counts):
            return Answer(declaration, Outcome.VALVE, "")
        needs_question = declaration.form.gated or not declaration.form.full
        if needs_question and not (request.query.user or request.query.assistant):
            return Answer(declaration, Outcome.NO_QUESTION, "", why="the conversation has no text to ask with")
        gates: tuple[GateValue, ...] = ()
        whole = self._asks_model(declaration, request) and not modifiers.ai_memo_recalls
        retrieval = None if declaration.form.full or whole else self._retrieval(declaration, request)
        found, cached = Found((), None), False
        if declaration.form.gated or retrieval is not None:
            found, cached = await self._found(declaration, retrieval, request)
            gates = found.gates
        gate = aggregate(gates) if gates else None
        answer = Answer(declaration, Outcome.FILLED, "", gates=gates, gate=gate, retrieval=retrieval, from_cache=cached)
        least = modifiers.truncate
        if gate is not None and not (gate.open if least is None else gate.value >= least):
            return replace(answer, outcome=Outcome.CLOSED)
        if self._asks_model(declaration, request):
            return await self._asked(answer, declaration, found, request, joint)
        if retrieval is None:
            text = await asyncio.to_thread(
                whole_text, self._notebooks(), declaration.notebooks, modifiers, self._random
            )
            return replace(answer, text=text)
        retrieved = found.retrieved or Retrieved(())
        return replace(answer, retrieved=retrieved, hits=retrieved.hits)

    def _retrieval(self, declaration: NotebookDeclaration, request: Request) -> Retrieval:
        modifiers, rules = declaration.modifiers, request.rules
        k = dynamic_k(request.query.user, request.query.assistant, modifiers.multiplier)
        if self._asks_model(declaration, request):
            k *= AI_MEMO_CANDIDATES
        boosted = modifiers.tags and not (rules.tags_n2025 and modifiers.tag_boost is None)
        decay = modifiers.decay
        retrieval = Retrieval(
            declaration.notebooks,
            k,
            rules.declaration_tokens,
            time=modifiers.time,
            group=modifiers.group,
            tags=boosted,
            tag_boost=modifiers.tag_boost,
            tag_rerank=modifiers.tag_rerank,
            rerank=modifiers.rerank,
            rerank_fusion=modifiers.rerank_fusion,
            bm25=modifiers.bm25,
            bm25_bodies=modifiers.bm25_bodies or modifiers.bm25 is None,
            truncate=modifiers.truncate,
            expand=modifiers.expand,
            associate=modifiers.associate,
        )
        if modifiers.time_share is not None:
            retrieval = replace(retrieval, time_share=modifiers.time_share)
        if decay is not None:
            retrieval = replace(
                retrieval, decay_half_life=decay.half_life, decay_minimum=decay.minimum, decay_tags=decay.tags
            )
        return retrieval

    async def _found(
        self, declaration: NotebookDeclaration, retrieval: Retrieval | None, request: Request
    ) -> tuple[Found, bool]:
        """Gate and fragments; what lies behind a closed gate is not looked for."""
        parts, query = request.parts_of(declaration), request.query
        if parts is None:
            raise LookupError("memory is switched off")
        key = cache_key(
            query.user,
            query.assistant,
            query.previous_user,
            query.now.date(),
            query.ranges,
            query.soft_ranges,
            declaration.form,
            declaration.notebooks,
            declaration.cold,
            declaration.modifiers.truncate,
            retrieval,
            self._generations(declaration.notebooks, parts),
            parts.version(),
        )
        kept = self._cache.get(key) if request.rules.cache else None
        if kept is not None:
            return kept, True
        gates: tuple[GateValue, ...] = ()
        if declaration.form.gated:
            gates = tuple(await parts.retriever.gate(query, declaration.notebooks))
        retrieved = None
        least = declaration.modifiers.truncate
        whole = aggregate(gates) if gates else None
        closed = whole is not None and not (whole.open if least is None else whole.value >= least)
        if retrieval is not None and (not closed or not request.keep):
            retrieved = await parts.retriever.retrieve(query, retrieval)
        found = Found(gates, retrieved)
        if request.rules.cache and request.keep and not _makeshift(found):
            chars = sum(len(hit.text) + len(hit.chunk.text) for hit in retrieved.hits) if retrieved is not None else 0
            self._cache.put(key, found, chars)
        return found, False

    async def _chain(self, declaration: ChainDeclaration, request: Request) -> Answer:
        if request.parts is None:
            raise LookupError("memory is switched off")
        chain = await request.parts.thinking.walk(declaration.call, request.query)
        text = chain_text(chain)
        return Answer(declaration, Outcome.FILLED, text, text, chain=chain)

    # --- AIMemo ---

    def _asks_model(self, declaration: NotebookDeclaration, request: Request) -> bool:
        return declaration.modifiers.ai_memo and request.licensed and not declaration.cold

    def _joint(
        self, declarations: Sequence[Declaration], request: Request
    ) -> dict[str, tuple[NotebookDeclaration, ...]]:
        """The declarations that one answer of the model is for, by preset."""
        joint: dict[str, tuple[NotebookDeclaration, ...]] = {}
        for item in declarations:
            if isinstance(item, NotebookDeclaration) and self._asks_model(item, request) and not item.cold:
                gated = item.form.gated or item.modifiers.ai_memo_recalls
                if not gated and item.modifiers.lets_through(request.counts):
                    preset = item.modifiers.ai_memo_preset
                    joint[preset] = (*joint.get(preset, ()), item)
        return joint

    async def _asked(
        self,
        answer: Answer,
        declaration: NotebookDeclaration,
        found: Found,
        request: Request,
        joint: Sequence[NotebookDeclaration],
    ) -> Answer:
        """What a model finds: in the fragments, in this notebook behind its gate, or in all notebooks of the prompt."""
        if not self._ai_memo.configured:
            return replace(answer, text=frames.AI_MEMO_UNCONFIGURED)
        preset = declaration.modifiers.ai_memo_preset
        if declaration.modifiers.ai_memo_recalls:
            retrieved = found.retrieved or Retrieved(())
            fragments = [(hit.chunk.notebook, Path(hit.chunk.path).name, hit.text) for hit in retrieved.hits]
            told = await self._ai_memo.of_texts(fragments, declaration.notebooks, request.query, preset)
            return replace(answer, text=told.text, retrieved=retrieved, ai_memo=told)
        together = joint if any(item is declaration for item in joint) else (declaration,)
        if together[0] is not declaration:
            return replace(answer, text=frames.ai_memo_pointer(together[0].name))
        names = tuple(dict.fromkeys(name for item in together for name in item.notebooks))
        generations = self._generations(names, request.parts)
        told = await self._ai_memo.answer(names, request.query, preset, generations)
        return replace(answer, text=told.text, ai_memo=told)

    def _generations(self, names: Sequence[str], parts: RecallParts | None) -> tuple[int, ...]:
        states = {} if parts is None else parts.notebooks()
        return tuple(states[name].generation if name in states else 0 for name in names)

    # --- all together ---

    async def _finished(self, answers: list[Answer], request: Request) -> list[Answer]:
        """Fragments within the budget of the request, in their frames; repeats point to what they repeat."""
        wanted = [sum(hit.tokens for hit in answer.hits) for answer in answers]
        allowed = allowances(wanted, request.rules.request_tokens)
        finished = [
            self._framed(answer, request, allowance) if answer.hits or _is_fragments(answer) else answer
            for answer, allowance in zip(answers, allowed, strict=True)
        ]
        firsts = {
            answer.declaration.asks: answer
            for answer in finished
            if isinstance(answer.declaration, NotebookDeclaration) and answer.outcome is not Outcome.REPEAT
        }
        for index, answer in enumerate(finished):
            declaration = answer.declaration
            if isinstance(declaration, NotebookDeclaration):
                first = firsts[declaration.asks]
                pointer = frames.already_recalled(declaration.title) if first.text else first.text
                text = pointer if answer.outcome is Outcome.REPEAT else answer.text
                finished[index] = replace(answer, text=text, again=pointer or "")
        return await self._with_media(finished, request)

    def _framed(self, answer: Answer, request: Request, allowance: int) -> Answer:
        assert isinstance(answer.declaration, NotebookDeclaration)
        hits, cut = within(answer.hits, allowance)
        groups = answer.retrieved.groups if answer.retrieved is not None else ()
        text = fragments_text(answer.declaration, request.query, hits, groups, dates=request.rules.dates)
        return replace(answer, text=text, hits=hits, cut=cut)

    async def _with_media(self, answers: list[Answer], request: Request) -> list[Answer]:
        """Media of ``::Base64Memo`` go with the first answer that asks for them; all of them share one limit."""
        asking = [
            answer
            for answer in answers
            if isinstance(answer.declaration, NotebookDeclaration)
            and answer.declaration.modifiers.media
            and answer.text
        ]
        if not asking or not request.rules.media_limit:
            return answers
        texts = [answer.text or "" for answer in asking]
        try:
            parts = await asyncio.to_thread(media_parts, texts, self._home, request.rules.media_limit)
        except (OSError, ValueError) as error:
            log.warning("media of recalled notes cannot be attached: %s", error)
            return answers
        return [replace(answer, attached=parts) if answer is asking[0] else answer for answer in answers]


def _searches(declaration: Declaration) -> bool:
    """Whether it needs the index: whole files without a gate do not."""
    if isinstance(declaration, NotebookDeclaration):
        form = declaration.form
        return not declaration.cold and (form.gated or not form.full or declaration.modifiers.ai_memo)
    return isinstance(declaration, ChainDeclaration)


def _makeshift(found: Found) -> bool:
    """Whether a part was away (vectors, a reranker): asked again, it may be back, so this is not kept."""
    retrieved = found.retrieved
    by_words = any(gate.by == "words" for gate in found.gates)
    return by_words or (retrieved is not None and (retrieved.lexical_only or bool(retrieved.notes)))


def _has_base(declaration: NotebookDeclaration, request: Request) -> bool:
    """Whether one of its names is a cold base: what stands in such brackets may well be a link of a person."""
    return request.cold is not None and any(name in request.cold.notebooks() for name in declaration.notebooks)


def _is_fragments(answer: Answer) -> bool:
    return (
        answer.outcome is Outcome.FILLED and answer.retrieved is not None and answer.ai_memo is None and not answer.text
    )
