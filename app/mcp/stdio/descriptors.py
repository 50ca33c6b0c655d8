"""Standard input and output of the process, taken away from everybody else, and the two threads that use them.

From then on descriptor 0 is empty and descriptor 1 is stderr: what a plugin prints, and what a child inherits, cannot
get between the frames (STD-45). Threads read and write because event loops cannot do that with every kind of file and
terminal; they are daemons, since one that hangs in the operating system must not hold up the end of the program.
"""

from __future__ import annotations

import asyncio
import io
import os
import queue
import sys
import threading
from collections import deque

from app.errors import ConfigError, both

READ_AT_ONCE = 64 * 1024
READ_AHEAD = 8
"""Pieces of input that wait while nobody takes them."""

WRITE_AT_ONCE = 64 * 1024
STUCK_SECONDS = 30.0
"""How long the reader of our output may take nothing at all (STD-29)."""


def take_standard_streams() -> tuple[int, int]:
    """Private descriptors of standard input and output, which nobody inherits.

    They are never given back, so that what is printed while the program ends is kept from the output too. Raises
    ConfigError where one of the two is closed.
    """
    try:
        private = _duplicate(0), _duplicate(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
    except OSError as error:
        raise ConfigError(
            both("标准输入、输出和错误输出必须打开", "standard input, output and error have to be open")
            + f": {error.strerror}"
        ) from error
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # as stderr, which it is now
    return private


def _duplicate(descriptor: int) -> int:
    if sys.platform == "win32":
        return os.dup(descriptor)
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


class Input:
    """Reads a descriptor to its end; what nobody takes waits in the operating system, not here."""

    def __init__(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: deque[bytes] = deque()
        self._came = asyncio.Event()
        self._room = threading.Semaphore(READ_AHEAD)
        self.thread = threading.Thread(target=self._read, args=(descriptor,), name="mcp input", daemon=True)
        self.thread.start()

    async def next(self) -> bytes:
        """The next piece; empty at the end, again and again. Nothing is lost when the wait for it is cancelled."""
        while not self._pieces:
            self._came.clear()
            await self._came.wait()
        if not self._pieces[0]:
            return b""
        self._room.release()
        return self._pieces.popleft()

    def _read(self, descriptor: int) -> None:
        data = b"-"
        while data:
            self._room.acquire()
            try:
                data = os.read(descriptor, READ_AT_ONCE)
            except OSError:  # the terminal is gone
                data = b""
            try:
                self._loop.call_soon_threadsafe(self._put, data)
            except RuntimeError:  # the loop has ended, and nobody wants to know
                return

    def _put(self, data: bytes) -> None:
        self._pieces.append(data)
        self._came.set()


class Output:
    """Writes frames to a descriptor, one after the other and each as a whole.

    ``write`` waits until the frame is out, so a slow reader slows down whoever writes and nothing piles up (STD-29).
    ``failure`` is set, to a text for the log, when nothing can be written any more: nobody reads, or whoever reads has
    taken nothing for ``stuck_seconds``. From then on frames are dropped.
    """

    def __init__(self, descriptor: int, *, stuck_seconds: float = STUCK_SECONDS) -> None:
        self._loop = asyncio.get_running_loop()
        self._stuck_seconds = stuck_seconds
        self._turn = asyncio.Lock()
        self._written = 0
        self._frames: queue.SimpleQueue[tuple[bytes, asyncio.Future[str]] | None] = queue.SimpleQueue()
        self.failure: asyncio.Future[str] = self._loop.create_future()
        self.thread = threading.Thread(target=self._write, args=(descriptor,), name="mcp output", daemon=True)
        self.thread.start()

    async def write(self, frame: bytes) -> None:
        """Write one frame, with its newline behind it."""
        async with self._turn:
            if self.failure.done():
                return
            out: asyncio.Future[str] = self._loop.create_future()
            self._frames.put((frame + b"\n", out))
            await self._told(out)

    def close(self) -> None:
        """Write nothing more; the thread ends when the last frame is out."""
        self._frames.put(None)

    async def _told(self, out: asyncio.Future[str]) -> None:
        written = -1
        while not out.done():
            if written == self._written:
                self._fail(f"nobody has read the output for {self._stuck_seconds:.0f} s")
                return
            written = self._written
            await asyncio.wait((out,), timeout=self._stuck_seconds)
        if why := out.result():
            self._fail(why)

    def _fail(self, why: str) -> None:
        if not self.failure.done():
            self.failure.set_result(why)

    def _write(self, descriptor: int) -> None:
        while (waiting := self._frames.get()) is not None:
            frame, out = waiting
            why = ""
            view = memoryview(frame)
            try:
                while view:
                    count = os.write(descriptor, view[:WRITE_AT_ONCE])
                    self._written += count
                    view = view[count:]
            except OSError as error:
                why = f"the output is closed ({error.strerror})"
            try:
                self._loop.call_soon_threadsafe(_settle, out, why)
            except RuntimeError:  # the loop has ended
                return


def _settle(out: asyncio.Future[str], why: str) -> None:
    if not out.done():
        out.set_result(why)
