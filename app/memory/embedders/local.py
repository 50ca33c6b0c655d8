"""Models on this machine, in a worker process (memory.md 8.2, 8.5, 11.28, D82)."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from app.errors import EmbeddingError, both
from app.memory.embedders.activity import Activity
from app.memory.embedders.cutting import cut
from app.memory.embedders.embedder import Calibration, Embedded, Signature, Vector
from app.memory.embedders.turns import Turns
from app.memory.embedders.worker_process import Rows, WorkerGoneError, WorkerProcess, command

_log = logging.getLogger(__name__)

QUERY_SECONDS = 20.0
PASSAGES_SECONDS = 120.0
"""Longest time for a query, and for a group of passages; a worker that takes longer hangs and is ended."""
YIELD_SECONDS = 5.0
"""Longest time for which passages wait for queries; then a group goes on, so that no stream of queries starves them."""

CRASHES = 5
CRASH_SECONDS = 60.0
"""So many ends of the worker within this time, and it is left alone for as long."""
DEADLY_LIMIT = 256
"""Texts that are remembered for having ended a worker."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model that a package brings along.

    ``name`` is what the worker calls it, ``version`` that of its package. ``group_texts`` and ``group_chars`` bound
    what is given to it at a time: a query waits no longer than that, where the model works on one thing at a time.
    """

    name: str
    package: str
    version: str
    label: str
    dimension: int
    max_tokens: int
    calibration: Calibration
    policy: str = ""
    group_texts: int = 1
    group_chars: int = 4096


class LocalEmbedder:
    """One model in one worker, which starts at the first use and stops when nobody used it for a while.

    ``idle_seconds`` is that while, 0 for never. ``share`` is how much of one core passages may take, 0..1. ``argv``
    starts the worker. A text that ends the worker costs only itself: whatever was under way is asked again alone.
    """

    paid = False

    def __init__(
        self,
        model: LocalModel,
        *,
        idle_seconds: Callable[[], float],
        share: Callable[[], float] = lambda: 1.0,
        argv: Sequence[str] | None = None,
        query_seconds: float = QUERY_SECONDS,
        passages_seconds: float = PASSAGES_SECONDS,
    ) -> None:
        self._model = model
        self._idle_seconds = idle_seconds
        self._share = share
        self._argv = argv
        self._seconds = {True: query_seconds, False: passages_seconds}
        self._worker: WorkerProcess | None = None
        self._starting = asyncio.Lock()
        self._turns = Turns()
        self._background = asyncio.Lock()
        self._queries = 0
        self._calm = asyncio.Event()
        self._calm.set()
        self._crashes: deque[float] = deque(maxlen=CRASHES)
        self._deadly: OrderedDict[bytes, None] = OrderedDict()
        self._busy = 0
        self._stopped = False
        self._used = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self.activity = Activity()
        self.signature = Signature(f"{model.label}-{model.version}", model.dimension, model.policy)
        self.max_tokens = model.max_tokens
        self.calibration = model.calibration

    @property
    def worker(self) -> WorkerProcess | None:
        """The process that is running now."""
        return self._worker if self._worker is not None and self._worker.running else None

    async def start(self) -> None:
        """Nothing: the worker starts at the first use."""

    async def stop(self) -> None:
        """End the worker for good: what was under way fails and starts no other."""
        self._stopped = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        await self._end_worker()
        if self._ending:
            await asyncio.wait(list(self._ending))

    async def embed_query(self, text: str) -> Vector:
        """The vector of a question. Raises EmbeddingError."""
        self._queries += 1
        self._calm.clear()
        try:
            rows = await self._asked([self._data(text)], query=True)
            if 0 in rows.bad:
                raise EmbeddingError(_no_vector(rows.bad[0]))
            self.activity.queries += 1
            vector: Vector = rows.matrix[0]
            return vector
        except EmbeddingError:
            self.activity.failures += 1
            raise
        finally:
            self._queries -= 1
            if not self._queries:
                self._calm.set()

    async def embed_passages(self, texts: Mapping[str, str]) -> Embedded:
        """Vectors of passages, in groups between which queries come first. Cancelling stops before the next group."""
        vectors: dict[str, Vector] = {}
        failed: dict[str, str] = {}
        retry_after = 0.0
        for group in self._groups(texts):
            if retry_after:
                failed.update(dict.fromkeys(group, _later(retry_after)))
                continue
            async with self._background:
                await self._let_queries_pass()
                try:
                    seconds = await self._group(group, vectors, failed)
                except EmbeddingError as error:
                    retry_after = error.retry_after or 1.0
                    failed.update(dict.fromkeys(group, error.message))
                    continue
                await self._rest(seconds)
        self.activity.passages += len(vectors)
        self.activity.failures += len(failed)
        return Embedded(vectors, failed, retry_after)

    # --- groups of passages ------------------------------------------------------------------------------------------

    def _groups(self, texts: Mapping[str, str]) -> Iterator[dict[str, bytes]]:
        group: dict[str, bytes] = {}
        chars = 0
        for name, text in texts.items():
            length = min(len(text), 4 * self.max_tokens)
            if group and (len(group) >= self._model.group_texts or chars + length > self._model.group_chars):
                yield group
                group, chars = {}, 0
            group[name] = self._data(text)
            chars += length
        if group:
            yield group

    async def _group(self, group: Mapping[str, bytes], vectors: dict[str, Vector], failed: dict[str, str]) -> float:
        """Embed a group into ``vectors`` and ``failed``; the seconds that the model worked."""
        seconds = 0.0
        safe = {name: data for name, data in group.items() if _mark(data) not in self._deadly}
        failed.update({name: _deadly() for name in group if name not in safe})
        parts = [safe] if safe else []
        while parts:
            part = parts.pop(0)
            try:
                rows = await self._asked(list(part.values()), query=False)
            except WorkerGoneError as error:
                if len(part) == 1:
                    failed.update(dict.fromkeys(part, error.message))
                else:
                    parts[:0] = [{name: data} for name, data in part.items()]
                continue
            seconds += rows.seconds
            for place, name in enumerate(part):
                if place in rows.bad:
                    failed[name] = _no_vector(rows.bad[place])
                else:
                    vectors[name] = rows.matrix[place]
        return seconds

    async def _let_queries_pass(self) -> None:
        try:
            async with asyncio.timeout(YIELD_SECONDS):
                await self._calm.wait()
        except TimeoutError:
            _log.debug("queries come without a pause; passages go on")

    async def _rest(self, seconds: float) -> None:
        share = min(1.0, max(0.01, self._share()))
        if share < 1.0:
            await asyncio.sleep(seconds * (1.0 / share - 1.0))

    # --- one request -------------------------------------------------------------------------------------------------

    def _data(self, text: str) -> bytes:
        return cut(text, self.max_tokens).encode("utf-8", "replace")

    async def _asked(self, texts: Sequence[bytes], *, query: bool) -> Rows:
        """The rows of these texts. Raises WorkerGoneError when they, and not others beside them, end the worker."""
        if len(texts) == 1 and _mark(texts[0]) in self._deadly:
            raise WorkerGoneError(_deadly())
        self._busy += 1
        try:
            try:
                async with self._turns.shared():
                    return await self._embed(texts, query=query)
            except WorkerGoneError:
                if len(texts) > 1:
                    raise
            try:
                async with self._turns.alone():
                    return await self._embed(texts, query=query)
            except WorkerGoneError:
                self._deadly[_mark(texts[0])] = None
                if len(self._deadly) > DEADLY_LIMIT:
                    self._deadly.popitem(last=False)
                raise
        finally:
            self._busy -= 1
            self._used = asyncio.get_running_loop().time()
            self._watch_idle()

    async def _embed(self, texts: Sequence[bytes], *, query: bool) -> Rows:
        worker = await self._running_worker()
        self.activity.requests += 1
        rows = await worker.embed(texts, query=query, seconds=self._seconds[query])
        self.activity.seconds += rows.seconds
        return rows

    # --- the worker --------------------------------------------------------------------------------------------------

    async def _running_worker(self) -> WorkerProcess:
        async with self._starting:
            if self._stopped:
                raise EmbeddingError(_ended())
            if self._worker is not None and self._worker.running:
                return self._worker
            loop = asyncio.get_running_loop()
            if self._worker is not None:
                await self._end_worker()
                self.activity.restarts += 1
                self._crashes.append(loop.time())
                _log.warning("the worker of the embedding model %s ended and is started anew", self._model.name)
            if len(self._crashes) == CRASHES and (left := self._crashes[0] + CRASH_SECONDS - loop.time()) > 0:
                raise EmbeddingError(_later(left), retry_after=left)
            try:
                self._worker = await WorkerProcess.started(self._command())
            except EmbeddingError as error:
                self._crashes.append(loop.time())
                _log.warning("the worker of the embedding model %s does not start: %s", self._model.name, error)
                raise EmbeddingError(error.message, retry_after=CRASH_SECONDS / CRASHES) from error
            if self._stopped:  # in the meantime
                await self._end_worker()
                raise EmbeddingError(_ended())
            if self._worker.dimension != self._model.dimension:
                await self._end_worker()
                raise EmbeddingError(_wrong_dimension(self._model.name), retry_after=CRASH_SECONDS)
            self._used = loop.time()
            self._watch_idle()
            return self._worker

    def _command(self) -> Sequence[str]:
        return self._argv or command(self._model.name, (self._model.package, "numpy"))

    async def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop()

    def _watch_idle(self) -> None:
        idle = self._idle_seconds()
        if self._idle_timer is None and self._worker is not None and idle > 0:
            self._idle_timer = asyncio.get_running_loop().call_later(idle, self._look_idle)

    def _look_idle(self) -> None:
        self._idle_timer = None
        idle = self._idle_seconds()
        if self._worker is None or idle <= 0:
            return
        loop = asyncio.get_running_loop()
        left = self._used + idle - loop.time()
        if self._busy or left > 0:
            self._idle_timer = loop.call_later(max(left, 0.05), self._look_idle)
            return
        _log.debug("the embedding model %s is idle, its worker ends", self._model.name)
        ending = loop.create_task(self._end_worker())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


def _mark(data: bytes) -> bytes:
    return sha256(data).digest()


def _ended() -> str:
    return both("本地向量模型已停止", "the local embedding model was stopped")


def _deadly() -> str:
    return both("本地模型处理此文本时曾意外结束", "the local model ended over this text before")


def _no_vector(reason: str) -> str:
    return both(f"模型没有给出向量（{reason}）", f"the model gave no vector ({reason})")


def _later(seconds: float) -> str:
    return both(
        f"本地向量模型多次失败，{seconds:.0f} 秒后重试",
        f"the local embedding model failed several times; again in {seconds:.0f} s",
    )


def _wrong_dimension(name: str) -> str:
    return both(f"模型 {name} 的向量维数不符", f"the vectors of the model {name} have another dimension")
