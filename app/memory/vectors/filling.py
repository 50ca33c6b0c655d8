"""Gives every chunk and every tag its vector, in the background, and never loses one (memory.md 11.2, 11.4, 11.28)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.errors import VcpError
from app.extend import Clock
from app.memory.embedders.embedder import Embedder, Signature
from app.memory.embedders.roster import Embedders, comparable
from app.memory.index.chunks import embedded_sha
from app.memory.index.database import IndexBrokenError, IndexUnavailableError
from app.memory.index.memory_index import MemoryIndex
from app.memory.vectors import tables
from app.memory.vectors.sets import VectorSets
from app.memory.vectors.tables import Waiting
from app.memory.vectors.vector_set import VectorSet

log = logging.getLogger(__name__)

BATCH_TEXTS = 64
IDLE_SECONDS = 60.0
"""So often it looks without having been woken: texts that failed, another embedder in the settings."""

TROUBLE_SECONDS = 30.0
FAILED_SHARE = 50
"""A new set serves while at most one text in so many waits to be tried again."""

BLANK = Waiting(0, 2**53, "nothing is left to embed")

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 30, 6 * 3600


@dataclass(frozen=True, slots=True)
class Reembedding:
    """A change of model that waits for a person: how much there is to do, and what it may cost."""

    signature: str
    texts: int
    tokens: int


class Filling:
    """A ``Lifecycle``. ``confirm_texts`` is from how many texts on a paid model waits for ``confirm``."""

    def __init__(
        self,
        sets: VectorSets,
        index: MemoryIndex,
        embedders: Embedders,
        *,
        confirm_texts: Callable[[], int],
        clock: Clock = time.time,
    ) -> None:
        self._sets = sets
        self._index = index
        self._embedders = embedders
        self._confirm_texts = confirm_texts
        self._clock = clock
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._confirmed = ""
        self.unconfirmed: Reembedding | None = None
        self.trouble = ""
        self.embedded = 0

    async def start(self) -> None:
        """Begin; the sets are open already."""
        self._sets.chunks_came(lambda _: self._wake.set())
        self._task = asyncio.create_task(self._run(), name="memory vectors")

    async def stop(self) -> None:
        """End; what was embedded and not kept yet is embedded again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def health(self) -> str:
        """Missing vectors are no illness: words are searched."""
        return ""

    def confirm(self) -> bool:
        """A person agrees to the costs of the change that waits; false when none does."""
        waits = self.unconfirmed
        if waits is None:
            return False
        self._confirmed, self.unconfirmed = waits.signature, None
        self._wake.set()
        return True

    def look_again(self) -> None:
        """The settings may name another model."""
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            pause = IDLE_SECONDS
            try:
                pause = await self.step()
            except (IndexBrokenError, IndexUnavailableError, OSError) as error:
                said = error.message if isinstance(error, VcpError) else error.strerror or str(error)
                if said != self.trouble:
                    log.warning("memory: vectors cannot be kept now: %s", said)
                self.trouble, pause = said, TROUBLE_SECONDS
            if pause > 0:
                try:
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    async def step(self) -> float:
        """Embed one batch; how many seconds to wait before the next one, unless something comes."""
        embedder = self._embedders.current()
        if embedder is None:
            return IDLE_SECONDS
        target = await self._target(embedder)
        if target is None:
            return IDLE_SECONDS
        texts = await self._batch(target)
        if not texts:
            if target is self._sets.building and await self._is_whole(target):
                await self._sets.switch()
                log.info("memory: the vectors of %s serve from now on", target.signature)
                return 0.0
            return IDLE_SECONDS
        return await self._embed(embedder, target, texts)

    async def _target(self, embedder: Embedder) -> VectorSet | None:
        """The set to fill now: the serving one of this model, or a new one beside that of another model."""
        serving, building = self._sets.serving, self._sets.building
        if serving is not None and comparable(embedder.signature, serving.signature):
            if building is not None:
                await self._sets.give_up_building()  # the settings have the old model again
            self.unconfirmed = None
            return serving
        if building is not None and comparable(embedder.signature, building.signature):
            return building
        signature = await self._known_signature(embedder)
        if signature is None or not await self._may_begin(embedder, signature):
            return None
        return await self._sets.new_set(signature)

    async def _known_signature(self, embedder: Embedder) -> Signature | None:
        """The signature with its dimension; a model that nobody has asked yet is asked for one vector."""
        if not embedder.signature.dimension:
            embedded = await embedder.embed_passages({"probe": "记忆"})
            if not embedded.vectors:
                self._troubled(next(iter(embedded.failed.values()), "no vector came"))
                return None
        return embedder.signature

    async def _may_begin(self, embedder: Embedder, signature: Signature) -> bool:
        """Whether the change of model may cost what it costs; the first model of all is what the settings ask for."""
        if self._sets.serving is None or not self._sets.serving.count or not embedder.paid:
            return True
        texts, tokens = await self._amount()
        if texts <= self._confirm_texts() or self._confirmed == signature.key():
            return True
        if self.unconfirmed is None or self.unconfirmed.signature != signature.key():
            log.warning(
                "memory: %d texts (about %d tokens) are to be embedded anew by %s, which may cost money; "
                "confirm with: vcp memory reembed --yes",
                texts,
                tokens,
                signature.model,
            )
        self.unconfirmed = Reembedding(signature.key(), texts, tokens)
        return False

    async def _amount(self) -> tuple[int, int]:
        return await self._index.database.read(
            lambda connection: tuple(
                connection.execute("SELECT count(DISTINCT embed_sha), coalesce(sum(tokens), 0) FROM chunks").fetchone()
            )
        )

    async def _batch(self, target: VectorSet) -> dict[bytes, str]:
        """Texts that want a vector in this set and may be tried now, fresh ones first, tags last."""
        waiting = await self._sets.database.read(lambda connection: tables.waiting_of(connection, target.id))
        now = self._clock()
        held = {sha for sha, one in waiting.items() if one.not_before > now}
        if target is self._sets.serving:
            wanted: dict[bytes, int] = {}
            looked: list[tuple[int, bytes]] = []
            for chunk, sha in self._sets.missing.newest():
                if sha not in held:
                    looked.append((chunk, sha))
                if len(looked) >= BATCH_TEXTS:
                    break
            known = await target.rows_of([sha for _, sha in looked])
            if known:  # another note has the same text, or this one was moved
                await self._sets.kept(target, known)
            wanted = {sha: chunk for chunk, sha in looked if sha not in known}
            if known and not wanted:
                return await self._batch(target)
        else:
            wanted = await self._unbuilt(target, held)
        texts = await self._index.embedded_texts(list(wanted.values()))
        found = {sha: texts[chunk] for sha, chunk in wanted.items() if chunk in texts}
        blank = {sha: BLANK for sha, text in found.items() if not text.strip()}
        if blank:
            await self._sets.database.write(lambda connection: tables.put_waiting(connection, target.id, blank))
            return await self._batch(target)
        if len(found) < BATCH_TEXTS:
            found |= await self._tags(target, held, BATCH_TEXTS - len(found))
        return found

    async def _unbuilt(self, target: VectorSet, held: set[bytes]) -> dict[bytes, int]:
        places = await self._index.places()
        newest = {place.embed_sha: place.id for place in places}
        known = await self._sets.database.read(lambda connection: tables.all_rows(connection, target.id))
        left = [(chunk, sha) for sha, chunk in newest.items() if sha not in known and sha not in held]
        left.sort(reverse=True)
        return {sha: chunk for chunk, sha in left[:BATCH_TEXTS]}

    async def _tags(self, target: VectorSet, held: set[bytes], limit: int) -> dict[bytes, str]:
        tags = {embedded_sha(tag): tag for tag in await self._index.tag_notes()}
        known = await target.rows_of(tags)
        left = [sha for sha in tags if sha not in known and sha not in held]
        return {sha: tags[sha] for sha in left[:limit]}

    async def _is_whole(self, target: VectorSet) -> bool:
        """Whether only few texts failed; a model that is away must not make a set that knows nothing serve."""
        waiting = await self._sets.database.read(lambda connection: tables.waiting_of(connection, target.id))
        return len(waiting) * FAILED_SHARE <= target.count

    async def _embed(self, embedder: Embedder, target: VectorSet, texts: Mapping[bytes, str]) -> float:
        embedded = await embedder.embed_passages({sha.hex(): text for sha, text in texts.items()})
        vectors = {bytes.fromhex(sha): vector for sha, vector in embedded.vectors.items()}
        if vectors:
            rows = await target.add(vectors)
            await self._sets.kept(target, rows)
            self.embedded += len(rows)
        failed = {sha: fault for sha, fault in embedded.failed.items() if bytes.fromhex(sha) in texts}
        if failed:
            await self._wait(target, {bytes.fromhex(sha): fault for sha, fault in failed.items()})
            self._troubled(next(iter(failed.values())))
        elif vectors:
            self.trouble = ""
        return embedded.retry_after if embedded.retry_after > 0 else 0.0

    async def _wait(self, target: VectorSet, faults: Mapping[bytes, str]) -> None:
        before = await self._sets.database.read(lambda connection: tables.waiting_of(connection, target.id))
        now = int(self._clock())
        later: dict[bytes, Waiting] = {}
        for sha, fault in faults.items():
            tries = before[sha].tries + 1 if sha in before else 1
            pause = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(tries - 1, 20))
            later[sha] = Waiting(tries, now + pause, fault[:500])
        await self._sets.database.write(lambda connection: tables.put_waiting(connection, target.id, later))

    def _troubled(self, said: str) -> None:
        if said != self.trouble:
            log.warning("memory: some texts have no vector yet: %s", said)
        self.trouble = said
