"""Asking a person on the terminal, in a program that does other things meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading

MAX_LINE_BYTES = 64 * 1024
_AT_ONCE = 4096


class TerminalLines:
    """The lines of standard input. Waiting for one can be cancelled; what was read by then is kept for the next.

    A thread reads, for no event loop knows all kinds of terminals. It reads the descriptor, because one that hangs in
    Python's own reader would disturb the end of the program.
    """

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._terminal = sys.stdin.isatty()
        self._begun = False

    async def next(self) -> str | None:
        """The next line without its end, cut to ``MAX_LINE_BYTES``; None when there will be none."""
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._read, args=(sys.stdin.fileno(),), daemon=True).start()
        line = await self._lines.get()
        if line is None:
            self._lines.put_nowait(None)
        return line

    def forget(self) -> None:
        """Drop what a person has typed before he was asked; what a file or pipe holds is kept."""
        while self._terminal and not self._lines.empty():
            if self._lines.get_nowait() is None:
                self._lines.put_nowait(None)
                return

    def _read(self, descriptor: int) -> None:
        rest = b""
        while True:
            try:
                data = os.read(descriptor, _AT_ONCE)
            except OSError:  # the terminal is gone
                data = b""
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[:MAX_LINE_BYTES]
            for line in lines:
                self._tell(line)
            if not data:
                if rest:
                    self._tell(rest)
                self._tell(None)
                return

    def _tell(self, line: bytes | None) -> None:
        text = None if line is None else line.decode(sys.stdin.encoding or "utf-8", "replace").rstrip("\r")
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody wants to know
            self._loop.call_soon_threadsafe(self._lines.put_nowait, text)


def visible(text: str) -> str:
    """``text`` for a terminal: what could move the cursor, hide or turn round what follows is written as an escape."""
    return "".join(
        mark if mark == "\n" or mark.isprintable() else mark.encode("unicode_escape").decode("ascii") for mark in text
    )
