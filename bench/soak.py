"""``python -m bench.soak``: the server under mixed load for minutes, then killed under load again and again.

At the end nothing may be left: no process, no open file more than at the start, hardly more memory; every answer must
have been well formed, and after each kill every file whole.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from bench.child import BenchError, address_of, run, started, stop
from bench.conversations import ANSWER_SECONDS, CONVERSATIONS, Client, WrongAnswerError
from bench.processes import Snapshot, offspring, snapshot
from bench.sides import serve_command

MARK = "VCP_SOAK"
CLIENTS = 6
SETTLE_SECONDS = 45.0
"""Idle connections to the model are kept for 15 s, a calculation may take a while: what is left then is a leak."""

MORE_MEMORY = 48.0
"""MiB that the server may grow between the end of the warm-up and the end of the load."""

KILL_AFTER = 12
"""Answers between the start of a server and its kill."""

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

    def __init__(self, home: Path, upstream: str) -> None:
        self._home = home
        self._key_file = home / ".vcp" / "server.key"
        self._key = ""
        self.mark = f"{MARK}={secrets.token_hex(8)}"
        (home / "config.env").write_text(f"API_URL={upstream}\nAPI_Key=any\n", encoding="utf-8")

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
        return faults

    @property
    def notes(self) -> int:
        """Diary entries so far."""
        return len(list((self._home / "dailynote").rglob("*.txt")))


async def work(server: Server, record: Record, number: int, until: float, *, killed: asyncio.Event | None) -> None:
    """One client: a conversation after the other until the time has come, or until the server was killed."""
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        client = Client(session, server.address, server.key)
        while time.monotonic() < until and not (killed and killed.is_set()):
            conversation = CONVERSATIONS[number % len(CONVERSATIONS)]
            try:
                await conversation(client, number)
                record.answer(conversation.__name__)
            except (WrongAnswerError, aiohttp.ClientError, TimeoutError, OSError) as error:
                if killed is None or not killed.is_set():
                    record.fault(f"{conversation.__name__}: {type(error).__name__}: {error}")
            number += 1


async def load(server: Server, mark: str, record: Record, seconds: float) -> Snapshot:
    """All clients for some time; the greatest figures on the way."""
    until = time.monotonic() + seconds
    first = record.total + 1000
    clients = [
        asyncio.create_task(work(server, record, first + client * 1000 + client, until, killed=None))
        for client in range(CLIENTS)
    ]
    peak = Snapshot(0, 0, 0)
    while (await asyncio.wait(clients, timeout=1))[1]:
        seen = snapshot(server.process.pid, mark)
        peak = Snapshot(max(peak.memory, seen.memory), max(peak.files, seen.files), max(peak.offspring, seen.offspring))
    await asyncio.gather(*clients)
    return peak


async def settled(pid: int, mark: str, files: int | None = None) -> Snapshot:
    """The process once it has nothing to do: no offspring, and no more open files than ``files`` (None: the fewest
    that it gets to). What is not so after the time limit is returned as it is.
    """
    until = time.monotonic() + SETTLE_SECONDS
    seen, steady = snapshot(pid, mark), time.monotonic()
    while time.monotonic() < until:
        await asyncio.sleep(0.25)
        now = snapshot(pid, mark)
        if now.files != seen.files or now.offspring:
            steady = time.monotonic()
        seen = now
        if not now.offspring and files is not None and now.files <= files:
            break
        if not now.offspring and files is None and time.monotonic() - steady > SETTLE_SECONDS / 2:
            break
    return seen


async def outlived(pid: int, mark: str) -> list[int]:
    """What is left of a killed process's offspring after the time that it may take to end."""
    until = time.monotonic() + SETTLE_SECONDS
    while (left := offspring(pid, mark)) and time.monotonic() < until:  # noqa: ASYNC110  only the system knows them
        await asyncio.sleep(0.1)
    return left


async def endure(installation: Installation, record: Record, seconds: float) -> list[str]:
    """The long load; what it proved, in lines."""
    async with installation.serving() as server:
        pid = server.process.pid
        await load(server, installation.mark, record, max(2.0, min(30.0, seconds / 5)))
        start = await settled(pid, installation.mark)
        peak = await load(server, installation.mark, record, seconds)
        end = await settled(pid, installation.mark, start.files)
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
    return [f"start  {start}", f"peak   {peak}", f"end    {end}"]


async def kill(installation: Installation, record: Record, times: int) -> str:
    """Kill the server under load, look at what it left, start it again."""
    for round_number in range(times):
        async with installation.serving() as server:
            killed = asyncio.Event()
            before = record.total
            until = time.monotonic() + ANSWER_SECONDS
            first = 100_000 + round_number * 1000
            clients = [
                asyncio.create_task(work(server, record, first + client * 100, until, killed=killed))
                for client in range(CLIENTS)
            ]
            if not await record.until(before + KILL_AFTER, ANSWER_SECONDS):
                record.fault(f"too few answers before kill {round_number + 1}")
            killed.set()
            os.kill(server.process.pid, signal.SIGKILL)
            await server.process.wait()
            await asyncio.gather(*clients)
        left = await outlived(server.process.pid, installation.mark)
        if left:
            record.fault(f"{len(left)} processes outlived kill {round_number + 1}")
        for fault in installation.file_faults():
            record.fault(f"after kill {round_number + 1}: {fault}")
    async with installation.serving() as server, aiohttp.ClientSession() as session:
        await CONVERSATIONS[0](Client(session, server.address, server.key), 0)
    return f"killed {times} times, started again each time, {installation.notes} diary entries whole"


async def soak(minutes: float, kills: int) -> bool:
    """Everything; true when nothing was wrong."""
    record = Record()
    lines: list[str] = []
    async with contextlib.AsyncExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vcp-soak-")))
        demo = await stack.enter_async_context(started("-m", "app.cli", "demo", "--port", "0"))
        installation = Installation(home, await address_of(demo, "vcp demo"))
        if minutes > 0:
            print(f"load of {CLIENTS} clients for {minutes:g} min ...", file=sys.stderr)
            lines += await endure(installation, record, minutes * 60)
        if kills:
            print(f"{kills} kills under load ...", file=sys.stderr)
            lines.append(await kill(installation, record, kills))
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
    parser.add_argument("--kills", type=int, default=20, help="how often the server is killed (default: 20)")
    options = parser.parse_args(arguments)
    if sys.platform != "linux":
        sys.exit("bench.soak: needs /proc, so it runs on Linux only")
    good = False

    async def all_of_it() -> None:
        nonlocal good
        good = await soak(options.minutes, options.kills)

    try:
        run(all_of_it())
    except BenchError as error:
        sys.exit(f"bench.soak: {error}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
