"""Calls that the main server asks for: taken, run by this home's router, answered once each (spec 6.4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import VcpError, both
from app.extend import CallContext, CallTool, Door, Json, ToolCall, ToolResult
from app.hub.clients import MAX_VALUES, encoded, has_too_many_values
from app.node.line import Line
from app.node.offer import FILE_TOOL
from app.protocol.markers import RESULT_PLAIN_OUTPUT

log = logging.getLogger(__name__)

MAX_ID_CHARS = 256
MAX_NAME_CHARS = 256
MAX_DEPTH = 1000
FILES = 2
"""Requests for files answered at a time, from the reading to the sending; each answer may be as long as a message."""

Answer = Callable[[Mapping[str, Json]], Awaitable[Mapping[str, Json]]]
"""Answers a request for a file with a result; raises VcpError."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """What may be asked for at a time: ``calls`` running or waiting, ``bytes`` of their messages together.

    ``message_bytes`` is the longest answer. ``password`` says that calls carry the hourly code.
    """

    calls: int
    bytes: int
    message_bytes: int
    password: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is not begun; without a ``request_id`` nobody can be told."""

    request_id: str
    chinese: str
    english: str


class Calls:
    """All calls of the main server that run. Each is answered on the line on which it came, or not at all.

    ``offered`` tells whether a tool is one that the main server may call; ``read_file`` answers requests for files.
    """

    def __init__(
        self,
        call_tool: CallTool,
        offered: Callable[[str], bool],
        read_file: Answer,
        limits: Callable[[], CallLimits],
        new_id: Callable[[str], str],
    ) -> None:
        self._call_tool = call_tool
        self._offered = offered
        self._read_file = read_file
        self._limits = limits
        self._new_id = new_id
        self._running: dict[tuple[int, str], asyncio.Task[None]] = {}
        self._bytes = 0
        self._closed = False
        self._files = asyncio.Semaphore(FILES)

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """The calls that run."""
        return tuple(self._running.values())

    async def take(self, line: Line, data: Json, size: int) -> str:
        """Begin what a message ``execute_tool`` of ``size`` bytes asks for; returns what is wrong with it, if anything.

        What cannot be begun is answered at once.
        """
        refusal = self.begin(line, data, size)
        if refusal is None:
            return ""
        if refusal.request_id:
            await line.send(_error(refusal.request_id, both(refusal.chinese, refusal.english)))
            return f"a call is refused: {refusal.english}"
        return refusal.english

    def begin(self, line: Line, data: Json, size: int) -> Refusal | None:
        """Begin a call as :meth:`take` does, or say why not; then nothing has happened."""
        fields = data if isinstance(data, dict) else {}
        request_id = fields.get("requestId")
        if not isinstance(request_id, str) or not 0 < len(request_id) <= MAX_ID_CHARS:
            return Refusal("", "", "execute_tool without a usable requestId; nobody can be answered")
        key = (id(line), request_id)
        if key in self._running:
            return Refusal("", "", "execute_tool with the requestId of a call that still runs; left alone")
        tool, arguments = fields.get("toolName"), fields.get("toolArgs")
        if not isinstance(tool, str) or not 0 < len(tool) <= MAX_NAME_CHARS:
            return Refusal(request_id, "toolName 缺失或无效", "toolName is missing or no name")
        if not isinstance(arguments, dict | None):
            return Refusal(request_id, "toolArgs 必须是对象", "toolArgs has to be an object")
        if tool != FILE_TOOL and not self._offered(tool):
            return Refusal(request_id, f"此节点没有工具 {tool!r}", f"this node has no tool {tool!r}")
        if self._closed:
            return Refusal(request_id, "节点正在关闭", "the node is stopping")
        limits = self._limits()
        if len(self._running) >= limits.calls or (self._running and self._bytes + size > limits.bytes):
            return Refusal(request_id, "节点过忙，请稍后重试", "the node has too many calls already, try again later")
        work = self._run(line, request_id, tool, dict(arguments or {}), fields.get("_vcpContext"), limits)
        if tool == FILE_TOOL:
            work = self._in_turn(work)
        self._bytes += size
        task = self._running[key] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._forget(key, size))
        return None

    def cancel(self, line: Line, data: Json) -> str:
        """Cancel the call that a message ``cancel_tool`` names; returns what is wrong with the message, if anything.

        One that is over, or never was, is no fault: answer and wish to cancel may have passed each other.
        """
        request_id = data.get("requestId") if isinstance(data, dict) else None
        if not isinstance(request_id, str):
            return "cancel_tool without a requestId"
        if (task := self._running.get((id(line), request_id))) is not None:
            log.info("the main server cancels a call")
            task.cancel()
        return ""

    def close(self) -> None:
        """Take no more calls."""
        self._closed = True

    async def stop(self, seconds: float) -> None:
        """Cancel all calls and wait until each has ended its processes, at most so many seconds."""
        self._closed = True
        tasks = self.tasks
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _forget(self, key: tuple[int, str], size: int) -> None:
        self._bytes -= size
        del self._running[key]

    async def _in_turn(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            async with self._files:
                await work
        finally:
            work.close()  # it has not begun when the wait for its turn was cancelled

    async def _run(
        self,
        line: Line,
        request_id: str,
        tool: str,
        arguments: dict[str, Json],
        context: Json,
        limits: CallLimits,
    ) -> None:
        cancelled = False
        try:
            if tool == FILE_TOOL:
                message = await self._file(request_id, arguments)
            else:
                message = await self._tool(request_id, tool, arguments, context, limits.password)
        except asyncio.CancelledError:
            cancelled = True
            message = _error(request_id, both("调用已取消", "the call was cancelled"))
        except Exception:  # the boundary to another program: it gets an answer, whatever it provoked in here
            log.exception("a call of %s failed inside the node", tool)
            message = _error(request_id, both("节点内部错误，详见节点日志", "the node failed, see its log"))
        data = encoded(message)
        limit = limits.message_bytes
        if len(data) > limit:
            text = both(
                f"结果为 {len(data)} 字节，超过单条消息上限 {limit}（NodeMaxFrameMB）",
                f"the result has {len(data)} bytes, more than the {limit} of one message (NodeMaxFrameMB)",
            )
            data = encoded(_error(request_id, text))
        elif has_too_many_values(data):  # the main server would not read it
            text = both(f"结果中的值超过 {MAX_VALUES} 个", f"the result has more than {MAX_VALUES} values")
            data = encoded(_error(request_id, text))
        if not await line.send(data):
            log.warning("the result of a call of %s is dropped: the line on which it was asked for is gone", tool)
        if cancelled:
            raise asyncio.CancelledError

    async def _tool(
        self, request_id: str, tool: str, arguments: dict[str, Json], context: Json, with_password: bool
    ) -> Mapping[str, Json]:
        arguments.pop("_vcpContext", None)  # what the main server knows of the call is no argument of the tool's
        password = arguments.pop("tool_password", None) if with_password else None
        maid = arguments.get("maid")
        call = ToolCall(
            id=self._new_id("call"),
            tool=tool,
            arguments=arguments,
            texts={name: value for name, value in arguments.items() if isinstance(value, str)},
            password=password if isinstance(password, str) else None,
            maid=maid if isinstance(maid, str) and maid else None,
        )
        result = await self._call_tool(call, CallContext(turn_id=call.id, door=Door.NODE, depth=_depth(context)))
        if not result.ok:
            return _error(request_id, result.message)
        return _success(request_id, result_value(result))

    async def _file(self, request_id: str, arguments: Mapping[str, Json]) -> Mapping[str, Json]:
        try:
            return _success(request_id, await self._read_file(arguments))
        except VcpError as error:
            return _error(request_id, error.message)


def result_value(result: ToolResult) -> Json:
    """The result as the main server expects it: an object or a list, other values in an object (spec 4.6).

    ``MaidName`` and ``timestamp`` are put in there, not here.
    """
    value = result.structured
    if isinstance(value, Mapping):
        return dict(value)
    return value if isinstance(value, list) else {RESULT_PLAIN_OUTPUT: value}


def _depth(context: Json) -> int:
    """How deep the call stands, where the main server tells it in ``_vcpContext.depth``."""
    depth = context.get("depth") if isinstance(context, dict) else None
    return depth if isinstance(depth, int) and not isinstance(depth, bool) and 0 <= depth <= MAX_DEPTH else 0


def _success(request_id: str, result: Json) -> Mapping[str, Json]:
    return {"type": "tool_result", "data": {"requestId": request_id, "status": "success", "result": result}}


def _error(request_id: str, text: str) -> Mapping[str, Json]:
    return {"type": "tool_result", "data": {"requestId": request_id, "status": "error", "error": text}}
