"""Asking a person on the terminal, in a program that does other things meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections import deque

MAX_LINE_BYTES = 64 * 1024
MAX_WAITING = 100
"""Lines that are read ahead."""

_AT_ONCE = 4096


class TerminalLines:
    """The lines of standard input. Waiting for one can be cancelled; what was read by then is kept for the next.

    A thread reads, for no event loop knows all kinds of terminals. It reads the descriptor, because one that hangs in
    Python's own reader would disturb the end of the program.
    """

    def __init__(self) -> None:
        self._lines: deque[str] = deque()
        self._room = threading.Semaphore(MAX_WAITING)
        self._came = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._terminal = sys.stdin.isatty()
        self._at_end = False
        threading.Thread(target=self._read, args=(sys.stdin.fileno(),), daemon=True).start()

    @property
    def ended(self) -> bool:
        """True when all lines were taken and there will be none."""
        return self._at_end and not self._lines

    async def next(self) -> str | None:
        """The next line without its end, cut to ``MAX_LINE_BYTES``; None when there will be none."""
        while not self._lines:
            if self._at_end:
                return None
            self._came.clear()
            await self._came.wait()
        return self._take()

    def forget(self) -> None:
        """Drop what a person has typed before he was asked; what a file or pipe holds is kept."""
        while self._terminal and self._lines:
            self._take()

    def _take(self) -> str:
        self._room.release()
        return self._lines.popleft()

    def _read(self, descriptor: int) -> None:
        rest = b""
        while True:
            try:
                data = os.read(descriptor, _AT_ONCE)
            except OSError:  # the terminal is gone
                data = b""
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[:MAX_LINE_BYTES]
            for line in lines if data or not rest else [*lines, rest]:
                self._room.acquire()
                self._tell(line.decode(sys.stdin.encoding or "utf-8", "replace").rstrip("\r"))
            if not data:
                self._tell(None)
                return

    def _tell(self, line: str | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody wants to know
            self._loop.call_soon_threadsafe(self._put, line)

    def _put(self, line: str | None) -> None:
        if line is None:
            self._at_end = True
        else:
            self._lines.append(line)
        self._came.set()


def printable(text: str) -> str:
    """A text from outside for one line of a terminal.

    What could end the line, move the cursor, hide or turn round what follows is written as an escape.
    """
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode("ascii") for mark in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(printable(line) for line in text.split("\n"))
