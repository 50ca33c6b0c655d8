"""``python -m bench.sockets``: one message to a thousand WebSockets, and a thousand idle ones beside a stuck client.

Three processes take part: the hub behind the real web server, and the clients, which only count what they get. Nothing
of an installation is touched.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import platform
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, cast

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from app.hub.clients import ClientType
from app.hub.hub import PATHS, Hub
from app.web.blocking import AddressBlocks
from app.web.server import serve
from app.web.socket_gate import SocketGate
from app.web.socket_traffic import SocketLimits, SocketTraffic
from bench.child import BenchError, cpu_seconds, lines_until, run, started
from bench.processes import snapshot

KEY = "key-of-the-bench"
MIB = 1024 * 1024
MESSAGE_BYTES = 2048
LONG_BYTES = 8 * 1024
"""Messages beside the stuck client, so that the system's own buffers are soon full."""

BACKLOG_STEP = 100
"""Clients that connect at a time."""

CLOSE_FRAME = 0x88

ANSWER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    clients: int = 1000
    broadcasts: int = 50
    readers: int = 10
    rate: int = 200
    seconds: float = 10.0
    quiet: float = 0.5


TINY = Plan(clients=20, broadcasts=3, readers=2, rate=200, seconds=0.2, quiet=0.1)


# ---------------------------------------------------------------- the server


async def serve_hub(home: Path) -> None:
    """Serve a hub until standard input ends; each line of it is a job."""
    traffic = SocketTraffic()
    limits = SocketLimits(MIB, 16 * MIB, 512 * MIB, 200, 30)
    ids = iter(range(1 << 62))
    hub = Hub(
        new_id=lambda kind: f"{kind}-{next(ids)}",
        clock=time.time,
        max_message_bytes=lambda _kind: MIB,
        keys=lambda _kind: (KEY,),
    )
    gate = SocketGate(
        hub.sockets(),
        blocks=AddressBlocks(home / "ip_blacklist.json", enabled=lambda: False, clock=time.monotonic),
        address=lambda scope: str(scope["client"][0]),
        limits=lambda _bytes: limits,
        traffic=traffic,
        connections=lambda: 100_000,
        stopping=lambda: False,
    )
    async with serve(_only_sockets(gate)) as address:
        print(address, flush=True)
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            job = orjson.loads(line)
            done = await _told(hub, job["kind"], job["messages"], job["rate"], job["size"])
            print(orjson.dumps({**done, "dropped": traffic.ended["slow"]}).decode(), flush=True)
        await hub.stop()


def _only_sockets(gate: SocketGate) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await gate(scope, receive, send)
            return
        for word in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{word}.complete"})

    return app


async def _told(hub: Hub, kind: str, messages: int, rate: int, size: int) -> dict[str, float]:
    """Send so many messages to all of a kind; ``rate`` a second, or 0 for as fast as it goes."""
    message = {"type": "vcp_log", "data": {"content": "x" * size}}
    loop = asyncio.get_running_loop()
    began = loop.time()
    calls, reached = 0.0, 0
    for number in range(messages):
        if rate:
            await asyncio.sleep(max(0.0, began + number / rate - loop.time()))
        before = time.process_time()
        reached += hub.broadcast(message, (ClientType(kind),))
        calls += time.process_time() - before
        if not rate:
            await asyncio.sleep(0)
    return {"call": calls / messages, "reached": reached / messages, "seconds": loop.time() - began}


# ---------------------------------------------------------------- the clients


class _Counting(asyncio.Protocol):
    """A client that counts the bytes it gets, or reads nothing at all."""

    def __init__(self, path: str, group: _Group, *, reads: bool) -> None:
        self._path, self._group, self._reads = path, group, reads
        self._head = b""
        self._open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(
            f"GET {self._path}/VCP_Key={KEY} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        if self._open:
            self._group.received(len(data))
            if data[0] == CLOSE_FRAME:  # nothing else comes at that time, so it begins a block of its own
                self._transport.close()
            return
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._open = True
            self._group.opened += self._head.startswith(b"HTTP/1.1 101")
            self._group.received(len(self._head.partition(b"\r\n\r\n")[2]))
            if not self._reads:
                self._transport.pause_reading()
                self._group.stuck.append(self._transport)


class _Group:
    """What the clients of one kind got together."""

    def __init__(self) -> None:
        self.opened = 0
        self.stuck: list[asyncio.Transport] = []
        self.bytes = 0
        self.last = 0.0
        self._changed = asyncio.Event()

    def has(self, clients: int = 0, length: int = 0) -> bool:
        return self.opened >= clients and self.bytes >= length

    async def until(self, true: Callable[[], bool]) -> None:
        while not true():
            self._changed.clear()
            await self._changed.wait()

    def received(self, length: int) -> None:
        self.bytes += length
        self.last = time.perf_counter()
        self._changed.set()


async def be_clients(port: int) -> None:
    """Connect what the lines of standard input say, and tell what came."""
    loop = asyncio.get_running_loop()
    groups: dict[str, _Group] = {}
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        job = orjson.loads(line)
        group = groups.setdefault(job["kind"], _Group())
        if number := job.get("connect", 0):
            path, expected = PATHS[ClientType(job["kind"])], group.opened + number
            for begun in range(0, number, BACKLOG_STEP):
                count = min(BACKLOG_STEP, number - begun)
                client = partial(_Counting, path, group, reads=job["reads"])
                await asyncio.gather(*(loop.create_connection(client, "127.0.0.1", port) for _ in range(count)))
            await group.until(partial(group.has, clients=expected))
        await group.until(partial(group.has, length=job.get("bytes", 0)))
        for transport in group.stuck if job.get("resume") else ():
            transport.resume_reading()
        print(orjson.dumps({"bytes": group.bytes, "last": group.last}).decode(), flush=True)


# ---------------------------------------------------------------- the measurement


class _Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def ask(self, **job: Any) -> dict[str, float]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(orjson.dumps(job) + b"\n")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                line = await self.process.stdout.readline()
        except TimeoutError:
            raise BenchError(f"no answer within {ANSWER_SECONDS:g} s") from None
        if not line:
            raise BenchError("a process of the measurement ended")
        answer: dict[str, float] = orjson.loads(line)
        return answer


@contextlib.asynccontextmanager
async def _stage() -> AsyncIterator[tuple[_Child, _Child]]:
    with TemporaryDirectory() as home:
        async with started("-m", "bench.sockets", "--serve", home) as server:
            port = (await lines_until(server, "the hub", lambda text: text.endswith("\n"))).strip().rpartition(":")[2]
            async with started("-m", "bench.sockets", "--clients-of", port) as clients:
                yield _Child(server), _Child(clients)


async def measure(plan: Plan) -> dict[str, float]:
    """All figures: seconds, MiB and numbers, by what they are."""
    async with _stage() as (server, clients):
        pid = server.process.pid
        figures: dict[str, float] = {"memory of the empty server, MiB": _memory(pid)}
        began = time.perf_counter()
        await clients.ask(kind="VCPLog", connect=plan.clients, reads=True)
        figures["clients"] = plan.clients
        figures["connections a second"] = plan.clients / (time.perf_counter() - began)
        figures["memory of a client, KiB"] = (
            (_memory(pid) - figures["memory of the empty server, MiB"]) * 1024 / plan.clients
        )
        await asyncio.sleep(plan.quiet)  # they were told that they are connected
        before_it = (await clients.ask(kind="VCPLog"))["bytes"]
        await server.ask(kind="VCPLog", messages=1, rate=0, size=MESSAGE_BYTES)
        await asyncio.sleep(plan.quiet)
        log = (await clients.ask(kind="VCPLog"))["bytes"]
        length = (log - before_it) / plan.clients
        calls, arrivals, before = [], [], cpu_seconds(pid)
        for _ in range(plan.broadcasts):
            began, log = time.perf_counter(), log + length * plan.clients
            calls.append((await server.ask(kind="VCPLog", messages=1, rate=0, size=MESSAGE_BYTES))["call"])
            arrivals.append((await clients.ask(kind="VCPLog", bytes=log))["last"] - began)
        after = cpu_seconds(pid)
        figures["CPU of the call alone, ms"] = median(calls) * 1000
        figures["until the last client has it, ms"] = median(arrivals) * 1000
        if before is not None and after is not None:
            figures["CPU of a broadcast, ms"] = (after - before) / plan.broadcasts * 1000
        await clients.ask(kind="VCPInfo", connect=plan.readers, reads=True)
        await clients.ask(kind="VCPInfo", connect=1, reads=False)
        memory = _memory(pid)
        messages = round(plan.rate * plan.seconds)
        told = await server.ask(kind="VCPInfo", messages=messages, rate=plan.rate, size=LONG_BYTES)
        figures["messages a second beside a stuck client"] = messages / told["seconds"]
        figures["dropped clients"] = told["dropped"]
        figures["memory before it, MiB"] = memory
        figures["memory after it, MiB"] = _memory(pid)
        await clients.ask(kind="VCPInfo", resume=True)
        figures["stop with all clients, s"] = await _stopped(server.process)
        return figures


async def _stopped(process: asyncio.subprocess.Process) -> float:
    """Seconds that a server takes to say goodbye to everybody and to end."""
    assert process.stdin is not None
    began = time.perf_counter()
    process.stdin.close()
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            if await process.wait():
                raise BenchError(f"the server ended with {process.returncode}")
    except TimeoutError:
        raise BenchError(f"the server did not stop within {ANSWER_SECONDS:g} s") from None
    return time.perf_counter() - began


def _memory(pid: int) -> float:
    return snapshot(pid, "no such mark").memory if sys.platform == "linux" else 0.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.sockets", description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="a few clients, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    parser.add_argument("--serve", type=Path, metavar="HOME", help=argparse.SUPPRESS)
    parser.add_argument("--clients-of", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve is not None:
        run(serve_hub(options.serve))
        return
    if options.clients_of is not None:
        run(be_clients(options.clients_of))
        return
    plan = TINY if options.tiny else Plan()
    figures: dict[str, float] = {}

    async def work() -> None:
        figures.update(await measure(plan))

    try:
        run(work())
    except BenchError as error:
        sys.exit(f"bench: {error}")
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name.ljust(width)}  {value:10,.2f}")
    print(f"\n{os.cpu_count()} cores, Python {platform.python_version()}, messages of {MESSAGE_BYTES} bytes.")
    if options.json:
        options.json.write_text(orjson.dumps({"plan": asdict(plan), "figures": figures}).decode() + "\n")


if __name__ == "__main__":
    main()
