"""The retriever: one declaration's way from a question to its fragments (memory.md 8.3, 11.7 to 11.18)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from statistics import median

from app.memory.embedders.calibration import calibrated
from app.memory.embedders.embedder import Vector
from app.memory.embedders.rerankers.reranker import Reranker
from app.memory.index.records import SearchableIndex
from app.memory.index.words import document_words, query_words
from app.memory.ranking.candidates import LIST_DEPTH, TAG_NOTES, WORDS_LIMIT, CandidateSearch, Pool
from app.memory.ranking.decay import Decay
from app.memory.ranking.diversity import Shape, select, similarities
from app.memory.ranking.fusion import DENSE_WEIGHT, dense_weight
from app.memory.ranking.gate import Gates
from app.memory.ranking.injection import expanded, fitting
from app.memory.ranking.options import RankingOptions
from app.memory.ranking.query_vector import ASSISTANT_WEIGHT, CONTEXT_WEIGHT, USER_WEIGHT, weighted_mean
from app.memory.ranking.requests import DateRange, Dropped, GateValue, Hit, RecallQuery, Retrieval, Retrieved
from app.memory.ranking.reranking import rank_fused, rerank_depth, reranked
from app.memory.ranking.scoring import Candidate, Terms, base_scores, fusion_of, scored, thinned
from app.memory.ranking.second_hop import associates
from app.memory.ranking.steps import GroupBoost, GroupEffect, TagBoost, TagEffect
from app.memory.ranking.time_path import IN_DAYS_LIMIT, hard_ranges, newest_first, raising_ranges, time_hits
from app.memory.vectors.search import VectorSearch
from app.protocol.recall_query import is_follow_up, reference_tokens

MOST_HITS = 500
"""k is at most this, whatever a declaration says."""

RERANK_SECONDS = 12.0
"""A reranker that takes longer is not waited for: the order before it is better than no answer (20 s in all)."""

DROPPED_LIMIT = 100
"""So many of the candidates that are not among the hits are named, the best ones."""


class Retriever:
    """Implements ``Retrieving`` over an index and vectors.

    ``options`` and ``reranker`` are asked at each use. Without a vector of the question (no model, no set, a model that
    is away) words alone decide, and the answer says so.
    """

    def __init__(
        self,
        index: SearchableIndex,
        vectors: VectorSearch,
        *,
        options: Callable[[], RankingOptions],
        gates: Gates,
        groups: GroupBoost | None = None,
        tags: TagBoost | None = None,
        reranker: Callable[[], Reranker | None] = lambda: None,
        rerank_seconds: float = RERANK_SECONDS,
    ) -> None:
        self._index = index
        self._vectors = vectors
        self._options = options
        self._gates = gates
        self._groups = groups
        self._tags = tags
        self._reranker = reranker
        self._rerank_seconds = rerank_seconds
        self._search = CandidateSearch(index, vectors)

    async def retrieve(self, query: RecallQuery, retrieval: Retrieval) -> Retrieved:
        """The fragments for one declaration, best first, then those of the time path and of the second hop."""
        options = self._options()
        hard = hard_ranges(query) if retrieval.time else ()
        question = asked(query)
        vector = await self.query_vector(query)
        notes: list[str] = []
        if vector is None:
            notes.append("found by words alone: there is no vector of the question")
        groups = GroupEffect((), vector)
        if retrieval.group and self._groups is not None:
            groups = await self._groups.boosted(query.user, vector)
            vector = groups.vector
        words = query_words(question)[:WORDS_LIMIT]
        if groups.words and vector is None:
            words = list(dict.fromkeys([*words, *query_words(" ".join(groups.words))]))[:WORDS_LIMIT]
        tags: TagEffect | None = None
        if retrieval.tags and options.n2025_tags:
            tags = await self._tag_effect(question, vector, retrieval, ())
            vector = tags.vector if tags is not None and tags.vector is not None else vector
        if options.dense_only and vector is not None:
            words = []

        k = min(MOST_HITS, max(0, retrieval.k))
        depth = max(LIST_DEPTH, 2 * k, rerank_depth(k, options.rerank_multiplier) if retrieval.rerank else 0)
        of_days = await self._of_days(hard, retrieval) if hard else []
        pool = await self._search.pool(vector, words, retrieval, depth, of_days=of_days)
        terms = Terms(
            today=query.now.date(),
            dense_weight=weight_of(question, words, retrieval, pool, adaptive=options.uses("adaptive")),
            smoothing=options.uses("neighbours"),
            priors=options.uses("recency"),
            hard=hard,
            soft=() if options.dense_only else raising_ranges(query),
            decay=Decay.of(retrieval.decay_half_life, retrieval.decay_minimum, retrieval.decay_tags),
            truncate=retrieval.truncate,
        )
        if retrieval.tags and not options.n2025_tags:
            tags = await self._tag_effect(question, vector, retrieval, self._found_notes(pool, terms))
            if tags is not None:
                leading = list(islice(tags.masses, TAG_NOTES))
                await self._search.add_notes(pool, vector, words, retrieval, leading)
        if terms.smoothing:
            await self._search.add_neighbours(pool, vector, words, retrieval)
        fusion = fusion_of(pool, terms.dense_weight)
        candidates = scored(pool, fusion, terms, tags, self._similarity(options))
        candidates, dropped = thinned(candidates, terms)
        if retrieval.truncate is not None and vector is None:
            notes.append("nothing is cut by similarity without vectors")

        order = await self._reranked(query.user, candidates, retrieval, options, k, notes)
        ranked = order is not candidates
        if retrieval.expand:
            order = best_of_each_note(order)
        main, repeated = await self._diverse(order, k, options, ranked=ranked)
        timely = self._timely(candidates, main, of_days, retrieval, k)
        hits = [_hit(one, "rag") for one in main]
        time_part = [_hit(one, "time") for one in timely]
        second: list[Hit] = []
        if retrieval.associate:
            second = await associates(
                self._index, self._vectors, query_words, [*hits, *time_part], retrieval.notebooks, k
            )
        if retrieval.expand:
            hits, time_part, second = await self._expanded(hits, time_part, second, retrieval.max_tokens)
        hits, time_part, second, cut = fitting(
            hits, time_part, second, retrieval.max_tokens, retrieval.time_share, reference_tokens
        )
        told = {hit.chunk.id for hit in [*hits, *time_part, *second]} | {one.chunk_id for one in cut}
        rest = [
            Dropped(one.record.id, one.score, "duplicate" if one.record.id in repeated else "k")
            for one in candidates
            if one.record.id not in told
        ]
        return Retrieved(
            hits=(*hits, *newest_first(time_part), *second),
            dropped=tuple([*cut, *(one for one in dropped if one.chunk_id not in told), *rest][:DROPPED_LIMIT]),
            groups=groups.activations,
            tags=dict(tags.weights) if tags is not None else {},
            lexical_only=vector is None,
            notes=tuple(notes),
        )

    async def gate(self, query: RecallQuery, notebooks: Sequence[str]) -> list[GateValue]:
        """The gate of each notebook (2.6)."""
        return await self._gates.values(asked(query), await self.query_vector(query), notebooks)

    async def query_vector(self, query: RecallQuery) -> Vector | None:
        """q of 2.3: 0.7 of the person's words, 0.3 of the model's, a little of the turn before; length 1.

        None where the model of the vectors cannot be asked now.
        """
        if not self._vectors.ready():
            return None
        plain = self._options().dense_only
        question = query.user if plain else asked(query)
        alone = not plain and bool(query.user.strip()) and not is_follow_up(query.user)
        before = query.previous_user if alone else ""
        texts = (question, query.assistant, before)
        user, assistant, earlier = await asyncio.gather(*(self._embedded(text) for text in texts))
        if user is None and question.strip():
            return None
        weights = (USER_WEIGHT, ASSISTANT_WEIGHT, CONTEXT_WEIGHT)
        return weighted_mean(zip((user, assistant, earlier), weights, strict=True), unit=not plain)

    async def _embedded(self, text: str) -> Vector | None:
        return await self._vectors.embed_query(text) if text.strip() else None

    def _similarity(self, options: RankingOptions) -> Callable[[float], float]:
        if options.raw_gate:
            return lambda cosine: cosine
        calibration = self._vectors.calibration()
        return lambda cosine: calibrated(cosine, calibration)

    async def _of_days(self, ranges: Sequence[DateRange], retrieval: Retrieval) -> list[int]:
        if not retrieval.notebooks:
            return []
        found = await asyncio.gather(
            *(self._index.in_days(span.first, span.last, retrieval.notebooks, IN_DAYS_LIMIT) for span in ranges)
        )
        return list(dict.fromkeys(chunk for chunks in found for chunk in chunks))

    async def _tag_effect(
        self, question: str, vector: Vector | None, retrieval: Retrieval, found: Sequence[tuple[int, float]]
    ) -> TagEffect | None:
        if self._tags is None:
            return None
        return await self._tags.effect(question, vector, retrieval.tag_boost, found)

    def _found_notes(self, pool: Pool, terms: Terms) -> list[tuple[int, float]]:
        """Notes by the best fused score of their chunks, best first: where the walk over tags may begin too."""
        best: dict[int, float] = {}
        for chunk, score in base_scores(pool, fusion_of(pool, terms.dense_weight)).items():
            note = pool.records[chunk].note_id
            best[note] = max(best.get(note, 0.0), score)
        return sorted(best.items(), key=lambda pair: (-round(pair[1], 9), pair[0]))

    async def _reranked(
        self,
        question: str,
        candidates: list[Candidate],
        retrieval: Retrieval,
        options: RankingOptions,
        k: int,
        notes: list[str],
    ) -> list[Candidate]:
        """The first candidates in the reranker's order; the list itself when no reranker takes part (2.8)."""
        reranker = self._reranker() if retrieval.rerank else None
        if reranker is None or not candidates:
            if retrieval.rerank and reranker is None:
                notes.append("no reranker is configured")
            return candidates
        first = candidates[: rerank_depth(k, options.rerank_multiplier)]
        by_id = {one.record.id: one for one in first}
        answer: Mapping[int, float] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(self._rerank_seconds):
                answer = await reranker.rerank(question, [one.record.text for one in first])
        scores = {one.record.id: answer[at] for at, one in enumerate(first) if at in answer}
        for chunk, score in scores.items():
            by_id[chunk].parts["rerank"] = score
        if not scores:
            notes.append("the reranker has not answered; the order is the one before it")
        if retrieval.rerank_fusion is not None:
            order = rank_fused(list(by_id), scores, retrieval.rerank_fusion)
        else:
            order = reranked(list(by_id), scores)
        return [by_id[chunk] for chunk in order]

    async def _diverse(
        self, order: Sequence[Candidate], k: int, options: RankingOptions, *, ranked: bool
    ) -> tuple[list[Candidate], frozenset[int]]:
        """The k hits, and which candidates only repeat one of them. A reranker's order is kept."""
        if not options.uses("duplicates") or not order:
            return list(order[:k]), frozenset()
        head = list(order[: max(LIST_DEPTH, 2 * k)])
        by_id = {one.record.id: one for one in head}
        ids = list(by_id)
        with_vectors, matrix = await self._vectors.of_chunks(ids)
        best = max((one.score for one in head), default=0.0)
        chosen = await asyncio.to_thread(  # of 500 fragments it takes a while
            select,
            ids,
            {one.record.id: one.score / best if best > 0 else 0.0 for one in head},
            cache(lambda chunk: Shape.of(by_id[chunk].record.text)),
            similarities(ids, with_vectors, matrix) if with_vectors else None,
            k,
            calibration=self._vectors.calibration() if with_vectors else None,
            in_order=ranked,
        )
        return [by_id[chunk] for chunk in chosen.chosen], frozenset(chosen.repeats)

    def _timely(
        self,
        candidates: Sequence[Candidate],
        main: Sequence[Candidate],
        of_days: Sequence[int],
        retrieval: Retrieval,
        k: int,
    ) -> list[Candidate]:
        """The best chunks of the days asked for that are not among the hits yet, best first (2.7)."""
        if not of_days:
            return []
        days, taken = frozenset(of_days), {one.record.id for one in main}
        inside = [one for one in candidates if one.record.id in days and one.record.id not in taken]
        if retrieval.expand:
            notes = {one.record.note_id for one in main}
            inside = best_of_each_note([one for one in inside if one.record.note_id not in notes])
        return inside[: time_hits(k, retrieval.time_share)]

    async def _expanded(
        self, hits: list[Hit], timely: list[Hit], second: list[Hit], tokens: int
    ) -> tuple[list[Hit], list[Hit], list[Hit]]:
        """All three lists with whole notes, each note in one of them only."""
        whole = await expanded(self._index, [*hits, *timely, *second], reference_tokens, tokens)
        return (
            [hit for hit in whole if hit.source == "rag"],
            [hit for hit in whole if hit.source == "time"],
            [hit for hit in whole if hit.source == "associate"],
        )


def asked(query: RecallQuery) -> str:
    """The person's question; with the one before it where it only points back to it (那后来呢？), 11.18."""
    if query.previous_user.strip() and is_follow_up(query.user):
        return f"{query.previous_user}\n{query.user}"
    return query.user if query.user.strip() else query.assistant


def weight_of(question: str, words: Sequence[str], retrieval: Retrieval, pool: Pool, *, adaptive: bool = True) -> float:
    """The share of meaning: what ``::BM25`` leaves, else what question and candidates call for (11.8)."""
    if retrieval.bm25 is not None:
        return 1.0 - retrieval.bm25
    if not adaptive:
        return DENSE_WEIGHT
    return dense_weight(question, typical_length(pool), cover_of(words, pool))


def cover_of(words: Sequence[str], pool: Pool) -> float:
    """Which part of the question's words the best fragment by words has, in its text and tags."""
    if not words or not pool.bm25:
        return 0.0
    best = pool.records[max(pool.bm25, key=lambda chunk: (pool.bm25[chunk], -chunk))]
    there = frozenset(document_words(f"{best.text} {' '.join(best.tags)}"))
    return sum(word in there for word in words) / len(words)


def typical_length(pool: Pool) -> float:
    """The median length of what was found, in characters."""
    lengths = [len(pool.records[chunk].text) for chunk in pool.listed]
    return float(median(lengths)) if lengths else 0.0


def best_of_each_note(order: Sequence[Candidate]) -> list[Candidate]:
    """The first chunk of each note, for where whole notes are injected."""
    first: dict[int, Candidate] = {}
    for one in order:
        first.setdefault(one.record.note_id, one)
    return list(first.values())


def _hit(one: Candidate, source: str) -> Hit:
    record = one.record
    tags = tuple(tag for tag in record.tags if tag in one.matched_tags)
    return Hit(record, record.text, record.tokens, one.score, source, one.similarity, dict(one.parts), tags)
