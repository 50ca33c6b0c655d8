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
from app.memory.vectors.tidying import Tidying
from app.memory.vectors.vector_set import VectorSet

log = logging.getLogger(__name__)

BATCH_TEXTS = 64
IDLE_SECONDS = 60.0
"""So often it looks without having been woken: texts that failed, another embedder in the settings."""

TROUBLE_SECONDS = 30.0
FAILED_SHARE = 50
"""A new set serves while at most one text in so many waits to be tried again."""

LONGEST_PAUSE_SECONDS = 600.0
FRESH_TEXTS = 500
"""So many chunks without a vector are fresh notes; more are a set that was never finished."""

BLANK = Waiting(0, 2**53, "nothing is left to embed")

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 30, 6 * 3600


@dataclass(frozen=True, slots=True)
class Reembedding:
    """A change of model that waits for a person: how much there is to do, and what it may cost."""

    signature: str
    model: str
    texts: int
    tokens: int
    cost: float
    """In the currency of ``MemoryEmbeddingPrice``; 0 when no price is set."""


class Filling:
    """A ``Lifecycle``. ``confirm_texts`` is from how many texts on a paid model waits for ``confirm``."""

    def __init__(
        self,
        sets: VectorSets,
        index: MemoryIndex,
        embedders: Embedders,
        *,
        confirm_texts: Callable[[], int],
        price: Callable[[], float] = lambda: 0.0,
        clock: Clock = time.time,
    ) -> None:
        self._sets = sets
        self._index = index
        self._embedders = embedders
        self._confirm_texts = confirm_texts
        self._price = price
        self._clock = clock
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._confirmed = ""
        self._left_alone = "", 0.0, 0.0
        """A model that is left alone, since when, and for how many seconds."""
        self._failures = 0
        self._queue: list[tuple[int, bytes]] = []
        self._queue_of = 0
        self._tags_done: tuple[object, VectorSet] | None = None
        self._tidying = Tidying(sets, index, clock)
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
                if isinstance(error, IndexBrokenError):
                    await self._heal(said)
            if pause > 0:
                try:
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    async def _heal(self, why: str) -> None:
        """The index heals itself; our own tables are made anew here."""
        try:
            await self._sets.heal(why)
        except (IndexBrokenError, IndexUnavailableError, OSError) as error:
            log.warning("memory: the tables of vectors cannot be made anew now: %s", error)

    async def step(self) -> float:
        """Embed one batch; how many seconds to wait before the next one, unless something comes."""
        await self._sets.recognise()
        await self._tidying.step()
        embedder = self._embedders.current()
        if embedder is None:
            return IDLE_SECONDS
        rest = self._rest(embedder)
        if rest > 0:  # it asked for that, or it is away: what comes meanwhile must not ask it again
            return rest
        target = await self._target(embedder)
        if target is None:
            return IDLE_SECONDS
        if target is self._sets.building:
            await self._fresh_ones()
        texts = await self._batch(target)
        if not texts:
            if target is self._sets.building and await self._is_whole(target):
                await self._sets.switch()
                log.info("memory: the vectors of %s serve from now on", target.signature)
                return 0.0
            return IDLE_SECONDS
        return await self._embed(embedder, target, texts)

    async def _fresh_ones(self) -> None:
        """While another set is built, fresh notes are found by the set that serves, as long as its model is there."""
        serving = self._sets.serving
        if serving is None or not 0 < len(self._sets.missing) <= FRESH_TEXTS:
            return
        embedder = self._embedders.of(serving.signature)
        if embedder is None or self._rest(embedder) > 0:
            return
        texts = await self._wanted(serving)
        if texts:
            await self._embed(embedder, serving, texts)

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
        cost = tokens * self._price() / 1e6
        if texts <= self._confirm_texts() or self._confirmed == signature.key():
            return True
        if self.unconfirmed is None or self.unconfirmed.signature != signature.key():
            log.warning(
                "memory: %d texts (about %d tokens%s) are to be embedded anew by %s, which may cost money; "
                "confirm with: vcp memory reembed --yes",
                texts,
                tokens,
                f", price {cost:.2f}" if cost else "",
                signature.model,
            )
        self.unconfirmed = Reembedding(signature.key(), signature.model, texts, tokens, cost)
        return False

    async def _amount(self) -> tuple[int, int]:
        return await self._index.database.read(
            lambda connection: tuple(
                connection.execute(
                    "SELECT count(*), coalesce(sum(tokens), 0) FROM "
                    "(SELECT max(tokens) AS tokens FROM chunks GROUP BY embed_sha)"
                ).fetchone()
            )
        )

    async def _batch(self, target: VectorSet) -> dict[bytes, str]:
        """Texts that want a vector in this set and may be tried now, fresh ones first, tags last."""
        found = await self._wanted(target)
        if len(found) < BATCH_TEXTS:
            held = await self._held(target)
            found |= await self._tags(target, held, BATCH_TEXTS - len(found))
        return found

    async def _wanted(self, target: VectorSet) -> dict[bytes, str]:
        """Of chunks only. Those that are gone, and texts without a word, are put out of the way."""
        while True:
            held = await self._held(target)
            if target is self._sets.serving:
                wanted: dict[bytes, int] = {}
                for chunk, sha in self._sets.missing.newest():
                    if sha not in held:
                        wanted[sha] = chunk
                    if len(wanted) >= BATCH_TEXTS:
                        break
            else:
                wanted = await self._unbuilt(target, held)
            if not wanted:
                return {}
            texts = await self._index.embedded_texts(list(wanted.values()))
            found = {sha: texts[chunk] for sha, chunk in wanted.items() if chunk in texts}
            for sha, chunk in wanted.items():
                if sha not in found:
                    self._sets.missing.remove(chunk)  # it went meanwhile
            blank = {sha: BLANK for sha, text in found.items() if not text.strip()}
            if blank:
                await self._put_waiting(target, blank)
            found = {sha: text for sha, text in found.items() if sha not in blank}
            if found:
                return found

    async def _held(self, target: VectorSet) -> set[bytes]:
        waiting = await self._sets.database.read(lambda connection: tables.waiting_of(connection, target.id))
        now = self._clock()
        # Who waits longer than anybody is let wait was noted by a clock that was ahead.
        return {sha for sha, one in waiting.items() if one == BLANK or 0 < one.not_before - now <= LONGEST_WAIT_SECONDS}

    async def _unbuilt(self, target: VectorSet, held: set[bytes]) -> dict[bytes, int]:
        """The next texts of a set that is being built. All chunks are looked at only when those seen are done."""
        if self._queue_of != target.id or not self._queue:
            places = await self._index.places()
            known = await self._sets.database.read(lambda connection: tables.all_rows(connection, target.id))
            newest = {place.embed_sha: place.id for place in places}
            left = sorted((chunk, sha) for sha, chunk in newest.items() if sha not in known and sha not in held)
            self._queue, self._queue_of = left, target.id
        taken = self._queue[-BATCH_TEXTS:]
        del self._queue[-BATCH_TEXTS:]
        return {sha: chunk for chunk, sha in reversed(taken)}

    async def _tags(self, target: VectorSet, held: set[bytes], limit: int) -> dict[bytes, str]:
        notes = await self._index.tag_notes()  # another object when anything has changed
        if self._tags_done is not None and self._tags_done[0] is notes and self._tags_done[1] is target:
            return {}
        tags = {embedded_sha(tag): tag for tag in notes if tag.strip()}
        known = await target.rows_of(tags)
        left = [sha for sha in tags if sha not in known]
        if not left:
            self._tags_done = notes, target
        return {sha: tags[sha] for sha in [sha for sha in left if sha not in held][:limit]}

    async def _is_whole(self, target: VectorSet) -> bool:
        """Whether only few texts failed; a model that is away must not make a set that knows nothing serve."""
        waiting = await self._sets.database.read(lambda connection: tables.waiting_of(connection, target.id))
        return sum(one.tries > 0 for one in waiting.values()) * FAILED_SHARE <= target.count

    async def _embed(self, embedder: Embedder, target: VectorSet, texts: Mapping[bytes, str]) -> float:
        embedded = await embedder.embed_passages({sha.hex(): text for sha, text in texts.items()})
        vectors = {bytes.fromhex(sha): vector for sha, vector in embedded.vectors.items()}
        if vectors:
            rows = await target.add(vectors)
            await self._sets.kept(target, rows)
            self.embedded += len(vectors)
        failed = {sha: fault for sha, fault in embedded.failed.items() if bytes.fromhex(sha) in texts}
        if failed:
            await self._wait(target, {bytes.fromhex(sha): fault for sha, fault in failed.items()})
            self._troubled(next(iter(failed.values())))
        elif vectors:
            self.trouble = ""
        return self._paused(embedder, embedded.retry_after, nothing=not vectors and len(texts) > 1)

    def _paused(self, embedder: Embedder, retry_after: float, *, nothing: bool) -> float:
        """How long to leave the model alone: as it asks, and longer each time nothing at all came of a batch."""
        model = embedder.signature.model
        self._failures = min(self._failures + 1, 10) if nothing else 0
        pause = max(
            retry_after, min(LONGEST_PAUSE_SECONDS, TROUBLE_SECONDS * 2 ** (self._failures - 1)) if nothing else 0
        )
        if pause > 0:
            self._left_alone = model, self._clock(), pause
        return pause

    def _rest(self, embedder: Embedder) -> float:
        """Seconds for which this model is left alone still; none once the clock was set back."""
        model, since, seconds = self._left_alone
        gone = self._clock() - since
        return seconds - gone if model == embedder.signature.model and gone >= 0 else 0.0

    async def _wait(self, target: VectorSet, faults: Mapping[bytes, str]) -> None:
        before = await self._sets.database.read(lambda connection: tables.waiting_of(connection, target.id))
        now = int(self._clock())
        later: dict[bytes, Waiting] = {}
        for sha, fault in faults.items():
            tries = before[sha].tries + 1 if sha in before else 1
            pause = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(tries - 1, 20))
            later[sha] = Waiting(tries, now + pause, fault[:500])
        await self._put_waiting(target, later)

    async def _put_waiting(self, target: VectorSet, waiting: Mapping[bytes, Waiting]) -> None:
        await self._sets.database.write(lambda connection: tables.put_waiting(connection, target.id, waiting))

    def _troubled(self, said: str) -> None:
        if said != self.trouble:
            log.warning("memory: some texts have no vector yet: %s", said)
        self.trouble = said
