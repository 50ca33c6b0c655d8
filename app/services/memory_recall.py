"""Builds recall: the placeholder source over retrieval, thinking chains and AIMemo, and what explains it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any

import httpx

from app.config.settings import Settings
from app.errors import BadRequestError, both
from app.extend import Informed, Json, Recalled
from app.hub.clients import ClientType
from app.hub.hub import Hub
from app.memory.recall.source import Inform, RecallSource
from app.observe.bus import EventBus
from app.prompt.diaries import Notebooks
from app.services.in_force import InForce

if TYPE_CHECKING:  # numpy is not paid for before memory is used
    from app.memory.index.records import SearchableIndex
    from app.memory.recall.cache import AnswerCache
    from app.memory.recall.parts import RecallParts, RecallRules
    from app.memory.recall.recaller import Recaller
    from app.memory.vectors.search import VectorSearch
    from app.services.memory_ranking import Ranking

SECONDS = 20.0
"""For a declaration that asks no model."""

MODEL_SECONDS = 370.0
"""For one that does: three attempts of two minutes (5.6), and the waits between them."""


@dataclass(frozen=True, slots=True)
class Searching:
    """What declarations are answered from. ``vectors_version`` changes when further vectors can be searched.

    ``fresh`` waits a moment until the index has what our own tools wrote (D80: at once).
    """

    index: SearchableIndex
    vectors: VectorSearch
    ranking: Ranking
    vectors_version: Callable[[], object]
    fresh: Callable[[], Awaitable[None]]


class Recall:
    """Recall of one installation. ``searching`` is asked once, at the first declaration; None: there is no memory.

    ``knowledge`` is the same for cold bases.
    """

    def __init__(
        self,
        in_force: InForce,
        events: EventBus,
        http: httpx.AsyncClient,
        hub: Callable[[], Hub],
        searching: Callable[[], Searching | None],
        knowledge: Callable[[], Awaitable[Searching | None]],
    ) -> None:
        self._in_force = in_force
        self._http = http
        self._searching = searching
        self._knowledge = knowledge
        self._making = threading.Lock()
        self._made: Recaller | None = None
        self._caches: tuple[AnswerCache[Any], ...] = ()

        def inform() -> Inform | None:
            watched, traced = hub().count(ClientType.VCP_INFO) > 0, events.wanted(Recalled)
            if not (watched or traced):
                return None

            def tell(message: Mapping[str, Json], turn_id: str) -> None:
                if watched:
                    events.publish(Informed("recall", message))
                if traced and turn_id:
                    events.publish(Recalled(turn_id, message))

            return tell

        self.source = RecallSource(
            self.recaller,
            enabled=lambda: in_force.settings.memory,
            max_seconds=lambda: (MODEL_SECONDS if _asks_model(in_force.settings) else SECONDS) + 5,
            inform=inform,
        )

    def recaller(self) -> Recaller:
        """Who answers declarations; made at the first use. Blocks for a moment then."""
        with self._making:
            if self._made is None:
                self._made = self._make()
            return self._made

    def cache_use(self) -> tuple[int, int]:
        """How often an answer was kept already, and how often it was not."""
        return sum(cache.hits for cache in self._caches), sum(cache.misses for cache in self._caches)

    async def explain(self, texts: Sequence[str], messages: Sequence[Mapping[str, Any]]) -> Json:
        """Why the declarations in operator text become what they become; raises BadRequestError without memory."""
        from app.memory.recall.explain import explained

        if not self._in_force.settings.memory:
            raise BadRequestError(both("记忆功能未启用（Memory=false）", "memory is switched off (Memory=false)"))
        return await explained(self.recaller(), texts, messages)

    def _make(self) -> Recaller:
        from app.memory.recall.ai_memo import AiMemo, AiMemoAnswer, AiMemoRules
        from app.memory.recall.ai_memo_model import AiMemoModel, ModelAddress
        from app.memory.recall.cache import AnswerCache
        from app.memory.recall.recaller import Found, Recaller

        in_force = self._in_force

        def address() -> ModelAddress:
            settings = in_force.settings
            return ModelAddress(settings.aimemo_url, settings.aimemo_api, settings.aimemo_model)

        def ai_memo_rules() -> AiMemoRules:
            settings = in_force.settings
            return AiMemoRules(
                _asks_model(settings),
                settings.aimemo_batch,
                settings.aimemo_max_tokens_per_batch,
                settings.aimemo_prompt,
            )

        def notebooks() -> Notebooks:
            return Notebooks(in_force.notebooks, in_force.settings.diary_max_chars)

        memo_cache: AnswerCache[AiMemoAnswer] = AnswerCache(
            lambda: in_force.settings.aimemo_cache_max_size,
            lambda: in_force.settings.aimemo_cache_ttl_ms / 1000,
            time.monotonic,
        )
        cache: AnswerCache[Found] = AnswerCache(
            lambda: in_force.settings.rag_cache_max_size,
            lambda: in_force.settings.rag_cache_ttl_ms / 1000,
            time.monotonic,
        )
        self._caches = memo_cache, cache
        return Recaller(
            self._once(),
            self._cold,
            notebooks,
            AiMemo(AiMemoModel(self._http, address).ask, notebooks, in_force.home, ai_memo_rules, memo_cache),
            in_force.following(recall_rules),
            home=in_force.home,
            now=lambda: datetime.now(in_force.zone()),
            cache=cache,
            random=Random,
        )

    async def _cold(self) -> RecallParts | None:
        searching = await self._knowledge()
        return None if searching is None else await asyncio.to_thread(recall_parts, searching, self._in_force)

    def _once(self) -> Callable[[], RecallParts | None]:
        made: list[RecallParts] = []
        making = threading.Lock()

        def parts() -> RecallParts | None:
            with making:
                if not made and (searching := self._searching()) is not None:
                    made.append(recall_parts(searching, self._in_force))
                return made[0] if made else None

        return parts


def recall_parts(searching: Searching, in_force: InForce) -> RecallParts:
    """What the recaller works with."""
    from app.memory.recall.parts import RecallParts
    from app.memory.recall.thinking import ThinkingChains
    from app.services.memory_ranking import ranking_options

    ranking = searching.ranking
    options = in_force.following(ranking_options)
    thinking = ThinkingChains(
        ranking.chains,
        ranking.chain_search,
        searching.vectors,
        ranking.retriever,
        ranking.groups,
        ranking.chain_mode,
        lambda: options().raw_gate,
    )
    return RecallParts(
        ranking.retriever,
        thinking,
        searching.index.notebooks,
        lambda: (ranking.version(), searching.vectors.ready(), searching.vectors_version(), options()),
        searching.fresh,
    )


def recall_rules(settings: Settings) -> RecallRules:
    """What the settings say about recall; a single switch outranks ``MemoryCompat``."""
    from app.memory.recall.parts import RecallRules

    old = settings.memory_compat == "n2025"
    sunday = settings.memory_week_start == "sunday" or (settings.memory_week_start == "auto" and old)
    return RecallRules(
        declaration_tokens=settings.memory_declaration_tokens,
        request_tokens=settings.memory_request_tokens,
        seconds=SECONDS,
        model_seconds=MODEL_SECONDS,
        dates=settings.recall_dates,
        week_start="sunday" if sunday else "monday",
        time_n2025=old if settings.memory_time_parser == "auto" else settings.memory_time_parser != "spans",
        tags_n2025=old if settings.memory_tag_boost == "auto" else settings.memory_tag_boost == "n2025",
        media_limit=settings.base64_memo_limit,
        cache=settings.rag_query_cache_enabled,
    )


def _asks_model(settings: Settings) -> bool:
    return bool(settings.aimemo_url and settings.aimemo_model)
