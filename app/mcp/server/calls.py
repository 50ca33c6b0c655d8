"""Calls that run for MCP clients: from the request to the result, over the returns of clients without sessions.

A call is a task of its own. When its request is cancelled, or its client is gone, the task is cancelled and waited for,
so that its process has ended when the request has (mcp.md MCP-13). When it asks a client without a session, its request
ends with the question and the call is parked until the client comes back (MCP-30); the tool never runs twice.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY

from app.errors import BadRequestError, both
from app.extend import CallProgress, Json, ToolResult
from app.mcp.server.callers import ReturningCaller, SessionCaller
from app.mcp.server.progress import Context, Teller
from app.mcp.server.questions import Validate, read_answer

log = logging.getLogger(__name__)

MAX_PARKED = 1000
"""Most calls that wait for their clients to come back."""

END_SECONDS = 15.0
"""How long a cancelled call may take to end its work."""


@dataclass(slots=True)
class OpenCall:
    """A call that has not been answered yet. ``news`` is set when it has ended or asks something.

    ``written`` makes the answer of its result, in the revision of the request that is answered. ``state`` and ``timer``
    are those of its last parking.
    """

    id: str
    written: Callable[[Context, Any], dict[str, Json]]
    teller: Teller
    news: asyncio.Event = field(default_factory=asyncio.Event)
    caller: ReturningCaller | SessionCaller | None = None
    task: asyncio.Task[Any] | None = None
    timer: asyncio.TimerHandle | None = None
    state: str = ""

    def start(self, running: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin to run."""
        self.task = asyncio.create_task(running)
        self.task.add_done_callback(lambda _: self.news.set())
        return self.task

    def open(self) -> Mapping[str, Any]:
        """The questions that wait for an answer of a client that has to come back."""
        return self.caller.open if isinstance(self.caller, ReturningCaller) else {}


class Calls:
    """All calls of one door, of tools and of prompts.

    ``seconds`` is how long a parked one waits, asked at each use.
    """

    def __init__(self, seconds: Callable[[], float], validate: Validate) -> None:
        self._seconds = seconds
        self._validate = validate
        self._running: dict[str, OpenCall] = {}
        self._parked: dict[str, OpenCall] = {}

    @property
    def running(self) -> int:
        """Calls whose work has not ended, parked ones too."""
        return len(self._running)

    @property
    def parked(self) -> int:
        """Calls that wait for their clients."""
        return len(self._parked)

    def told(self, event: CallProgress) -> None:
        """A tool reported progress."""
        opened = self._running.get(event.call_id)
        if opened is not None:
            opened.teller.progress(event.progress, event.total, event.message)

    async def run(self, context: Context, opened: OpenCall, running: Coroutine[Any, Any, Any]) -> dict[str, Json]:
        """The answer to a new call, or what its client is asked first (``InputRequiredResult`` as JSON)."""
        self._running[opened.id] = opened
        opened.start(running).add_done_callback(lambda _: self._running.pop(opened.id, None))
        return await self._attend(context, opened)

    async def resume(self, context: Context, state: str) -> dict[str, Json]:
        """Go on with a parked call: its client is back. Raises MCPError for a state that no parked call has.

        That the state is of this very request was checked at the door (MCP-30).
        """
        opened = self._parked.pop(state, None)
        if opened is None or not isinstance(opened.caller, ReturningCaller):
            raise MCPError(INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})
        if opened.timer is not None:
            opened.timer.cancel()
        opened.caller.context = context
        self._answer(opened.caller, context, state, opened)
        return await self._attend(context, opened)

    def _answer(self, caller: ReturningCaller, context: Context, state: str, opened: OpenCall) -> None:
        given = (context.params or {}).get("inputResponses") or {}
        read = {}
        for key, asked in caller.open.items():
            if key in given:
                try:
                    read[key] = read_answer(asked.question, asked.params, given[key], self._validate)
                except BadRequestError as error:
                    self._park(opened, state)
                    raise MCPError(INVALID_PARAMS, f"{key}: {error.message}") from None
        for key, answer in read.items():
            asked = caller.open.pop(key)
            if not asked.answer.done():
                asked.answer.set_result(answer)

    async def _attend(self, context: Context, opened: OpenCall) -> dict[str, Json]:
        task = opened.task
        assert task is not None
        opened.teller.attach(context)
        try:
            while not task.done():
                if opened.open():
                    await asyncio.sleep(0)  # what asks several things at once asks them in one step
                    if opened.open() and not task.done():
                        break
                    continue  # it was withdrawn
                opened.news.clear()
                await opened.news.wait()
            asked = self._ask(opened) if not task.done() else None
            await opened.teller.end()
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):  # the SDK's scopes cancel again and again until they are left
                await self._end(opened)
            raise
        if asked is not None:
            return asked
        if task.cancelled():
            raise MCPError(INTERNAL_ERROR, both("调用已取消", "the call was cancelled"))
        missing = opened.caller.missing if isinstance(opened.caller, ReturningCaller) else None
        if missing is not None and _failed(task):
            what = both("该工具需要客户端未声明的能力", "the tool needs what the client did not say that it can do")
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, what, {"requiredCapabilities": missing})
        return opened.written(context, task.result())

    def _ask(self, opened: OpenCall) -> dict[str, Json]:
        state = secrets.token_urlsafe(24)
        if len(self._parked) >= MAX_PARKED:
            self._drop(opened)
            raise MCPError(INTERNAL_ERROR, both("等待客户端回答的调用过多", "too many calls wait for their clients"))
        self._park(opened, state)
        asked = {key: question.written for key, question in opened.open().items()}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": state}

    def _park(self, opened: OpenCall, state: str) -> None:
        self._parked[state] = opened
        opened.state = state
        loop = asyncio.get_running_loop()
        opened.timer = loop.call_later(self._seconds(), self._expire, opened, state)

    def _expire(self, opened: OpenCall, state: str) -> None:
        if self._parked.pop(state, None) is not None:
            log.info("call %s ends: its client did not come back", opened.id)
            self._drop(opened)

    def _drop(self, opened: OpenCall) -> None:
        if self._parked.get(opened.state) is opened:
            del self._parked[opened.state]
        if opened.timer is not None:
            opened.timer.cancel()
        if opened.task is not None:
            opened.task.cancel()
            opened.task.add_done_callback(_looked_at)

    async def _end(self, opened: OpenCall) -> None:
        self._drop(opened)
        await opened.teller.end()
        if opened.task is not None:
            _, late = await asyncio.wait({opened.task}, timeout=END_SECONDS)
            if late:
                log.warning("call %s did not end within %g s of being cancelled", opened.id, END_SECONDS)

    async def stop(self) -> None:
        """End all that still run."""
        opened = list(self._running.values())
        for one in (*opened, *self._parked.values()):
            self._drop(one)
        tasks = {one.task for one in opened if one.task is not None}
        if tasks:
            await asyncio.wait(tasks, timeout=END_SECONDS)


def _failed(task: asyncio.Task[Any]) -> bool:
    """Whether the call came to nothing."""
    if task.exception() is not None:
        return True
    result = task.result()
    return isinstance(result, ToolResult) and not result.ok


def _looked_at(task: asyncio.Task[Any]) -> None:
    """An error of a call that nobody waits for any more is known, not swallowed: whoever ran it has told it."""
    if not task.cancelled():
        task.exception()
