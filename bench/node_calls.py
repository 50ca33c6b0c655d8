"""``python -m bench.node_calls``: a tool that does nothing on a far node, beside a bare echo.

Both pass between the same two processes: this one, where the call begins, and ``bench.node_side``. The echo is the
same library (``websockets``), JSON parsed at both ends and answers matched to questions by an id, and nothing else.
Ours is a call from router to router: names, guards, events, metrics, log lines on both sides, limits, and the plugin.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_echo

from app.cli.options import NoModel
from app.config.home_folders import make_home
from app.config.snapshot import load
from app.extend import CallContext, Door, ToolCall
from app.services import Services
from app.web.app import create_app
from app.web.server import serve
from bench.child import START_SECONDS, BenchError, cpu_seconds, run, started
from bench.logs import be_like_a_server
from bench.node_side import KEY, TOOL, make_node_home

IN_FLIGHT = (1, 64)
Call = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Figures:
    """One measurement: median time of a call, and processor time of both processes for a call; in microseconds."""

    p50: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Sides:
    """The two kinds of calls, and the process that answers them."""

    echo: Call
    node: Call
    pid: int


async def measure(call: Call, pid: int, in_flight: int, calls: int) -> Figures:
    """Make ``calls`` calls, ``in_flight`` at a time; BenchError when one has a wrong answer."""
    times: list[float] = []
    left = itertools.repeat(None, calls)

    async def worker() -> None:
        for _ in left:
            begun = time.perf_counter()
            if not await call():
                raise BenchError("a call was answered wrongly")
            times.append(time.perf_counter() - begun)

    there, here = cpu_seconds(pid), time.process_time()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    used = time.process_time() - here
    if there is not None:
        used += (cpu_seconds(pid) or 0.0) - there
    return Figures(median(times) * 1e6, used / calls * 1e6)


class Echo:
    """The asking side of the bare echo."""

    def __init__(self) -> None:
        self.connected = asyncio.Event()
        self._connection: ServerConnection | None = None
        self._waiting: dict[str, asyncio.Future[bool]] = {}
        self._numbers = itertools.count(1)

    async def serve(self, connection: ServerConnection) -> None:
        """Take answers until the connection ends."""
        self._connection = connection
        self.connected.set()
        async for text in connection:
            data = json.loads(text)["data"]
            self._waiting.pop(data["requestId"]).set_result(data["result"] == {"ok": True})

    async def call(self) -> bool:
        """Ask once."""
        assert self._connection is not None
        name = f"id-{next(self._numbers)}"
        self._waiting[name] = asked = asyncio.get_running_loop().create_future()
        data = {"requestId": name, "toolName": TOOL, "toolArgs": {"text": "hello"}}
        await self._connection.send(json.dumps({"type": "execute_tool", "data": data}))
        return await asked


@contextlib.asynccontextmanager
async def sides(folder: Path) -> AsyncIterator[Sides]:
    """Both kinds of calls, ready to be made."""
    home = folder / "server"
    make_home(home)
    (home / "config.env").write_text(f"Key={KEY}\nRunStaticPlugins=false\nLiveReload=false\n", encoding="utf-8")
    make_node_home(folder / "node")
    config = load(home, {"PATH": os.environ.get("PATH", os.defpath)})
    be_like_a_server(home, config)
    services = Services(config, KEY, resolver=NoModel())
    echo = Echo()
    async with serve(create_app(services)) as url, serve_echo(echo.serve, "127.0.0.1", 0, compression=None) as bare:
        services.served_at(url)
        address = f"ws://127.0.0.1:{bare.sockets[0].getsockname()[1]}"
        errors = folder / "node.log"
        offered = asyncio.Event()
        services.router.changed(lambda: offered.set() if TOOL in services.router.specs() else None)
        async with started("-m", "bench.node_side", str(folder / "node"), url, address, stderr=errors) as process:
            try:
                async with asyncio.timeout(START_SECONDS):
                    await echo.connected.wait()
                    await offered.wait()
            except TimeoutError:
                raise BenchError(f"the node did not come: {errors.read_text(encoding='utf-8')[-2000:]}") from None
            context = CallContext(turn_id="bench", door=Door.HUMAN_TOOL)

            async def node_call() -> bool:
                arguments = {"text": "hello"}
                call = ToolCall(services.new_id("call"), TOOL, arguments, arguments)
                result = await services.router.call(call, context)
                return result.ok and isinstance(result.structured, dict) and result.structured.get("ok") is True

            yield Sides(echo.call, node_call, process.pid)


async def compare(calls: int, repeats: int) -> dict[str, float]:
    """Measure in pairs; medians in microseconds, and ratios, which are medians of those of the pairs, by what it is."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="vcp-bench-") as folder:
        async with sides(Path(folder)) as both:
            for call in (both.echo, both.node):
                await measure(call, both.pid, 16, min(calls, 500))  # everything is loaded and warm
            for in_flight in IN_FLIGHT:
                pairs = [
                    (
                        await measure(both.echo, both.pid, in_flight, calls),
                        await measure(both.node, both.pid, in_flight, calls),
                    )
                    for _ in range(repeats)
                ]
                for what, field in (("p50", "p50"), ("CPU of a call", "cpu")):
                    echo = [getattr(pair[0], field) for pair in pairs]
                    node = [getattr(pair[1], field) for pair in pairs]
                    figures[f"{in_flight} in flight, {what}: echo"] = median(echo)
                    figures[f"{in_flight} in flight, {what}: node"] = median(node)
                    figures[f"{in_flight} in flight, {what}: ratio"] = median(
                        ours / bare for bare, ours in zip(echo, node, strict=True)
                    )
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; exits with 1 when an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.node_calls", description=__doc__)
    parser.add_argument("--calls", type=int, default=2000, help="calls of one measurement (2000)")
    parser.add_argument("--repeats", type=int, default=5, help="pairs of measurements (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    options = parser.parse_args(arguments)
    figures: dict[str, float] = {}

    async def work() -> None:
        figures.update(await compare(options.calls, options.repeats))

    try:
        run(work())
    except BenchError as error:
        sys.exit(f"bench: {error}")
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name.ljust(width)}  {value:10,.2f}")
    print(f"\nMicroseconds and ratios; {os.cpu_count()} cores, Python {platform.python_version()}.")
    if options.json:
        options.json.write_text(json.dumps(figures) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
