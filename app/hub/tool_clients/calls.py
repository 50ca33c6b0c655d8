"""Calls of tools over the tool socket: begun there or at another door, done by a client or by us (WS-8 - WS-14).

A run is told when it begins and when it ends, once each. Whatever ends it first, counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson

from app.errors import both
from app.extend import CallContext, CallTool, Door, ErrorKind, Json, ToolCall, ToolResult, ToolSpec
from app.hub.clients import Client
from app.hub.tool_clients.connections import Asked, ToolConnections
from app.hub.tool_clients.registry import RegisteredTool, ToolRegistry
from app.hub.tool_clients.runs import Run, RunLimits, Runs
from app.protocol import tool_socket as wire
from app.protocol.arguments import fold
from app.protocol.half_characters import whole
from app.protocol.json_text import compact_json
from app.protocol.markers import KEY_MAID, KEY_TOOL_PASSWORD
from app.protocol.tool_socket import ErrorCode, Frame, ToolSocketError

log = logging.getLogger(__name__)

MESSAGE_CHARS = 100_000
"""Longest text of a failure that is passed on."""

STOP_SECONDS = 5.0

_PASSWORD = fold(KEY_TOOL_PASSWORD)
_CANCELLED = both("运行已取消", "the run was cancelled")


@dataclass(frozen=True, slots=True)
class ToolSocketRules:
    """The settings of now; sizes in bytes of JSON. ``seconds`` is the limit of tools that have none of their own.

    While a ``password_wanted``, ``tool_password`` is taken out of the arguments (spec 4.2).
    """

    frame_bytes: int
    arguments_bytes: int
    result_bytes: int
    seconds: float
    password_wanted: bool


class ToolCalls:
    """All calls. What its frames do raises ToolSocketError, which the client is told."""

    def __init__(
        self,
        connections: ToolConnections,
        registry: ToolRegistry,
        *,
        call_tool: CallTool,
        elsewhere: Callable[[str], ToolSpec | None],
        render: Callable[[ToolCall, ToolResult], Json],
        rules: Callable[[], ToolSocketRules],
        new_id: Callable[[str], str],
        limits: RunLimits,
    ) -> None:
        self._connections = connections
        self._registry = registry
        self._call_tool = call_tool
        self._elsewhere = elsewhere
        self._render = render
        self._rules = rules
        self._new_id = new_id
        self._runs = Runs(limits)
        self._performing: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._runs)

    def owner_gone(self, client: Client) -> None:
        """All runs of its tools fail (WS-12)."""
        message = both("提供该工具的客户端已断开", "the client that has this tool is gone")
        for run in self._runs.owned_by(client):
            self._settle_failed(run, ErrorCode.TOOL_EXECUTION_FAILED, message, ErrorKind.EXECUTION)

    async def stop(self) -> None:
        """End what is still going on."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=STOP_SECONDS)

    # ------------------------------------------------------------------ what clients say

    def execute(self, client: Client, frame: Frame, asked: Asked) -> None:
        """WS-8, in its order: the frame, the announcement, the tool, its arguments."""
        data = wire.frame_data(frame)
        execution_id = wire.execution_id(data)
        name = wire.tool_name(data)
        arguments = wire.arguments(data)
        rules = self._rules()
        password = None
        if rules.password_wanted:
            password = next((value for key, value in arguments.items() if fold(key) == _PASSWORD), None)
            arguments = {key: value for key, value in arguments.items() if fold(key) != _PASSWORD}
        written = _written_arguments(arguments, rules.arguments_bytes)
        run = Run(execution_id, name, client, len(written), arguments)
        self._runs.begin(run)
        told = {"executionId": execution_id, "name": name, "args": orjson.Fragment(written)}
        self._connections.tell({"type": wire.STARTED, "data": told}, asked=asked)

        local = self._elsewhere(name)
        tool = self._registry.get(name) if local is None else None
        if tool is None and (local is None or not local.callable):
            missing = wire.no_such_tool(name)
            self._settle_failed(run, missing.code, missing.message, ErrorKind.UNKNOWN_TOOL)
            return
        if tool is not None:
            fault = tool.check.fault(arguments)
            if fault is not None:
                self._settle_failed(run, ErrorCode.INVALID_ARGUMENTS, fault, ErrorKind.PLUGIN)
                return
            try:
                self._runs.give(run, tool.owner)
            except ToolSocketError as error:
                self._settle_failed(run, ErrorCode.TOOL_EXECUTION_FAILED, error.message, ErrorKind.QUEUE)
                return
        call = ToolCall(
            id=self._new_id("call"),
            tool=name,
            arguments=arguments,
            password=password if isinstance(password, str) else None,
            maid=maid if isinstance(maid := arguments.get(KEY_MAID), str) else None,
        )
        # A client that works for a chat may call because of it, and chats and tools must not call each other forever.
        depth = max((held.depth for held in self._runs.owned_by(client)), default=0)
        context = CallContext(turn_id=call.id, door=Door.TOOL_SOCKET, client_ip=client.address, depth=depth)
        run.depth = depth
        log.info("tool client %s runs %r as %r, arguments of %d bytes", client.id, name, execution_id, len(written))
        run.task = asyncio.get_running_loop().create_task(self._perform(run, call, context), name=f"tool {call.id}")
        self._tasks.add(run.task)
        run.task.add_done_callback(self._tasks.discard)

    async def _perform(self, run: Run, call: ToolCall, context: CallContext) -> None:
        """Let the router run what a client asked for, and tell the result unless the tool's owner has done so."""
        self._performing[call.id] = run
        try:
            result = await self._call_tool(call, context)
        except asyncio.CancelledError:
            self._runs.end(run)  # the server stops: nobody is there who could be told
            raise
        finally:
            del self._performing[call.id]
        if self._runs.get(run.execution_id) is not run:
            return
        with self._connections.step():
            if not result.ok:
                unknown = result.error_kind is ErrorKind.UNKNOWN_TOOL
                code = ErrorCode.TOOL_NOT_FOUND if unknown else ErrorCode.TOOL_EXECUTION_FAILED
                self._settle_failed(run, code, result.message[:MESSAGE_CHARS], ErrorKind.PLUGIN)
                return
            self._settle_completed(run, self._render(call, result), result)

    def completed(self, client: Client, frame: Frame, asked: Asked) -> None:
        """The owner has a result (WS-10)."""
        data = wire.frame_data(frame)
        result = data.get("result")
        self._settle_completed(self._asked_of(client, data), result, ToolResult(structured=result), asked)

    def failed(self, client: Client, frame: Frame, asked: Asked) -> None:
        """The owner has none (WS-10)."""
        data = wire.frame_data(frame)
        run = self._asked_of(client, data)
        code, message = wire.owners_error(data, MESSAGE_CHARS)
        self._settle_failed(run, code, message, ErrorKind.PLUGIN, asked)

    def _asked_of(self, client: Client, data: Frame | Mapping[str, Json]) -> Run:
        """The live run that this client was asked to do (WS-10)."""
        run = self._runs.get(wire.execution_id(data))
        if run is None or run.owner is not client or run.answer is None:
            raise wire.no_such_run()
        return run

    def cancel(self, client: Client, frame: Frame, asked: Asked) -> None:
        """The caller or the owner has enough (WS-14)."""
        run = self._runs.get(wire.execution_id(wire.frame_data(frame)))
        if run is None or client not in (run.caller, run.owner):
            raise wire.no_such_run()
        self._settle_cancelled(run, asked)

    # ------------------------------------------------------------------ the end of a run, once

    def _settle_completed(self, run: Run, value: Json, result: ToolResult, asked: Asked | None = None) -> None:
        limit = self._rules().result_bytes
        written = _written(value)
        if not 0 < len(written) <= limit:
            message = both(
                f"结果嵌套过深，或大于 {limit // 1024} KiB",
                f"the result is too deep, or larger than {limit // 1024} KiB",
            )
            self._settle_failed(run, ErrorCode.TOOL_EXECUTION_FAILED, message, ErrorKind.EXECUTION, asked)
            return
        frame = wire.run_frame(wire.COMPLETED, run.execution_id, result=orjson.Fragment(written))
        log.info("run %r of %r: result of %d bytes", run.execution_id, run.tool, len(written))
        self._settle(run, frame, result, asked)

    def _settle_failed(self, run: Run, code: str, message: str, kind: ErrorKind, asked: Asked | None = None) -> None:
        log.info("run %r of %r: failed (%s)", run.execution_id, run.tool, kind.value)
        frame = wire.failed_frame(run.execution_id, str(code), whole(message))
        self._settle(run, frame, ToolResult(error_kind=kind, message=message), asked)

    def _settle_cancelled(self, run: Run, asked: Asked | None = None) -> None:
        if run.owner is not None:
            self._connections.tell(wire.run_frame(wire.CANCELLED, run.execution_id), (run.owner,))
        self._settle_failed(run, ErrorCode.TOOL_EXECUTION_FAILED, _CANCELLED, ErrorKind.CANCELLED, asked)

    def _settle(self, run: Run, frame: Frame, result: ToolResult, asked: Asked | None) -> None:
        if not self._runs.end(run):
            return
        self._connections.tell(frame, self._audience(run), asked)
        if run.answer is not None:
            if not run.answer.done():
                run.answer.set_result(result)
        elif run.task is not None and run.task is not asyncio.current_task():
            run.task.cancel()  # it waits for a guard, or our own tool works for nobody

    @staticmethod
    def _audience(run: Run) -> tuple[Client, ...] | None:
        """Runs that a tool client began are told to all, others to the owner alone (D65)."""
        if run.caller is not None:
            return None
        return () if run.owner is None else (run.owner,)

    # ------------------------------------------------------------------ what the router asks

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        """Ask the owner and wait for its answer, within the tool's time (WS-9 - WS-12)."""
        tool = self._registry.get(spec.name)
        run = self._performing.get(call.id)
        if tool is None or (run is not None and run.owner is not tool.owner):
            return ToolResult(error_kind=ErrorKind.UNKNOWN_TOOL, message=wire.no_such_tool(spec.name).message)
        if run is not None and self._runs.get(run.execution_id) is not run:
            return ToolResult(error_kind=ErrorKind.CANCELLED, message=_CANCELLED)
        loop = asyncio.get_running_loop()
        seconds = tool.seconds if tool.seconds is not None else self._rules().seconds
        if context.deadline is not None:
            seconds = min(seconds, max(0.0, context.deadline - loop.time()))
        # A run of the tool socket was announced and checked as it came; the router's names and texts are not for it.
        arguments = call.arguments if run is None else run.arguments
        try:
            written = _written_arguments(arguments, self._rules().arguments_bytes)
            with self._connections.step():
                run = run or self._begun(tool, call, context, written)
                answer: asyncio.Future[ToolResult] = loop.create_future()
                run.answer = answer
                started(node=tool.owner.id)
                fields = {"name": tool.name, "args": orjson.Fragment(written)}
                self._connections.tell(wire.run_frame(wire.EXECUTE_TOOL, run.execution_id, **fields), (tool.owner,))
        except ToolSocketError as error:
            full = error.code is ErrorCode.SERVER_ERROR
            return ToolResult(error_kind=ErrorKind.QUEUE if full else ErrorKind.PLUGIN, message=error.message)
        try:
            await asyncio.wait((answer,), timeout=seconds)
        except asyncio.CancelledError:
            with self._connections.step():
                if not answer.done():
                    self._settle_cancelled(run)
            raise
        with self._connections.step():
            if not answer.done():
                message = both(f"运行超时（{seconds:g} 秒）", f"the run timed out after {seconds:g} s")
                self._settle_failed(run, ErrorCode.TOOL_EXECUTION_FAILED, message, ErrorKind.TIMEOUT)
        return answer.result()

    def _begun(self, tool: RegisteredTool, call: ToolCall, context: CallContext, written: bytes) -> Run:
        """A run of a call from another door, told to the owner alone; raises ToolSocketError."""
        fault = tool.check.fault(call.arguments)
        if fault is not None:
            raise ToolSocketError(ErrorCode.INVALID_ARGUMENTS, fault)
        execution_id = call.id
        while execution_id in self._runs:  # a client took it; ids of ours do not repeat
            execution_id = self._new_id("run")
        run = Run(execution_id, tool.name, None, len(written), call.arguments, owner=tool.owner, depth=context.depth)
        self._runs.begin(run)
        self._connections.tell(
            wire.run_frame(wire.STARTED, execution_id, name=tool.name, args=orjson.Fragment(written)), (tool.owner,)
        )
        return run


def _written(value: Json) -> bytes:
    """A value as JSON, empty when it is none or deeper than 254 levels; halves of characters become U+FFFD."""
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        return orjson.dumps(orjson.loads(whole(compact_json(value, strict=True))))
    except (TypeError, ValueError, RecursionError):
        return b""


def _written_arguments(arguments: Mapping[str, Json], limit: int) -> bytes:
    """Arguments as JSON; INVALID_ARGUMENTS when they are too deep or too large (D62)."""
    written = _written(arguments)
    if not 0 < len(written) <= limit:
        raise ToolSocketError(
            ErrorCode.INVALID_ARGUMENTS,
            both(
                f"args 嵌套过深，或大于 {limit // 1024} KiB", f"args are too deep, or larger than {limit // 1024} KiB"
            ),
        )
    return written
