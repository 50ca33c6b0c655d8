"""The load: a process of its own that asks over and over on a fixed number of connections and measures.

``python -m bench.load`` reads one job a line from standard input and prints one result a line, both JSON. It lives as
long as the comparison, because starting an interpreter for each measurement would cost more than measuring.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import asdict, dataclass
from statistics import median
from typing import cast
from urllib.parse import urlsplit

import orjson

from bench.child import BenchError, cpu_seconds, run

DRAIN_SECONDS = 20.0
"""How long the answers that are open at the end of a measurement may still take."""

_END = b"0\r\n\r\n"
_STREAM_END = b"data: [DONE]\n\n\r\n" + _END
_TAIL = 64


@dataclass(frozen=True, slots=True)
class Job:
    """One measurement: requests to ``url`` on ``connections``, while process ``pid`` is watched.

    Every connection asks again and again for ``seconds``, and at least once. All requests are counted, and the clock
    stops when the last is answered: no work is half inside the measurement. ``stagger`` seconds lie between the starts
    of the first and the last connection.
    """

    url: str
    key: str
    body: str
    connections: int
    seconds: float
    pid: int
    stagger: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """``requests`` were answered within ``seconds``. ``first`` is the median of the seconds to the first piece of
    text, ``cpu`` the processor time of the watched process, None where the system cannot tell.
    """

    requests: int
    seconds: float
    first: float
    cpu: float | None

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    @property
    def cpu_each(self) -> float | None:
        """Seconds of processor time per request."""
        return None if self.cpu is None or not self.requests else self.cpu / self.requests


class _Tally:
    def __init__(self) -> None:
        self.requests = 0
        self.failed = 0
        self.firsts: list[float] = []
        self.fault = ""


class Connection(asyncio.Protocol):
    """One connection that sends the same request again as soon as it has the whole answer, until it is told to stop."""

    def __init__(self) -> None:
        self._request = b""
        self._tally = _Tally()
        self._again = False
        self._sent = 0.0
        self._head = bytearray()
        self._in_head = True
        self._left: int | None = None  # bytes of body to come; None in a chunked answer
        self._good = False
        self._spoke = False
        self._tail = b""
        self._lost = False
        self.idle = asyncio.Event()
        self.idle.set()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class is none by name

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if not self.idle.is_set():
            self._ended(f"the connection was lost in an answer ({exc})")

    @property
    def usable(self) -> bool:
        """True while further requests can be sent."""
        return not self._lost

    def start(self, request: bytes, tally: _Tally) -> None:
        """Begin to ask."""
        self._request, self._tally, self._again = request, tally, True
        self._ask()

    def finish(self) -> None:
        """Ask no more after the present answer."""
        self._again = False

    def close(self) -> None:
        """Drop the connection."""
        self._transport.abort()

    def _ask(self) -> None:
        if self._lost:
            return
        self.idle.clear()
        self._in_head, self._good, self._spoke, self._tail = True, False, False, b""
        self._head.clear()
        self._sent = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            data = bytes(self._head[end + 4 :])
            self._read_head(bytes(self._head[:end]).lower())
        if not self._spoke and b'"content"' in data:
            self._spoke = True
            self._tally.firsts.append(time.perf_counter() - self._sent)
        if self._left is not None:
            self._left -= len(data)
            if self._left <= 0:
                self._ended("" if self._good and self._spoke else "an answer without text")
            return
        self._tail = data[-_TAIL:] if len(data) >= _TAIL else (self._tail + data)[-_TAIL:]
        if self._tail.endswith(_END):
            whole = self._good and self._spoke and self._tail.endswith(_STREAM_END)
            self._ended("" if whole else f"an answer that ends with {self._tail!r}")

    def _read_head(self, head: bytes) -> None:
        self._in_head = False
        self._good = head.startswith(b"http/1.1 200 ")
        _, found, rest = head.partition(b"\r\ncontent-length:")
        self._left = int(rest.partition(b"\r\n")[0]) if found else None

    def _ended(self, fault: str) -> None:
        tally = self._tally
        if fault:
            tally.failed += 1
            tally.fault = fault
        else:
            tally.requests += 1
        self.idle.set()
        if self._again and not fault:
            self._ask()


class Pool:
    """Open connections by address, kept from one measurement to the next."""

    def __init__(self) -> None:
        self._connections: dict[str, list[Connection]] = {}

    async def take(self, host: str, port: int, count: int) -> list[Connection]:
        """``count`` idle connections to an address; missing ones are made."""
        address = f"{host}:{port}"
        kept = [one for one in self._connections.get(address, ()) if one.usable]
        loop = asyncio.get_running_loop()
        while len(kept) < count:
            _, made = await loop.create_connection(Connection, host, port)
            kept.append(made)
        self._connections[address] = kept
        return kept[:count]

    def close(self) -> None:
        """Drop all connections."""
        for kept in self._connections.values():
            for one in kept:
                one.close()


def http_request(url: str, key: str, body: bytes) -> bytes:
    """A POST as it goes over the wire."""
    parts = urlsplit(url)
    lines = (
        f"POST {parts.path} HTTP/1.1",
        f"host: {parts.netloc}",
        "content-type: application/json",
        f"authorization: Bearer {key}",
        f"content-length: {len(body)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


async def measure(pool: Pool, job: Job) -> Measured:
    """Do one job. ``BenchError`` when an answer was not what a client needs: then there is nothing to compare."""
    parts = urlsplit(job.url)
    assert parts.hostname is not None and parts.port is not None
    connections = await pool.take(parts.hostname, parts.port, job.connections)
    request = http_request(job.url, job.key, job.body.encode())
    tally = _Tally()
    used, began = cpu_seconds(job.pid), time.perf_counter()
    for place, connection in enumerate(connections):
        if job.stagger and place:
            await asyncio.sleep(max(0.0, began + job.stagger * place / len(connections) - time.perf_counter()))
        connection.start(request, tally)
    await asyncio.sleep(max(0.0, began + job.seconds - time.perf_counter()))
    for connection in connections:
        connection.finish()
    async with asyncio.timeout(DRAIN_SECONDS):
        for connection in connections:
            await connection.idle.wait()
    seconds, used_then = time.perf_counter() - began, cpu_seconds(job.pid)
    if tally.failed:
        raise BenchError(f"{job.url}: {tally.failed} of {tally.requests + tally.failed} answers are bad: {tally.fault}")
    cpu = None if used is None or used_then is None else used_then - used
    return Measured(tally.requests, seconds, median(tally.firsts), cpu)


async def main() -> None:
    """Do the jobs of standard input until it ends."""
    pool = Pool()
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        try:
            answer: dict[str, object] = asdict(await measure(pool, Job(**orjson.loads(line))))
        except (BenchError, OSError, TimeoutError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
        sys.stdout.buffer.flush()
    pool.close()


if __name__ == "__main__":
    run(main())
