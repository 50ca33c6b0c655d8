"""What a transport tells of itself beside its messages: how to reach a server, and why it cannot be reached."""

from __future__ import annotations

import asyncio
import re
from typing import Protocol

from app.mcp.client.tap import Streams

LINE_CHARS = 200
"""Longest error that is told in one line."""

PROBE_SECONDS = 5.0
"""A server that is silent to ``server/discover`` for so long is asked in the old way (MCP-50)."""

_PATH = re.compile(r"(?<![\w/:.~\\])(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\'\":]+)+[/\\]([^\s/\\'\":]*)")


class Link(Protocol):
    """The way to one server, for one connection.

    ``gone`` is set when nothing can come any more; ``session_lost`` is true when the server no longer knows the session
    (MCP-58).
    """

    gone: asyncio.Event
    session_lost: bool

    @property
    def pid(self) -> int | None:
        """The process, where the server is a child of ours."""
        ...

    def streams(self) -> Streams:
        """Opens the transport."""
        ...

    def trouble(self) -> str:
        """Why nothing comes, as far as the transport knows: an exit code, an HTTP status. Empty when it knows none."""
        ...

    def details(self) -> str:
        """All that is known, for the person who runs the server; may be many lines."""
        ...

    def clean(self, text: str) -> str:
        """What the server said without the secrets of its entry."""
        ...


def one_line(text: str) -> str:
    """The first line, without the folders of paths, at most 200 characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = _PATH.sub(r"…/\1", line)
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"


def cause(error: BaseException) -> BaseException:
    """The first exception of a group that is none itself."""
    while isinstance(error, BaseExceptionGroup):
        error = next(
            (one for one in error.exceptions if not isinstance(one, asyncio.CancelledError)), error.exceptions[0]
        )
    return error
