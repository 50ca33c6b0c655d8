"""The processes of a comparison: how one is started, asked what it used, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from pathlib import Path
from typing import Any

import uvloop

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 30.0
STOP_SECONDS = 15.0
LINE_LIMIT = 4 * 1024 * 1024
"""Longest line that a child may print."""

_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")


class BenchError(Exception):
    """The measurement cannot be made; the message says why."""


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run on the loop that the server itself uses, so that all sides have the same. SIGTERM ends it in good order."""

    async def whole() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # its children end with it
        await main

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(whole())
        except asyncio.CancelledError:
            raise SystemExit(128 + signal.SIGTERM) from None


def cpu_seconds(pid: int) -> float | None:
    """Processor time that a process has used so far, to the nanosecond; None where the system cannot tell.

    The clock of another process is what ``clock_getcpuclockid`` gives in C. ``/proc/PID/stat`` counts in steps of
    10 ms, too coarse for short measurements.
    """
    if sys.platform != "linux":
        return None
    return time.clock_gettime((~pid << 3) | 2)


@contextlib.asynccontextmanager
async def started(
    *command: str, environ: Mapping[str, str] | None = None, stderr: Path | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python child with these arguments; ended with the block, by force if it must be.

    Its environment has nothing of ours but what a program needs to start, so that no setting of the person who
    measures changes what is measured.
    """
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    with stderr.open("ab") if stderr else contextlib.nullcontext() as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            cwd=ROOT,
            env={**kept, **(environ or {})},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=LINE_LIMIT,
            start_new_session=True,  # Ctrl-C reaches only us; we end the children in order
        )
    try:
        yield process
    finally:
        await stop(process)


async def stop(process: asyncio.subprocess.Process) -> None:
    """End a child in good order, or by force when it does not follow."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    try:
        await asyncio.wait_for(process.communicate(), STOP_SECONDS)  # reads on: a full pipe would hold the child
    except TimeoutError:
        process.kill()
        await process.communicate()


async def address_of(process: asyncio.subprocess.Process, what: str) -> str:
    """The first address that a child prints."""
    lines = await lines_until(process, what, lambda text: _ADDRESS.search(text) is not None)
    found = _ADDRESS.search(lines)
    assert found is not None
    return found[0]


async def lines_until(process: asyncio.subprocess.Process, what: str, enough: Any) -> str:
    """What a child prints until ``enough(text)``; ``BenchError`` when it ends or is silent for too long."""
    assert process.stdout is not None
    text = ""
    try:
        async with asyncio.timeout(START_SECONDS):
            while not enough(text):
                line = await process.stdout.readline()
                if not line:
                    raise BenchError(f"{what} ended at its start with status {await process.wait()}")
                text += line.decode("utf-8", "replace")
    except TimeoutError:
        raise BenchError(f"{what} did not start within {START_SECONDS:g} s") from None
    return text


async def serve_until_stdin_ends(address: str) -> None:
    """Print the address of this process's service, then wait for the parent to close our standard input."""
    print(address, flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)
