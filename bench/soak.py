"""``python -m bench.soak``: the server under mixed load for minutes, then killed under load again and again.

At the end nothing may be left: no process, no open file more than at the start, hardly more memory; every answer must
have been well formed, and after each kill every file whole, no task run twice, no acknowledged result lost.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import re
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from bench.child import BenchError, address_of, run, started, stop
from bench.conversations import ANSWER_SECONDS, CONVERSATIONS, Client, Conversation, WrongAnswerError, calculate
from bench.diarists import SETTINGS as MEMORY
from bench.diarists import Diarists
from bench.leftovers import SETTLE_SECONDS, numbers, outlived, settled
from bench.outposts import NODES, Outposts
from bench.processes import Snapshot, offspring, snapshot
from bench.sides import serve_command
from bench.tool_servers import SETTINGS, ToolServers
from bench.workshop import BURST, Workshop

MARK = "VCP_SOAK"
CLIENTS = 6
MORE_MEMORY = 48.0
"""MiB that the server may grow between the end of the warm-up and the end of the load."""

KILL_AFTER = 24
"""Most answers between the start of a server and a kill at any moment."""

KILL_WITHIN = 0.6
"""Seconds after the moment that a kill waits for; the kill comes at some time of these."""

MOMENTS = ("schedule", "callback", "reload", "any")
"""What the server is in the middle of when it is killed, in turn."""

QUIET_SECONDS = 3.0
MORE_FILES = 12
"""Open files that a server which was just started may have more than another one, because a plugin still runs."""

MAX_FAULTS = 20

_NOTE = re.compile(r"\[\d{4}-\d{2}-\d{2}\] - Demo\n.*note \d+ is whole\nTag: demo\n?", re.DOTALL)


@dataclass(slots=True)
class Record:
    """What happened so far."""

    answers: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def total(self) -> int:
        """Answers of all kinds."""
        return sum(self.answers.values())

    def answer(self, kind: str) -> None:
        """Count an answer."""
        self.answers[kind] += 1
        self.answered.set()

    async def until(self, total: int, seconds: float) -> bool:
        """Wait for so many answers in all; false when the time runs out before."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.total < total:
                    self.answered.clear()
                    await self.answered.wait()
        return self.total >= total

    def fault(self, text: str) -> None:
        """Note a fault; the first ones are kept."""
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(text)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its process, address and key."""

    process: asyncio.subprocess.Process
    address: str
    key: str


class Installation:
    """One home, in which the server is started as often as it takes."""

    def __init__(self, home: Path, beside: Path, upstream: str, fault: Callable[[str], None]) -> None:
        self._home = home
        self._key_file = home / ".vcp" / "server.key"
        self._key = ""
        self.workshop = Workshop(home)
        self.outposts = Outposts(home, beside, fault)
        self.mark = f"{MARK}={secrets.token_hex(8)}"
        self.tool_servers = ToolServers(home, self.mark, fault)
        self.diarists = Diarists(home, self.workshop, self.mark, fault)
        parts = (self.workshop, self.outposts, self.tool_servers, self.diarists)
        self.conversations = (*CONVERSATIONS, *(one for part in parts for one in part.conversations))
        lines = (
            f"API_URL={upstream}",
            "API_Key=any",
            "MaxRunningTurns=500",
            "PluginQueueLimit=1000",
            "SocketQueueMB=1",
            *SETTINGS,
            *MEMORY,
        )
        (home / "config.env").write_text("\n".join((*lines, "")), encoding="utf-8")

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Server]:
        """The server; it must find its key again as it left it."""
        name, _, value = self.mark.partition("=")
        async with started(
            *serve_command(self._home), environ={name: value}, stderr=self._home / "server.log"
        ) as process:
            address = await address_of(process, "vcp serve")
            key = self._key_file.read_text(encoding="utf-8").strip()
            if self._key and key != self._key:
                raise BenchError("the server made a new key")
            self._key = key
            yield Server(process, address, key)

    def file_faults(self) -> list[str]:
        """Files that are not whole, and leftovers."""
        faults = []
        for path in (self._home / "dailynote").rglob("*"):
            if path.suffix == ".tmp":
                faults.append(f"left behind: {path.name}")
            elif path.suffix == ".txt" and not _NOTE.fullmatch(path.read_text("utf-8")):
                faults.append(f"not whole: {path.name}: {path.read_text('utf-8')[:200]!r}")
        if self._key_file.stat().st_mode & 0o077:
            faults.append(f"others may read {self._key_file.name}")
        return [*faults, *self.workshop.faults(), *self.outposts.faults()]

    @property
    def notes(self) -> int:
        """Diary entries so far."""
        return len(list((self._home / "dailynote").rglob("*.txt")))


async def work(
    server: Server,
    conversations: Sequence[Conversation],
    record: Record,
    number: int,
    until: float,
    *,
    killed: asyncio.Event | None,
) -> None:
    """One client: a conversation after the other until the time has come, or until the server was killed."""
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        client = Client(session, server.address, server.key)
        while time.monotonic() < until and not (killed and killed.is_set()):
            conversation = conversations[number % len(conversations)]
            try:
                await conversation(client, number)
                record.answer(conversation.__name__)
            except (WrongAnswerError, aiohttp.ClientError, TimeoutError, OSError) as error:
                if killed is None or not killed.is_set():
                    record.fault(f"{conversation.__name__}: {type(error).__name__}: {error}")
            number += 1


async def burst(server: Server, record: Record) -> None:
    """Many streamed turns at the same moment, each with a process of its own."""

    async def one(session: aiohttp.ClientSession, number: int) -> None:
        try:
            await calculate(Client(session, server.address, server.key), number)
            record.answer("calculate, all at once")
        except (WrongAnswerError, aiohttp.ClientError, TimeoutError, OSError) as error:
            record.fault(f"all at once: {type(error).__name__}: {error}")

    timeout = aiohttp.ClientTimeout(total=4 * ANSWER_SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        await asyncio.gather(*(one(session, 1000 + number) for number in range(BURST)))


async def load(server: Server, installation: Installation, record: Record, seconds: float) -> Snapshot:
    """All clients for some time; the greatest figures on the way."""
    until = time.monotonic() + seconds
    first = record.total + 1000
    clients = [
        asyncio.create_task(
            work(server, installation.conversations, record, first + client * 1000 + client, until, killed=None)
        )
        for client in range(CLIENTS)
    ]
    clients += [
        asyncio.create_task(part.trouble(server.address, server.key, until, random.Random(first)))
        for part in (installation.outposts, installation.tool_servers)
    ]
    diarists = installation.diarists.trouble(
        server.process.pid, server.address, server.key, until, random.Random(first)
    )
    clients.append(asyncio.create_task(diarists))
    peak = Snapshot(0, 0, 0)
    while (await asyncio.wait(clients, timeout=1))[1]:
        seen = snapshot(server.process.pid, installation.mark)
        peak = Snapshot(max(peak.memory, seen.memory), max(peak.files, seen.files), max(peak.offspring, seen.offspring))
    await asyncio.gather(*clients)
    return peak


async def endure(installation: Installation, record: Record, seconds: float) -> list[str]:
    """The long load; what it proved, in lines."""
    async with installation.serving() as server:
        pid = server.process.pid
        async with installation.outposts.manned(server.address, server.key):
            await burst(server, record)
            await load(server, installation, record, max(2.0, min(30.0, seconds / 5)))
            start = await settled(pid, installation.mark)
            counted = await numbers(server.address, server.key)
            await burst(server, record)
            peak = await load(server, installation, record, seconds)
            end = await settled(pid, installation.mark, start.files)
            for name, number in (await numbers(server.address, server.key)).items():
                if number > counted[name]:
                    record.fault(f"{name} is {number:g}, {counted[name]:g} at the start")
        if end.offspring:
            record.fault(f"{end.offspring} processes are left")
        if end.files > start.files:
            record.fault(f"{end.files} open files, {start.files} at the start")
        if end.memory > start.memory + MORE_MEMORY:
            record.fault(f"{end.memory:.0f} MiB, {start.memory:.0f} at the start")
        await stop(server.process)
        if server.process.returncode != 0:
            record.fault(f"the server ended with status {server.process.returncode}")
    if left := offspring(pid, installation.mark):
        record.fault(f"{len(left)} processes outlived the server")
    for fault in installation.file_faults():
        record.fault(fault)
    counts = (installation.outposts.counts, installation.tool_servers.counts, installation.diarists.counts)
    return [f"start  {start}", f"peak   {peak}", f"end    {end}", *counts]


async def kill(installation: Installation, record: Record, times: int, chance: random.Random) -> list[str]:
    """Kill the server under load, look at what it left, start it again."""
    quiet: list[Snapshot] = []
    for round_number in range(times):
        moment = MOMENTS[round_number % len(MOMENTS)]
        async with (
            installation.serving() as server,
            installation.outposts.manned(server.address, server.key, NODES[:1]),
        ):
            quiet.append(await _quiet(server, installation.mark))
            killed = asyncio.Event()
            begun = installation.workshop.begun
            for event in begun.values():
                event.clear()
            before = record.total
            until = time.monotonic() + ANSWER_SECONDS
            first = 100_000 + round_number * 1000
            clients = [
                asyncio.create_task(
                    work(server, installation.conversations, record, first + client * 101, until, killed=killed)
                )
                for client in range(CLIENTS)
            ]
            if moment == "any":
                come = await record.until(before + chance.randint(0, KILL_AFTER), ANSWER_SECONDS)
            else:
                come = await _comes(begun[moment], ANSWER_SECONDS)
            if not come:
                record.fault(f"there was no moment '{moment}' before kill {round_number + 1}")
            await asyncio.sleep(chance.uniform(0, KILL_WITHIN))
            killed.set()
            installation.outposts.leave()
            os.kill(server.process.pid, signal.SIGKILL)
            await server.process.wait()
            await asyncio.gather(*clients)
        left = await outlived(server.process.pid, installation.mark)
        if left:
            record.fault(f"{len(left)} processes outlived kill {round_number + 1}")
        for fault in installation.file_faults():
            record.fault(f"after kill {round_number + 1}: {fault}")
    async with (
        installation.serving() as server,
        installation.outposts.manned(server.address, server.key, NODES[:1]),
        aiohttp.ClientSession() as session,
    ):
        client = Client(session, server.address, server.key)
        await CONVERSATIONS[0](client, 0)
        await installation.workshop.edit(client, 0)
        await _all_done(installation.workshop)
        await installation.diarists.caught_up(client)
        quiet.append(await _quiet(server, installation.mark))
    for name in installation.workshop.waiting:
        record.fault(f"still waits: {name.name}")
    for lost in installation.workshop.lost_tasks():
        record.fault(f"nothing tells what became of {lost}")
    for fault in installation.file_faults():
        record.fault(f"in the end: {fault}")
    if quiet[-1].memory > quiet[0].memory + MORE_MEMORY or quiet[-1].files > quiet[0].files + MORE_FILES:
        record.fault(f"after {times} kills {quiet[-1]}, at the first start {quiet[0]}")
    return [
        f"killed {times} times, started again each time, {installation.notes} diary entries whole",
        installation.workshop.counts,
        installation.outposts.counts,
        installation.tool_servers.counts,
        installation.diarists.counts,
        f"first start {quiet[0]}",
        f"last start  {quiet[-1]}",
    ]


async def _comes(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


async def _quiet(server: Server, mark: str) -> Snapshot:
    """A server that was just started, at the moment of some seconds in which it had the fewest open files."""
    until = time.monotonic() + QUIET_SECONDS
    fewest = snapshot(server.process.pid, mark)
    while time.monotonic() < until:
        await asyncio.sleep(0.1)
        fewest = min(fewest, snapshot(server.process.pid, mark), key=lambda seen: seen.files)
    return fewest


async def _all_done(workshop: Workshop) -> None:
    """Wait until no task waits any more."""
    until = time.monotonic() + SETTLE_SECONDS
    while workshop.waiting and time.monotonic() < until:  # noqa: ASYNC110  only the folder tells
        await asyncio.sleep(0.1)


async def soak(seconds: float, kills: int, seed: int) -> bool:
    """Everything; true when nothing was wrong."""
    record = Record()
    lines: list[str] = []
    async with contextlib.AsyncExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vcp-soak-")))
        beside = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vcp-soak-nodes-")))
        demo = await stack.enter_async_context(started("-m", "app.cli", "demo", "--port", "0"))
        installation = Installation(home, beside, await address_of(demo, "vcp demo"), record.fault)
        if seconds > 0:
            print(f"load of {CLIENTS} clients for {seconds:g} s ...", file=sys.stderr)
            lines += await endure(installation, record, seconds)
        if kills:
            print(f"{kills} kills under load (seed {seed}) ...", file=sys.stderr)
            lines += await kill(installation, record, kills, random.Random(seed))
    for name, count in sorted(record.answers.items()):
        print(f"{count:7d}  {name.replace('_', ' ')}")
    print("\n".join(lines))
    for fault in record.faults:
        print(f"FAULT  {fault}")
    print("ok" if not record.faults else f"{len(record.faults)} faults")
    return not record.faults


def main(arguments: Sequence[str] | None = None) -> None:
    """Soak; exits with 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="Mixed load, then kills under load.")
    parser.add_argument("--minutes", type=float, default=5, help="how long the load lasts (default: 5)")
    parser.add_argument("--seconds", type=float, help="the same in seconds, for a short run")
    parser.add_argument("--kills", type=int, default=20, help="how often the server is killed (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="another number gives other moments (default: 1)")
    options = parser.parse_args(arguments)
    seconds = options.minutes * 60 if options.seconds is None else options.seconds
    if sys.platform != "linux":
        sys.exit("bench.soak: needs /proc, so it runs on Linux only")
    good = False

    async def all_of_it() -> None:
        nonlocal good
        good = await soak(seconds, options.kills, options.seed)

    try:
        run(all_of_it())
    except BenchError as error:
        sys.exit(f"bench.soak: {error}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
