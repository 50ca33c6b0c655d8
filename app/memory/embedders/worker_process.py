"""A worker process as the server sees it: requests, answers, its end. It is reaped whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from app.errors import EmbeddingError, both
from app.memory.embedders.embedder import Matrix
from app.memory.embedders.worker_program import MAX_HEADER, MAX_PAYLOAD, QUERY_THREADS, SIZES

PROGRAM = Path(__file__).with_name("worker_program.py")
READY_SECONDS = 30.0
"""Longest start, on a very busy machine."""
END_SECONDS = 5.0

_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""What a worker gets of the server's environment: where libraries are, and what they must know of the processor."""


class WorkerGoneError(EmbeddingError):
    """The worker ended, or was ended, before it answered."""


@dataclass(frozen=True, slots=True)
class Rows:
    """An answer: one row for each text, why some have none, by place, and how long the model worked, in seconds."""

    matrix: Matrix
    bad: Mapping[int, str] = field(default_factory=dict)
    seconds: float = 0.0


def command(model: str, packages: Sequence[str]) -> list[str]:
    """How a worker is started. It sees the folders of these packages and the standard library, nothing else."""
    folders: list[str] = []
    for package in packages:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            folder = str(Path(place).parent)
            if folder not in folders:
                folders.append(folder)
    return [sys.executable, "-I", "-S", "-B", str(PROGRAM), model, *folders]


def environment() -> dict[str, str]:
    """A worker's environment: no key, no proxy, nothing of ``config.env``."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        **kept,
        "OMP_NUM_THREADS": str(QUERY_THREADS),
        "OMP_WAIT_POLICY": "passive",  # threads that wait in a loop cost a busy machine seconds for each text
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }


class WorkerProcess:
    """One running worker; make it with ``started``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._waiting: dict[int, asyncio.Future[Rows]] = {}
        self._next = 0
        self._writing = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self._gone = False
        self.dimension = 0
        self.alone = False
        """True when the worker has left the machine's network, false when only the audit hook keeps it from it."""

    @classmethod
    async def started(cls, argv: Sequence[str], seconds: float = READY_SECONDS) -> WorkerProcess:
        """A worker whose model is loaded. Raises EmbeddingError when it cannot be started or does not get ready."""
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=os.sep,
                env=environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise _not_started(str(error)) from error
        worker = cls(process)
        try:
            async with asyncio.timeout(seconds):
                header, _ = await worker._frame()
            if "fault" in header:
                raise _not_started(str(header["fault"]))
            worker.dimension = int(str(header["dimension"]))
            worker.alone = header.get("alone") is True
        except (TimeoutError, asyncio.IncompleteReadError, ValueError, KeyError) as error:
            await worker.stop()
            raise _not_started(type(error).__name__) from error
        except BaseException:
            await worker.stop()
            raise
        worker._reading = asyncio.create_task(worker._read())
        return worker

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """False as soon as it is known to have ended."""
        return not self._gone and self._process.returncode is None

    @property
    def idle(self) -> bool:
        """True while it owes no answer."""
        return not self._waiting

    async def embed(self, texts: Sequence[bytes], *, query: bool, seconds: float) -> Rows:
        """The rows of these texts. Raises WorkerGoneError, also when they take longer than ``seconds``: it is ended."""
        if not self.running:
            raise _gone()
        number = self._next = self._next + 1
        header = json.dumps({"id": number, "query": query, "sizes": [len(text) for text in texts]}).encode()
        payload = b"".join(texts)
        if len(header) > MAX_HEADER or len(payload) > MAX_PAYLOAD:
            raise EmbeddingError(both("一次的文本太长", "too much text at a time"))
        answer: asyncio.Future[Rows] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            async with asyncio.timeout(seconds):
                await self._send(SIZES.pack(len(header), len(payload)) + header + payload)
                rows = await answer
            if len(rows.matrix) != len(texts):
                raise _gone()
            return rows
        except TimeoutError as error:
            self._kill()
            raise _gone() from error
        finally:
            self._waiting.pop(number, None)

    async def stop(self) -> None:
        """End it at once and reap it."""
        self._kill()
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait([reading])
        self._fail_all()
        # A process that was killed ends unless the system holds it; the limit keeps a stop from waiting for that.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), END_SECONDS)

    async def _send(self, frame: bytes) -> None:
        assert self._process.stdin is not None
        try:
            async with self._writing:
                self._process.stdin.write(frame)
                await self._process.stdin.drain()
        except OSError as error:
            raise _gone() from error

    async def _frame(self) -> tuple[dict[str, object], bytes]:
        assert self._process.stdout is not None
        header_size, payload_size = SIZES.unpack(await self._process.stdout.readexactly(SIZES.size))
        if header_size > MAX_HEADER or payload_size > MAX_PAYLOAD:
            raise ValueError("a frame is too large")
        header = json.loads(await self._process.stdout.readexactly(header_size))
        if not isinstance(header, dict):
            raise ValueError("a header is no object")
        return header, await self._process.stdout.readexactly(payload_size)

    async def _read(self) -> None:
        try:
            while True:
                header, payload = await self._frame()
                answer = self._waiting.get(int(str(header["id"])))
                if answer is not None and not answer.done():  # else whoever asked has gone
                    answer.set_result(_rows(header, payload))
        except (asyncio.IncompleteReadError, OSError, ValueError, TypeError, KeyError):
            pass  # it ended, or does not speak our language: both are the end of it
        finally:
            self._kill()
            self._fail_all()
        await self._process.wait()

    def _fail_all(self) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(_gone())

    def _kill(self) -> None:
        self._gone = True
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()


def _rows(header: Mapping[str, object], payload: bytes) -> Rows:
    """Raises ValueError, TypeError or KeyError for an answer that is none."""
    count, dimension, bad = int(str(header["rows"])), int(str(header["dimension"])), header["bad"]
    matrix = np.frombuffer(payload, dtype="<f4").reshape(count, dimension)
    if not isinstance(bad, dict):
        raise TypeError("bad is no object")
    return Rows(
        matrix.astype(np.float32), {int(place): str(why) for place, why in bad.items()}, float(str(header["seconds"]))
    )


def _gone() -> WorkerGoneError:
    return WorkerGoneError(both("本地向量模型的进程意外结束", "the process of the local embedding model ended"))


def _not_started(reason: str) -> EmbeddingError:
    return EmbeddingError(
        both(f"本地向量模型无法启动：{reason}", f"the local embedding model does not start: {reason}")
    )
