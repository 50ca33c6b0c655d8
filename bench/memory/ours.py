"""Our method as it is used: the real index and vector sets over files or prepared passages, and the retriever."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from app.memory.embedders.choice import HASHING, Choice
from app.memory.embedders.embedder import Calibration, Embedded, Signature, Vector
from app.memory.embedders.query_cache import QueryCache
from app.memory.embedders.roster import Embedders
from app.memory.enhance.rag_tags import RagTags
from app.memory.enhance.semantic_groups import SemanticGroups
from app.memory.enhance.tag_memo import TagMemo
from app.memory.index.chunks import embedded_sha
from app.memory.index.memory_index import MemoryIndex
from app.memory.index.note_files import FileState, NoteRules
from app.memory.index.prepared import PreparedChunk, PreparedNote
from app.memory.index.sync import Sync, SyncPace
from app.memory.index.words import document_words
from app.memory.ranking.gate import Gates
from app.memory.ranking.options import RankingOptions
from app.memory.ranking.pipeline import Retriever
from app.memory.ranking.requests import DateRange, RecallQuery, Retrieval, Retrieved
from app.memory.time_words import find_time_spans
from app.memory.vectors.filling import Filling
from app.memory.vectors.sets import VectorSets
from app.protocol.diary_head import NoteHead
from app.protocol.token_estimate import estimated_tokens
from bench.memory.baselines import Found
from bench.memory.embedding import Cached, Kind
from bench.memory.report import OURS
from bench.memory.sets import Passage

ENOUGH_TOKENS = 10**9
STORED_AT_ONCE = 200
UNDATED = datetime(2025, 1, 1, tzinfo=UTC)
"""When questions are asked of sets that do not say when."""


@dataclass(frozen=True, slots=True)
class Modifiers:
    """The declaration that is measured; the plain one has none of them."""

    time: bool = True
    tags: bool = True
    tag_boost: float | None = None


class FromCache:
    """The model of the bench as an ``Embedder`` of memory."""

    max_tokens = 512
    paid = False

    def __init__(self, cached: Cached) -> None:
        self._cached = cached
        self.signature = Signature(f"bench {cached.signature}", cached.dimensions)
        self.calibration = Calibration(0.3, 0.1)

    async def embed_query(self, text: str) -> Vector:
        return self._rows([text], "query")[0]

    async def embed_passages(self, texts: Mapping[str, str]) -> Embedded:
        return Embedded(dict(zip(texts, self._rows(list(texts.values()), "passage"), strict=True)))

    async def start(self) -> None:
        """Nothing to do."""

    async def stop(self) -> None:
        """Nothing to do."""

    def _rows(self, texts: Sequence[str], kind: Kind) -> list[Vector]:
        return [np.array(row, dtype=np.float32) for row in self._cached.embed(texts, kind)]


@dataclass(slots=True)
class Corpus:
    """The open parts over one corpus."""

    index: MemoryIndex
    sets: VectorSets
    retriever: Retriever
    passages: dict[tuple[str, int], str]
    """Ids of passages by path and place."""


@dataclass(slots=True)
class Ours:
    """A context manager; files live in a temporary folder as long as it is open.

    ``notes`` are the files of the set where it has any; else each document is a note whose chunks are its passages.
    ``judged``: the gate is asked too, as a gated declaration does.
    """

    embedder: Cached
    notes: Mapping[str, str] | None = None
    judged: bool = False
    modifiers: Modifiers = Modifiers()
    options: RankingOptions = field(default_factory=RankingOptions)
    name: str = OURS
    corpora: dict[str, Corpus] = field(default_factory=dict)
    _runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    _parts: AsyncExitStack = field(default_factory=AsyncExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._parts.aclose())
        self._runner.close()

    def build(self, corpora: Mapping[str, Sequence[Passage]]) -> None:
        """Index everything and give it its vectors."""
        for name, passages in corpora.items():
            self.corpora[name] = self._runner.run(self._built(passages))

    def found(self, corpus: str, question: str, now: datetime | None, k: int) -> Retrieved:
        """What a declaration over all notebooks of the corpus gets."""
        known = self.corpora[corpus]
        retrieval = Retrieval(
            tuple(known.index.notebooks()),
            k,
            ENOUGH_TOKENS,
            time=self.modifiers.time,
            tags=self.modifiers.tags,
            tag_boost=self.modifiers.tag_boost,
        )
        return self._runner.run(known.retriever.retrieve(asked_at(question, now), retrieval))

    def search(self, corpus: str, question: str, now: datetime | None, k: int) -> Found:
        """Its hits in their order, and the value of the notebook whose gate is the widest."""
        known = self.corpora[corpus]
        hits = self.found(corpus, question, now, k).hits
        ids = (known.passages.get((hit.chunk.path, hit.chunk.ordinal)) for hit in hits)
        value = max(self.gate(corpus, question, now).values()) if self.judged else None
        return Found(tuple(dict.fromkeys(name for name in ids if name)), value)

    def gate(self, corpus: str, question: str, now: datetime | None) -> dict[str, float]:
        """The value of each notebook's gate."""
        known = self.corpora[corpus]
        values = self._runner.run(known.retriever.gate(asked_at(question, now), list(known.index.notebooks())))
        return {one.notebook: one.value for one in values}

    async def _built(self, passages: Sequence[Passage]) -> Corpus:
        folder = Path(self._parts.enter_context(tempfile.TemporaryDirectory(prefix="vcp-bench-")))
        index = MemoryIndex(folder / "index.sqlite")
        await index.open()
        self._parts.push_async_callback(index.stop)
        embedder = FromCache(self.embedder)
        embedders = Embedders(lambda: Choice(HASHING, embedder.signature.key()), lambda _: embedder)
        queries = QueryCache(max_size=lambda: 5000, ttl=lambda: 3600.0, timer=lambda: 0.0)
        self._parts.push_async_callback(queries.stop)
        sets = VectorSets(folder, index, embedders, queries)
        await sets.open()
        self._parts.push_async_callback(sets.stop)
        if self.notes is not None:
            await self._synced(folder / "dailynote", index)
        else:
            await _stored(index, passages)
        await self._put_vectors(sets, embedder, passages)
        filling = Filling(sets, index, embedders, confirm_texts=lambda: 0)
        while not await filling.step():  # tags, and the calibration
            pass
        retriever = Retriever(
            index,
            sets,
            options=lambda: self.options,
            gates=Gates(index, sets, RagTags(folder, lambda: 0.0), lambda: self.options),
            groups=SemanticGroups(folder, sets, lambda: 0.0),
            tags=TagMemo(index, sets, lambda: self.options),
        )
        return Corpus(index, sets, retriever, {(path_of(one), one.place): one.id for one in passages})

    async def _synced(self, root: Path, index: MemoryIndex) -> None:
        for path, text in (self.notes or {}).items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        await Sync(lambda: root, index, NoteRules, SyncPace).caught_up()

    async def _put_vectors(self, sets: VectorSets, embedder: FromCache, passages: Sequence[Passage]) -> None:
        made = await sets.new_set(embedder.signature)
        texts = list(dict.fromkeys(one.whole for one in passages))
        for begin in range(0, len(texts), STORED_AT_ONCE):
            part = {text: text for text in texts[begin : begin + STORED_AT_ONCE]}
            vectors = (await embedder.embed_passages(part)).vectors
            rows = await made.add({embedded_sha(text): vector for text, vector in vectors.items()})
            await sets.kept(made, rows)


def asked_at(question: str, now: datetime | None) -> RecallQuery:
    """The question with its time words, if it is known when it was asked."""
    spans = () if now is None else find_time_spans(question, now)
    days = tuple(DateRange(span.first, span.last, span.soft) for span in spans)
    return RecallQuery(question, "", now or UNDATED, ranges=days)


def path_of(passage: Passage) -> str:
    """Where the note of a passage lies: in a notebook."""
    return (
        passage.document
        if passage.notebook and passage.document.startswith(passage.notebook)
        else f"all/{passage.document}"
    )


async def _stored(index: MemoryIndex, passages: Sequence[Passage]) -> None:
    """Passages as the chunks of notes; what is not there are files."""
    notes: dict[str, list[Passage]] = {}
    for one in passages:
        notes.setdefault(one.document, []).append(one)
    prepared = [_note(document) for document in notes.values()]
    for begin in range(0, len(prepared), STORED_AT_ONCE):
        await index.write(prepared[begin : begin + STORED_AT_ONCE])


def _note(passages: Sequence[Passage]) -> PreparedNote:
    first = passages[0]
    chunks = []
    at = 0
    for one in passages:
        end = at + len(one.text)
        words = " ".join(document_words(one.text))
        sha = embedded_sha(one.whole)
        chunks.append(PreparedChunk(at, end, estimated_tokens(one.text), one.text, sha, words))
        at = end + 1
    path = path_of(first)
    return PreparedNote(
        path=path,
        notebook=path.split("/", 1)[0],
        sha256=embedded_sha(path),
        state=FileState(at, 0),
        head=NoteHead(first.day, "", "", 0, at),
        tags=(),
        tag_words="",
        name_words="",
        chunks=tuple(chunks),
    )
