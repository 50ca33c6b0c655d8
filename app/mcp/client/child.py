"""The process of a stdio MCP server: in a group of its own, read all the time, ended whole (MCP-51)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from app.mcp.client.lines import LineCutter, Oversize

STOP_SECONDS = 2.0
"""How long a server may take after its input was closed, and again after SIGTERM."""

REAP_SECONDS = 2.0
SETTLE_SECONDS = 0.2
WAITING_BYTES = 1024 * 1024
"""So much output may wait to be read; then the pipe is left to fill."""

LINE_BYTES = 64
"""Memory that a line takes beside its text."""

STDERR_LINE = 2_000
STDERR_KEPT = 16 * 1024
"""Bytes of the last standard error that are kept for people."""

_POSIX = hasattr(os, "killpg")


class ServerChild:
    """A running server. ``said`` gets each line of its standard error, cut at 2,000 bytes.

    Make one with ``started``. ``read`` gives the lines of its standard output in order. ``pid`` is also the number of
    its group.
    """

    def __init__(self, frame_bytes: int, said: Callable[[str], None], stop_seconds: float) -> None:
        self._said = said
        self._stop_seconds = stop_seconds
        self._transport: asyncio.SubprocessTransport | None = None
        self._out = LineCutter(frame_bytes)
        self._err = LineCutter(STDERR_LINE)
        self._lines: deque[bytes | Oversize] = deque()
        self._waiting = 0
        self._paused = False
        self._discarding = False
        self._more = asyncio.Event()
        self._out_closed = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._in_closed = False
        self._ending: asyncio.Task[None] | None = None
        self.pid = 0
        self.exited = asyncio.Event()
        self.stderr = bytearray()

    @classmethod
    async def started(
        cls,
        argv: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        frame_bytes: int,
        said: Callable[[str], None],
        stop_seconds: float = STOP_SECONDS,
    ) -> ServerChild:
        """Start the process; raises OSError when it cannot be started, ValueError for texts that no process can get."""
        child = cls(frame_bytes, said, stop_seconds)
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Pipes(child),
            *argv,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
        )
        child._transport, child.pid = transport, transport.get_pid()
        return child

    @property
    def exit_code(self) -> int | None:
        """The exit code of a server that has ended; negative for a signal."""
        return self._transport.get_returncode() if self._transport is not None else None

    async def read(self) -> bytes | Oversize | None:
        """The next line of the standard output; None at its end."""
        while not self._lines:
            if self._out_closed:
                return None
            self._more.clear()
            await self._more.wait()
        line = self._lines.popleft()
        self._waiting -= _size(line)
        if self._paused and self._waiting < WAITING_BYTES // 2:
            self._pause(False)
        return line

    async def write(self, data: bytes, seconds: float) -> None:
        """Write to the standard input, waiting while it is full, at most so long.

        Raises BrokenPipeError when there is nobody to read it, TimeoutError when nobody does.
        """
        if self._in_closed or self._transport is None:
            raise BrokenPipeError
        cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0)).write(data)
        if not self._writable.is_set():
            async with asyncio.timeout(seconds):
                await self._writable.wait()
        if self._in_closed:
            raise BrokenPipeError

    async def end(self) -> None:
        """End the server and all that is in its group, and reap it; bounded, and done in full when it is cancelled."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        cancelled: asyncio.CancelledError | None = None
        while not self._ending.done():
            try:
                await asyncio.shield(self._ending)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def _end(self) -> None:
        assert self._transport is not None
        self._discarding = True  # a server that is stuck in writing could not end
        self._lines.clear()
        self._pause(False)
        stdin = self._transport.get_pipe_transport(0)
        if stdin is not None:
            stdin.close()
        if not await self._gone(self._stop_seconds):
            self._signal(signal.SIGTERM)
            if not await self._gone(self._stop_seconds):
                self._signal(_KILL)
                await self._gone(REAP_SECONDS)
        if self._group_lives():
            self._signal(signal.SIGTERM)
            for _ in range(10):
                await asyncio.sleep(SETTLE_SECONDS / 10)
                if not self._group_lives():
                    break
            else:
                self._signal(_KILL)
        self._transport.close()

    async def _gone(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.exited.wait(), seconds)
        return self.exited.is_set()

    def _signal(self, number: int) -> None:
        try:
            if _POSIX:
                os.killpg(self.pid, number)
            elif self._transport is not None and not self.exited.is_set():
                self._transport.send_signal(number)
        except (ProcessLookupError, PermissionError):
            return  # nobody is left, or only what waits to be reaped

    def _group_lives(self) -> bool:
        if not _POSIX:
            return False
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    # --- called by the pipes ---------------------------------------------------------------------------------------

    def received(self, descriptor: int, data: bytes) -> None:
        """Output came."""
        if descriptor == 2:
            self.stderr += data
            del self.stderr[:-STDERR_KEPT]
            self._tell(self._err.feed(data))
        elif not self._discarding:
            self._take(self._out.feed(data))

    def closed(self, descriptor: int) -> None:
        """A pipe is at its end."""
        if descriptor == 0:
            self._in_closed = True
            self._writable.set()
        elif descriptor == 1:
            if not self._discarding:
                self._take(self._out.end())
            self._out_closed = True
            self._more.set()
        else:
            self._tell(self._err.end())

    def ended(self) -> None:
        """The process has ended; what its helpers still write is nobody's answer."""
        self.exited.set()
        asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._no_more)

    def full(self, full: bool) -> None:
        """The standard input takes no more for now, or takes some again."""
        if full:
            self._writable.clear()
        else:
            self._writable.set()

    def _no_more(self) -> None:
        self._out_closed = self._in_closed = True
        self._more.set()
        self._writable.set()

    def _take(self, lines: list[bytes | Oversize]) -> None:
        for line in lines:
            if line:
                self._lines.append(line)
                self._waiting += _size(line)
        if lines:
            self._more.set()
        if not self._paused and self._waiting > WAITING_BYTES:
            self._pause(True)

    def _pause(self, pause: bool) -> None:
        if self._transport is None or pause == self._paused or self._out_closed:
            return
        pipe = cast(asyncio.ReadTransport, self._transport.get_pipe_transport(1))
        self._paused = pause
        if pause:
            pipe.pause_reading()
        else:
            pipe.resume_reading()

    def _tell(self, lines: list[bytes | Oversize]) -> None:
        for line in lines:
            data = line.head[:STDERR_LINE] + "…".encode() if isinstance(line, Oversize) else line
            text = data.decode("utf-8", "replace").strip()
            if text:
                self._said(text)


class _Pipes(asyncio.SubprocessProtocol):
    """What the event loop tells of the process."""

    def __init__(self, child: ServerChild) -> None:
        self._child = child

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._child.received(fd, data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._child.closed(fd)

    def process_exited(self) -> None:
        self._child.ended()

    def pause_writing(self) -> None:
        self._child.full(True)

    def resume_writing(self) -> None:
        self._child.full(False)


_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def _size(line: bytes | Oversize) -> int:
    """What a line takes in memory, about: a short one more than its text."""
    return LINE_BYTES + (len(line) if isinstance(line, bytes) else 2 * len(line.head))
