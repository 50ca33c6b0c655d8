"""``python -m bench.panel``: how long each page of the admin panel takes with much in it.

A real ``vcp serve`` over a home with 10,000 traces, 5,000 notes and 500 plugins. Every page of the navigation, and of
each kind of page they lead to one, is asked for several times by HTTP Basic; measured is the time from the request to
the last byte, on one connection, and the size. The goal is 200 ms of server time for a page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from app.observe.traces.store import TraceStore, Wanted
from bench.child import BenchError, address_of, run, started
from bench.sides import serve_command

NAME, PASSWORD = "admin", "panel-bench"
KEY = "key-of-the-panel-bench"
GOAL_MS = 200
TRACES_FILE = Path(".vcp") / "traces" / "traces.sqlite"
BATCH = 500
WAIT_SECONDS = 600.0

_LINK = re.compile(r'href="(/AdminPanel/[^"#]*)"')
_FURTHER = (
    "notebooks/日记0",
    "notebooks/日记0/note/note-00000.txt",
    "notebooks?q=白鹭",
    "traces?q=SciCalculator",
    "traces?q=nothing-like-it",
    "trace/bench-0/prompt",
    "plugins?q=Tool",
    "search?q=Tool",
    "attention",
    "config?tab=text",
)
"""Pages that links do not lead to, or only after another one of their kind."""
_NOT_PAGES = ("/static/", "/download", "/export", "/logout", "/stream")


def make_home(home: Path, *, notes: int, plugins: int) -> None:
    """A home with so many notes in ten notebooks, and so many plugins."""
    (home / "config.env").write_text(
        f"Key={KEY}\nAdminUsername={NAME}\nAdminPassword={PASSWORD}\nMemoryEmbedder=hashing\n", "utf-8"
    )
    for number in range(notes):
        folder = home / "dailynote" / f"日记{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        text = f"[2026-11-{number % 28 + 1:02}] - 日记\n第 {number} 篇：今天去了西湖，看到了白鹭。\nTag: 西湖\n"
        (folder / f"note-{number:05}.txt").write_text(text, encoding="utf-8")
    for number in range(plugins):
        folder = home / "Plugin" / f"Tool{number:03}"
        folder.mkdir(parents=True)
        commands = [{"commandIdentifier": f"Do{place}", "description": f"does {place}"} for place in range(3)]
        manifest = {
            "name": f"Tool{number:03}",
            "displayName": f"Tool {number}",
            "description": "one of many",
            "pluginType": "synchronous",
            "entryPoint": {"type": "python", "command": "python main.py"},
            "communication": {"protocol": "stdio"},
            "capabilities": {"invocationCommands": commands},
        }
        (folder / "plugin-manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        (folder / "main.py").write_text("print('{}')\n", encoding="utf-8")


async def fill_traces(home: Path, count: int) -> None:
    """Let the server make one real trace, and store copies of it."""
    async with started(*serve_command(home)) as process:
        address = await address_of(process, "vcp-server")
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
            body = {"model": "vcp-demo", "messages": [{"role": "user", "content": "What is 12*7?"}]}
            async with session.post(f"{address}/v1/chat/completions", json=body) as answer:
                answer.raise_for_status()
                await answer.read()
        await _until(lambda: (home / TRACES_FILE).exists() and _count(home) > 0, "a trace")
    await asyncio.to_thread(_copy, home, count)


def _count(home: Path) -> int:
    store = TraceStore(home / TRACES_FILE)
    try:
        return store.count()
    finally:
        store.close()


def _copy(home: Path, count: int) -> None:
    store = TraceStore(home / TRACES_FILE)
    try:
        newest = store.page(Wanted(limit=1)).rows[0]
        found = store.one(newest.id)
        assert found is not None
        now = time.time()
        for begin in range(0, count, BATCH):
            numbers = range(begin, min(count, begin + BATCH))
            store.add([{**found, "id": f"bench-{number}", "started": now - number} for number in numbers])
    finally:
        store.close()


async def _until(reached: Any, what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not await asyncio.to_thread(reached):
        if time.monotonic() > deadline:
            raise BenchError(f"{what} did not come within {WAIT_SECONDS:g} s")
        await asyncio.sleep(0.2)


async def measure(home: Path, repeats: int) -> list[tuple[str, float, float, int]]:
    """(page, median ms, greatest ms, bytes) of each page."""
    async with started(*serve_command(home)) as process:
        address = await address_of(process, "vcp-server")
        headers = {"Accept": "text/html", "Authorization": aiohttp.encode_basic_auth(NAME, PASSWORD)}
        async with aiohttp.ClientSession(headers=headers) as session:
            await _settled(session, address)
            rows, waiting, kinds = [], ["/AdminPanel/", *(f"/AdminPanel/{page}" for page in _FURTHER)], {"/"}
            while waiting:
                page = waiting.pop(0)
                times, text = [], ""
                for _ in range(repeats):
                    begun = time.perf_counter()
                    async with session.get(address + page) as answer:
                        text = await answer.text()
                    times.append(1000 * (time.perf_counter() - begun))
                    if answer.status != 200:
                        raise BenchError(f"{page} answered {answer.status}")
                rows.append((page, median(times), max(times), len(text.encode())))
                for link in _LINK.findall(text):
                    kind = re.sub(r"(/[^/?]+/)[^/?]+", r"\1*", link.removeprefix("/AdminPanel")).partition("?")[0]
                    if kind not in kinds and not any(word in link for word in _NOT_PAGES):
                        kinds.add(kind)
                        waiting.append(link.replace("&amp;", "&"))
            return rows


async def _settled(session: aiohttp.ClientSession, address: str) -> None:
    """Wait until the notes are in the index, so that nothing else runs meanwhile."""
    for _ in range(int(WAIT_SECONDS)):
        async with session.get(f"{address}/admin_api/vectordb/status") as answer:
            status = (await answer.json()).get("status", {})
        if status.get("notes") and not status.get("pending") and not status.get("vectors", {}).get("pending"):
            return
        await asyncio.sleep(1)
    raise BenchError("the index of notes did not settle")


async def compare(options: argparse.Namespace) -> None:
    """Make the home, measure, print."""
    with tempfile.TemporaryDirectory(prefix="vcp-panel-") as name:
        home = Path(name)
        make_home(home, notes=options.notes, plugins=options.plugins)
        await fill_traces(home, options.traces)
        rows = await measure(home, options.repeats)
    print(f"{options.traces} traces, {options.notes} notes, {options.plugins} plugins; {platform.python_version()}")
    print(f"{os.cpu_count()} cores; goal {GOAL_MS} ms a page\n")
    for page, middle, most, size in sorted(rows, key=lambda row: -row[1]):
        mark = "" if middle <= GOAL_MS else "  over the goal"
        print(f"{middle:8.1f} ms  (most {most:8.1f})  {size / 1024:7.1f} KiB  {page}{mark}")


def main(words: Sequence[str] | None = None) -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--notes", type=int, default=5_000)
    parser.add_argument("--plugins", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    run(compare(parser.parse_args(words)))


if __name__ == "__main__":
    main()
