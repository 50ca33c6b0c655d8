"""Builds retrieval: the retriever with its gate, groups, tags and chains, over an index and vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.config.settings import Settings
from app.services.in_force import InForce

if TYPE_CHECKING:  # numpy is not paid for before memory is used
    from app.memory.embedders.rerankers.reranker import Reranker
    from app.memory.enhance.chain_search import ChainSearch
    from app.memory.enhance.chains import ChainMode, ChainsFile
    from app.memory.enhance.rag_tags import RagTags
    from app.memory.enhance.semantic_groups import SemanticGroups
    from app.memory.index.records import SearchableIndex
    from app.memory.ranking.options import RankingOptions
    from app.memory.ranking.pipeline import Retriever
    from app.memory.vectors.search import VectorSearch


@dataclass(frozen=True, slots=True)
class Ranking:
    """What recall and the search tools are given. The files are live; ``version`` of each belongs into cache keys."""

    retriever: Retriever
    groups: SemanticGroups
    rag_tags: RagTags
    chains: ChainsFile
    chain_search: ChainSearch
    chain_mode: Callable[[], ChainMode]

    def version(self) -> tuple[object, ...]:
        """Changes whenever a file has that changes what is found (3.7)."""
        return (self.rag_tags.version, self.groups.version, self.chains.version)


def build_ranking(
    index: SearchableIndex,
    vectors: VectorSearch,
    in_force: InForce,
    clock: Callable[[], float],
    reranker: Callable[[], Reranker | None],
) -> Ranking:
    """Make all of it. ``clock`` is monotonic, in seconds; the files are looked at once a second at most."""
    from app.memory.enhance.chain_search import ChainSearch
    from app.memory.enhance.chains import ChainsFile
    from app.memory.enhance.places import enhancement_folder
    from app.memory.enhance.rag_tags import RagTags
    from app.memory.enhance.semantic_groups import SemanticGroups
    from app.memory.enhance.tag_memo import TagMemo
    from app.memory.ranking.gate import Gates
    from app.memory.ranking.pipeline import Retriever

    folder = enhancement_folder(in_force.home)
    options = in_force.following(ranking_options)
    rag_tags = RagTags(folder, clock)
    groups = SemanticGroups(folder, vectors, clock)
    gates = Gates(index, vectors, rag_tags, options)
    retriever = Retriever(
        index,
        vectors,
        options=options,
        gates=gates,
        groups=groups,
        tags=TagMemo(index, vectors, options),
        reranker=reranker,
    )
    chains = ChainsFile(folder, clock)
    return Ranking(retriever, groups, rag_tags, chains, ChainSearch(index, vectors), in_force.following(chain_mode))


def ranking_options(settings: Settings) -> RankingOptions:
    """What the settings say about ranking; a single switch outranks ``MemoryCompat``."""
    from app.memory.ranking.options import RankingOptions

    old = settings.memory_compat == "n2025"

    def chosen(value: str, of_old: str) -> bool:
        return old if value == "auto" else value == of_old

    return RankingOptions(
        dense_only=chosen(settings.memory_retrieval, "dense"),
        raw_gate=chosen(settings.memory_gate, "raw"),
        n2025_tags=chosen(settings.memory_tag_boost, "n2025"),
        rerank_multiplier=settings.rerank_multiplier,
        tag_expand=settings.tag_expand_max_count,
    )


def chain_mode(settings: Settings) -> ChainMode:
    """How a thinking chain moves on (5.5)."""
    from app.memory.enhance.chains import N2025, RECURSIVE

    if settings.memory_chain_fusion == "auto":
        return N2025 if settings.memory_compat == "n2025" else RECURSIVE
    return N2025 if settings.memory_chain_fusion == "n2025" else RECURSIVE
