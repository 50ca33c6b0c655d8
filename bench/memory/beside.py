"""``python -m bench.memory.beside``: how late pieces of streamed chats come while notes are indexed and embedded.

The canned model sends a piece every 20 ms. What is told is how much later than that pieces arrive, through the server
and from the model itself at the same moment: the second says how busy the machine was. Then the memory of the server
before, with, and after the process of the local model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import aiohttp
import numpy as np

from bench.child import BenchError, address_of, cpu_seconds, run, started
from bench.load import http_request
from bench.processes import offspring, snapshot
from bench.replies import Shape, request_body
from bench.sides import KEY, PATH, vcp_serve

PIECES = Shape(50, gap=20_000)
GAP = PIECES.gap / 1e6
CONNECTIONS = 4
MARK = "VCP_BESIDE=1"
IDLE_SECONDS = 10
LONGEST_SECONDS = 1800.0
TOPICS = "火锅旅行公园电影天气咖啡显卡花船猫茶雪山书雨"
_END = b"data: [DONE]"
_PIECE = b'"content"'


@dataclass(slots=True)
class Lateness:
    """How late pieces came, in seconds."""

    late: list[float] = field(default_factory=list)

    def told(self) -> dict[str, float]:
        """Pieces, and percentiles in milliseconds."""
        values = 1000 * np.asarray(self.late or [0.0])
        names = (("p50", 50.0), ("p99", 99.0), ("max", 100.0))
        return {"pieces": len(self.late)} | {name: round(float(np.percentile(values, q)), 2) for name, q in names}


class Reader(asyncio.Protocol):
    """One client that reads a streamed answer after the other."""

    def __init__(self, url: str) -> None:
        self._request = http_request(url + PATH, KEY, request_body(PIECES, stream=True))
        self.into = Lateness()
        self._came: list[float] = []
        self._seen = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self._came.extend([now] * data.count(_PIECE))
        self._seen = (self._seen + data)[-64:]
        if _END in self._seen:
            on_time = min((came - number * GAP for number, came in enumerate(self._came)), default=0.0)
            self.into.late.extend(came - number * GAP - on_time for number, came in enumerate(self._came))
            self._came, self._seen = [], b""
            self._transport.write(self._request)

    def close(self) -> None:
        """End it, in the middle of an answer."""
        self._transport.abort()


class Chats:
    """Clients of the server and of the model."""

    def __init__(self) -> None:
        self.server: list[Reader] = []
        self.model: list[Reader] = []

    async def begin(self, server: str, model: str) -> None:
        """Open all connections."""
        loop = asyncio.get_running_loop()
        for url, readers in ((server, self.server), (model, self.model)):
            parts = urlsplit(url)
            for _ in range(CONNECTIONS):
                _, reader = await loop.create_connection(lambda url=url: Reader(url), parts.hostname, parts.port)
                readers.append(reader)

    def measure(self) -> tuple[Lateness, Lateness]:
        """Gather in new places from now on."""
        server, model = Lateness(), Lateness()
        for reader in self.server:
            reader.into = server
        for reader in self.model:
            reader.into = model
        return server, model

    def close(self) -> None:
        """End all."""
        for reader in (*self.server, *self.model):
            reader.close()


def write_notes(root: Path, count: int) -> None:
    """Notes of some lines; no two alike."""
    words = list(TOPICS)
    for number in range(count):
        folder = root / f"本{number % 12}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = "\n".join(
            f"第{line}行：{words[(number + line) % 15]}和{words[number * 7 % 15]}，编号{number * 31 + line}。"
            for line in range(8)
        )
        head = f"[2025-{number % 12 + 1:02d}-{number % 28 + 1:02d}] - 小克"
        text = f"{head}\n{lines}\nTag: {words[number % 15]}, {words[number % 7]}\n"
        (folder / f"2025-{number}.txt").write_text(text, encoding="utf-8")


async def measure(notes: int, seconds: float, embedder: str) -> dict[str, object]:
    """All of it; figures by what they are of."""
    told: dict[str, object] = {"notes": notes, "embedder": embedder, "load": os.getloadavg()[0]}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vcp-beside-")))
        model = await address_of(await stack.enter_async_context(started("-m", "bench.upstream")), "the canned model")
        config = {
            "API_URL": model,
            "API_Key": "none",
            "Key": KEY,
            "MemoryEmbedder": embedder,
            "MemoryEmbedderIdleSeconds": str(IDLE_SECONDS),
        }
        server = await stack.enter_async_context(vcp_serve(folder, config))
        address = await address_of(server, "vcp serve")
        session = await stack.enter_async_context(aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}))
        write_notes(folder / "later", notes)
        await asyncio.sleep(2)
        told["idle_ms_per_s_without"] = await _idle(server.pid)
        told["megabytes_without"] = round(snapshot(server.pid, MARK).memory, 1)
        chats = Chats()
        await chats.begin(address, model)
        stack.callback(chats.close)
        for phase in ("quiet before", "busy", "quiet after"):
            lateness = chats.measure()
            used, began = cpu_seconds(server.pid) or 0.0, time.perf_counter()
            if phase == "busy":
                for one in (folder / "later").iterdir():
                    one.rename(folder / "home" / "dailynote" / one.name)
                await _done(session, address, notes, vectors=embedder != "off")
            else:
                await asyncio.sleep(seconds)
            told[phase] = {
                "seconds": round(time.perf_counter() - began, 1),
                "server_cpu": round((cpu_seconds(server.pid) or 0.0) - used, 2),
                "server": lateness[0].told(),
                "model": lateness[1].told(),
            }
        told["megabytes_full"] = round(snapshot(server.pid, MARK).memory, 1)
        told["megabytes_children"] = [round(snapshot(one, MARK).memory, 1) for one in offspring(server.pid, MARK)]
        chats.close()
        await asyncio.sleep(IDLE_SECONDS + 20)
        told["idle_ms_per_s_with"] = await _idle(server.pid)
        told["megabytes_idle"] = round(snapshot(server.pid, MARK).memory, 1)
        told["children_idle"] = len(offspring(server.pid, MARK))
    return told


async def _idle(pid: int, seconds: float = 10.0) -> float:
    before = cpu_seconds(pid) or 0.0
    await asyncio.sleep(seconds)
    return round(1000 * ((cpu_seconds(pid) or 0.0) - before) / seconds, 2)


async def _done(session: aiohttp.ClientSession, address: str, notes: int, *, vectors: bool) -> None:
    until = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < until:
        await asyncio.sleep(0.5)
        async with session.get(f"{address}/v1/memory/status") as response:
            status = await response.json()
        told = status.get("vectors", {})
        embedded = not vectors or (told.get("vectors") and not told["pending"])
        if status["notes"] == notes and not status["pending"] and embedded:
            return
    raise BenchError(f"the index was not full within {LONGEST_SECONDS:g} s: {status}")


def main() -> None:
    """Measure and print, as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory.beside", description=__doc__)
    parser.add_argument("--notes", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=15.0, help="length of the quiet measurements")
    parser.add_argument("--embedders", nargs="*", default=["off", "hashing", "auto"])
    options = parser.parse_args()

    async def work() -> None:
        for embedder in options.embedders:
            print(json.dumps(await measure(options.notes, options.seconds, embedder), indent=1), flush=True)

    try:
        run(work())
    except BenchError as error:
        sys.exit(f"bench.memory.beside: {error}")


if __name__ == "__main__":
    main()
