"""``python -m bench.traces``: how long pages and searches of traces take when there are many.

Made-up traces of an ordinary size are written into a fresh installation; then a real server shows them to a client on
this machine. Times are those of whole requests, the quickest of some.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from app.config.home_folders import make_home
from app.config.snapshot import load
from app.extend import (
    ExpandedText,
    FirstToken,
    Outcome,
    PhaseDone,
    Piece,
    PromptExpanded,
    RoundFinished,
    RoundStarted,
    Trust,
    TurnFinished,
    TurnStarted,
    UpstreamAnswered,
)
from app.observe.traces.document import trace_document
from app.observe.traces.record import Kind, Record
from app.services import Services
from app.web.app import create_app
from app.web.server import serve
from bench.child import BenchError, run

TRACES = 10_000
BATCH = 100
NAME, PASSWORD = "bench", "bench-password"

PAGES = {
    "the list": "/AdminPanel/traces",
    "the list, one model": "/AdminPanel/traces?model=m3",
    "the list, errors": "/AdminPanel/traces?outcome=error",
    "a search that finds": "/AdminPanel/traces?q=weather+sunny",
    "a search in vain": "/AdminPanel/traces?q=nothing-such",
    "a trace": "/AdminPanel/trace/turn-77",
    "its prompt": "/AdminPanel/trace/turn-77/prompt",
}


def documents(count: int, now: float) -> Iterator[dict[str, Any]]:
    """Traces of chats with a prompt of some 6,000 characters, one a second until ``now``."""
    system, question = "You are a calm assistant who answers briefly. " * 130, "How is the weather on our trip? " * 4
    pieces = (Piece(system, "agent:Nova", Trust.OPERATOR),), (Piece(question, "message", Trust.MESSAGE),)
    messages = [{"role": "system", "content": "{{Nova}}"}, {"role": "user", "content": question}]
    sent = ({"role": "system", "content": system}, messages[1])
    texts = tuple(ExpandedText(number, None, found) for number, found in enumerate(pieces))
    record = Record("t", Kind.TURN, True, now, 0.0)
    events = (
        TurnStarted("t", "m", True, "127.0.0.1"),
        PhaseDone("t", "operator_text", 2, 3),
        PromptExpanded("t", {"messages": messages}, texts, sent),
        RoundStarted("t", 1),
        UpstreamAnswered("t", 1, "API_URL"),
        FirstToken("t", 1),
        RoundFinished("t", 1, "stop", {"total_tokens": 1700}, "It is sunny. " * 60),
        TurnFinished("t", Outcome.SUCCESS, 1, 0),
    )
    for number, event in enumerate(events):
        record.add(event, number / 10)
    base = trace_document(record, lambda value: value)
    for number in range(count):
        changed = {"id": f"turn-{number}", "started": now - count + number, "model": f"m{number % 7}"}
        yield {**base, **changed, "outcome": "error" if number % 50 == 0 else "success"}


async def figures(count: int, repeats: int) -> dict[str, float]:
    """Milliseconds of each page."""
    told: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        make_home(home)
        lines = ["Key=bench", f"AdminUsername={NAME}", f"AdminPassword={PASSWORD}", "MemoryEmbedder=hashing"]
        lines += ["API_URL=http://127.0.0.1:9", "RunStaticPlugins=false"]
        (home / "config.env").write_text("\n".join(lines) + "\n", encoding="utf-8")
        services = Services(load(home, {}), "bench")
        made = list(documents(count, time.time()))
        async with (
            serve(create_app(services), grace=2) as url,
            httpx.AsyncClient(base_url=url, auth=(NAME, PASSWORD), timeout=60, trust_env=False) as client,
        ):
            for start in range(0, count, BATCH):
                await asyncio.to_thread(services.traces.add, made[start : start + BATCH])
            for label, path in PAGES.items():
                told[label] = await _quickest(client, path, repeats)
    return told


async def _quickest(client: httpx.AsyncClient, path: str, repeats: int) -> float:
    spent: list[float] = []
    for _ in range(repeats):
        begun = time.perf_counter()
        answer = await client.get(path)
        spent.append(1000 * (time.perf_counter() - begun))
        if answer.status_code != 200:
            raise BenchError(f"{path} answered {answer.status_code}")
    return min(spent)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``python -m bench.traces``."""
    parser = argparse.ArgumentParser(prog="python -m bench.traces", description=__doc__)
    parser.add_argument("--traces", type=int, default=TRACES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args(arguments)
    found: list[dict[str, float]] = []

    async def work() -> None:
        found.append(await figures(options.traces, options.repeats))

    run(work())
    print(f"{options.traces} traces; Python {platform.python_version()}")
    for label, spent in found[0].items():
        print(f"{label:<26}{spent:>10.1f} ms")
    if options.json is not None:
        options.json.write_text(json.dumps(found[0], indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
