"""Calls of the tools of one MCP server: in their places, in time, with what is told meanwhile (MCP-53, MCP-58, D74)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from app.errors import both
from app.extend import CallContext, CallProgress, ErrorKind, EventSink, Json, ToolCall, ToolResult
from app.mcp.client.patience import Allowance, Patience
from app.mcp.client.results import tool_result
from app.mcp.client.status import McpServerError, SessionLostError, ToolRefusedError
from app.mcp.client.upstream import Upstream

if TYPE_CHECKING:
    from app.mcp.client.connection import Connection

MAX_RUNNING = 16
"""Calls of one server at a time, where its entry does not say."""

MAX_WAITING = 1_000
PROGRESS_EVERY = 0.01
MAX_MESSAGE_CHARS = 2_000


class Calls:
    """All calls of one server."""

    def __init__(self, upstream: Upstream, events: EventSink) -> None:
        self._upstream = upstream
        self._events = events
        self._places = asyncio.Semaphore(upstream.entry.max_running or MAX_RUNNING)
        self._waiting = 0

    async def run(self, tool: str, call: ToolCall, context: CallContext, started: Callable[..., None]) -> ToolResult:
        """Run one call; never raises but when it is cancelled."""
        allowance = self._upstream.allowance(tool)
        if self._waiting >= MAX_WAITING:
            return _error(ErrorKind.QUEUE, self._said(both("等待的调用过多", "too many calls wait")))
        with self._upstream.in_use():
            self._waiting += 1
            try:
                async with asyncio.timeout(allowance.most) if self._places.locked() else nullcontext():
                    await self._places.acquire()
            except TimeoutError:
                return _error(ErrorKind.QUEUE, self._said(both("排队超时", "no place in time")))
            finally:
                self._waiting -= 1
            self._upstream.callers.append(context)
            try:
                return await self._run(tool, call, context, started, allowance)
            except ToolRefusedError as error:
                return _error(ErrorKind.PLUGIN, error.message)
            except McpServerError as error:
                return _error(ErrorKind.EXECUTION, self._said(error.message))
            finally:
                self._upstream.callers.remove(context)
                self._places.release()

    async def _run(
        self,
        tool: str,
        call: ToolCall,
        context: CallContext,
        started: Callable[..., None],
        allowance: Allowance,
    ) -> ToolResult:
        once_more = True
        while True:
            connection = await self._upstream.connected()
            sent = self._upstream.list.sent.get(tool)
            if sent is None:
                return _error(ErrorKind.UNKNOWN_TOOL, self.gone(tool))
            arguments, fault = await sent.of(call)
            if fault:
                return _error(ErrorKind.PLUGIN, fault)
            started(pid=connection.link.pid)
            try:
                return await self._ask(connection, tool, arguments, call, context, allowance)
            except SessionLostError:
                await self._upstream.forget(connection)
                if not once_more:
                    raise
                once_more = False

    async def _ask(
        self,
        connection: Connection,
        tool: str,
        arguments: Mapping[str, Json],
        call: ToolCall,
        context: CallContext,
        allowance: Allowance,
    ) -> ToolResult:
        patience = Patience(allowance, context.deadline)
        clock = asyncio.get_running_loop().time
        last = 0.0

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            nonlocal last
            patience.progress()
            now = clock()
            if now - last >= PROGRESS_EVERY or progress == total:
                last = now
                text = (message or "")[:MAX_MESSAGE_CHARS]
                self._events.publish(CallProgress(context.turn_id, call.id, progress, total, text))

        questions = connection.questions
        try:
            with questions.during(call, context) if questions is not None else nullcontext() as asked:
                async with patience.within(asked):
                    return tool_result(await connection.call_tool(tool, arguments, progressed))
        except TimeoutError:
            seconds = round(patience.spent, 1)
            told = both(f"{seconds:g} 秒内没有结果，已取消", f"gave no result in {seconds:g} s and was cancelled")
            return _error(ErrorKind.TIMEOUT, self._said(told))

    def _said(self, text: str) -> str:
        """A text about this server, with its name in front."""
        return f"MCP {self._upstream.entry.name}: {text}"

    def gone(self, tool: str) -> str:
        """Why a tool cannot be called that there was."""
        if tool in self._upstream.list.changed:
            return self._said(
                both(
                    f"工具 {tool} 已变更，须由人确认后才能使用",
                    f"tool {tool} has changed and cannot be used until a person consents",
                )
            )
        return self._said(both(f"不再提供工具 {tool}", f"there is no tool {tool} any more"))


def _error(kind: ErrorKind, message: str) -> ToolResult:
    return ToolResult(error_kind=kind, message=message)
