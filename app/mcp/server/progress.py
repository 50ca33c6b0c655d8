"""What a client is told while its call runs: progress and log lines, never more than it asked for (MCP-12, MCP-14)."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp_types import LoggingMessageNotification, LoggingMessageNotificationParams

from app.protocol.half_characters import whole

log = logging.getLogger(__name__)

PROGRESS_A_SECOND = 10
"""Most progress notifications in any second of one call."""

MAX_LINES = 256
"""Most log lines that wait to be sent; further ones are dropped."""

END_SECONDS = 1.0
"""How long the response waits for what was to be told before it."""

GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)
"""What sending raises when the client is not there any more; then there is nobody to tell."""

Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class _Progress:
    done: float
    total: float | None
    message: str


class Teller:
    """Tells the client of one call; all methods return at once but ``end``, and belong to the event loop.

    Of progress only what is more than before is told, and only the newest when the client is slow. A call that is
    parked tells nobody: then lines wait for the next ``attach``, progress is forgotten. ``clean`` takes out of lines
    what no client may read.
    """

    def __init__(self, clean: Callable[[Any], Any] = lambda value: value) -> None:
        self._clean = clean
        self._context: Context | None = None
        self._newest: _Progress | None = None
        self._told = -math.inf
        self._sent_at: deque[float] = deque(maxlen=PROGRESS_A_SECOND)
        self._lines: deque[LoggingMessageNotificationParams] = deque()
        self._dropped = 0
        self._progress_task: asyncio.Task[None] | None = None
        self._lines_task: asyncio.Task[None] | None = None

    def attach(self, context: Context) -> None:
        """From now on the request of this context is told."""
        self._context = context
        self._sent_at.clear()
        self._send_lines()

    def progress(self, done: float, total: float | None, message: str) -> None:
        """The call is this far."""
        if self._context is None or not math.isfinite(done) or done <= self._told:
            return
        self._told = done
        self._newest = _Progress(done, total if total is not None and math.isfinite(total) else None, whole(message))
        if self._progress_task is None or self._progress_task.done():
            self._progress_task = asyncio.create_task(self._tell_progress(self._context))

    def line(self, params: LoggingMessageNotificationParams) -> None:
        """A line for the client's log."""
        if len(self._lines) >= MAX_LINES:
            self._dropped += 1
            return
        self._lines.append(params)
        self._send_lines()

    async def end(self) -> None:
        """Nothing is told after this: the response is next, or the call is parked."""
        self._context = None
        waiting_for_its_time = len(self._sent_at) == PROGRESS_A_SECOND
        if self._progress_task is not None and waiting_for_its_time and self._newest is not None:
            self._progress_task.cancel()
        tasks = {task for task in (self._progress_task, self._lines_task) if task is not None and not task.done()}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=END_SECONDS)
            for task in late:
                task.cancel()
        self._newest = None
        if self._dropped:
            log.warning("%d log lines of a tool were dropped: its client reads too slowly", self._dropped)
            self._dropped = 0

    def _send_lines(self) -> None:
        if self._context is not None and self._lines and (self._lines_task is None or self._lines_task.done()):
            self._lines_task = asyncio.create_task(self._tell_lines(self._context))

    async def _tell_progress(self, context: Context) -> None:
        clock = asyncio.get_running_loop().time
        while self._newest is not None:
            if len(self._sent_at) == PROGRESS_A_SECOND:
                await asyncio.sleep(self._sent_at[0] + 1 - clock())
            newest, self._newest = self._newest, None
            self._sent_at.append(clock())
            with suppress(*GONE):
                await context.session.report_progress(newest.done, newest.total, newest.message or None)

    async def _tell_lines(self, context: Context) -> None:
        while self._lines:
            params = self._lines.popleft()
            told = params.model_copy(update={"data": self._clean(params.data)})
            with suppress(*GONE):
                await context.session.send_notification(
                    LoggingMessageNotification(params=told), related_request_id=context.request_id
                )
