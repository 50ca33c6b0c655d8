"""The processes that are compared with each other, and how they are measured."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from bench.child import BenchError, address_of, started
from bench.load import Job, Measured
from bench.replies import Shape, request_body

KEY = "key-of-the-comparison"
PATH = "/v1/chat/completions"
JOB_SECONDS = 60.0
"""Longest wait for one measurement beyond its own time."""


@dataclass(frozen=True, slots=True)
class Side:
    """Something that answers chat requests: its name, where it is, and the process whose work is counted."""

    name: str
    address: str
    pid: int


class Driver:
    """Speaks to the process that makes the load."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def measure(
        self, side: Side, shape: Shape, connections: int, seconds: float, *, stream: bool, **how: str | float
    ) -> Measured:
        """One measurement; ``BenchError`` when an answer was not right. ``how``: ``prompt`` and ``stagger``."""
        prompt = how.pop("prompt", None)
        body = request_body(shape, stream=stream, **({"prompt": str(prompt)} if prompt is not None else {}))
        stagger = float(how.pop("stagger", 0.0))
        job = Job(side.address + PATH, KEY, body.decode(), connections, seconds, side.pid, stagger)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(orjson.dumps(asdict(job)) + b"\n")
        await self._process.stdin.drain()
        async with asyncio.timeout(seconds + JOB_SECONDS):
            line = await self._process.stdout.readline()
        if not line:
            raise BenchError("the load generator ended")
        answer = orjson.loads(line)
        if "error" in answer:
            raise BenchError(answer["error"])
        return Measured(**answer)


@dataclass(frozen=True, slots=True)
class Stage:
    """All processes of one comparison. ``direct`` is the canned model itself, without anything before it."""

    driver: Driver
    direct: Side
    baseline: Side
    server: Side


@contextlib.asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """Start everything: canned model, pass-through, ``vcp serve`` in a home of its own, load generator."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vcp-bench-")))
        model = await stack.enter_async_context(started("-m", "bench.upstream"))
        upstream = await address_of(model, "the canned model")
        passing = await stack.enter_async_context(started("-m", "bench.passthrough", upstream))
        server = await stack.enter_async_context(
            vcp_serve(folder, {"API_URL": upstream, "API_Key": "none", "Key": KEY})
        )
        load = await stack.enter_async_context(started("-m", "bench.load"))
        yield Stage(
            Driver(load),
            Side("direct", upstream, model.pid),
            Side("pass-through", await address_of(passing, "the pass-through"), passing.pid),
            Side("vcp-server", await address_of(server, "vcp serve"), server.pid),
        )


@contextlib.asynccontextmanager
async def vcp_serve(folder: Path, config: Mapping[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """The server as a user starts it, with these lines in config.env.

    What it says on the screen goes to a file beside its home: in the home each line would be a changed file to it.
    """
    home = folder / "home"
    home.mkdir()
    lines = "".join(f"{name}={value}\n" for name, value in config.items())
    (home / "config.env").write_text(lines, encoding="utf-8")
    async with started(*serve_command(home), stderr=folder / "server.log") as process:
        yield process


def serve_command(home: Path) -> tuple[str, ...]:
    """What starts the server in a home, on a free port of this machine."""
    return ("-m", "app.cli", "serve", "--home", str(home), "--host", "127.0.0.1", "--port", "0")
