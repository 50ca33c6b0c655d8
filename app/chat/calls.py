"""The tool calls of one round: found while the model writes, run in parallel, told in call order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.chat.background import BackgroundTasks
from app.errors import both
from app.extend import (
    CallContext,
    CallFinished,
    CallFormat,
    CallFound,
    CallOutcome,
    CallTool,
    Clock,
    ErrorKind,
    EventSink,
    FoundCall,
    Json,
    NativeIntake,
    Outcome,
    ToolCall,
    ToolResult,
    ToolSpec,
)

log = logging.getLogger(__name__)

SETTLE_SECONDS = 15.0
"""How long the end of a turn waits for cancelled calls; a process has two seconds to end (D27) before it is killed."""


_CANCELLED = ToolResult(error_kind=ErrorKind.CANCELLED, message=both("调用已取消", "the call was cancelled"))


_UNFIT = ToolResult(
    error_kind=ErrorKind.EXECUTION,
    message=both("参数有误，调用未执行", "the arguments are wrong; the call was not run"),
)


@dataclass(frozen=True, slots=True)
class CallRules:
    """How the calls of a round are treated."""

    run: bool = True
    eager: bool = True
    limit: int = 256


class RoundCalls:
    """Runs the calls that a format finds in one round's reply.

    A call starts when its block closes, if that is allowed, else with ``start_all`` when the round has ended. Results
    never raise: each call ends in an outcome. ``rules.run`` is false in a round whose calls would not be run (D24).
    Every call that was found and not skipped has one ``CallFinished``: the router's, or one from here when the call
    never got to it.
    """

    def __init__(
        self,
        call_tool: CallTool,
        find_spec: Callable[[str], ToolSpec | None],
        events: EventSink,
        background: BackgroundTasks,
        context: CallContext,
        rules: CallRules,
        call_format: CallFormat,
        clock: Clock,
    ) -> None:
        self._call_tool = call_tool
        self._find_spec = find_spec
        self._events = events
        self._background = background
        self._context = context
        self._rules = rules
        self._format = call_format
        self._clock = clock
        self._calls: list[ToolCall] = []
        self._waiting: list[ToolCall] = []
        self._archery_count = 0
        self._tasks: set[asyncio.Task[ToolResult]] = set()
        self._begun: set[str] = set()
        self._outcomes: dict[str, CallOutcome] = {}
        self._finished: deque[CallOutcome] = deque()
        self._progress = asyncio.Event()
        self.skipped = 0

    @property
    def found(self) -> int:
        """Calls of this round that are meant to be run, archery included."""
        return len(self._calls) + self._archery_count

    @property
    def native(self) -> NativeIntake | None:
        """What takes our function calls out of the reply, if any were offered."""
        return self._format.native

    @property
    def normal(self) -> Sequence[ToolCall]:
        """Calls whose results go back to the model, in the order they were written."""
        return self._calls

    def feed(self, delta: Mapping[str, Json]) -> None:
        """Take the next piece of the reply's first choice."""
        for found in self._format.feed(delta):
            self._take(found)

    def finish(self) -> None:
        """The reply has ended."""
        for found in self._format.finish():
            self._take(found)

    def _take(self, found: FoundCall) -> None:
        call = found.call
        over = self._rules.run and self.found >= self._rules.limit
        why = found.skipped_why or ("call limit" if over else "" if self._rules.run else "round limit")
        self._events.publish(CallFound(self._context.turn_id, call.id, call.tool, why))
        if found.skipped_why:
            return
        if not self._rules.run:
            self.skipped += 1
            return
        if over and call.archery:
            return
        if call.archery:
            self._archery_count += 1
        else:
            self._calls.append(call)
        if over:
            self._ended(call, ToolResult(error_kind=ErrorKind.LIMIT, message=_over_limit(self._rules.limit)))
            return
        if found.refused is not None:
            self._never_ran(call, _UNFIT)  # what the model reads may quote arguments, which are never logged
            self._ended(call, found.refused)
            return
        spec = self._find_spec(call.tool)
        if self._rules.eager and (spec is None or spec.eager):
            self._start(call, eager=True)
        else:
            self._waiting.append(call)

    def start_all(self) -> None:
        """Start what was not started while the model wrote."""
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._start(call, eager=False)

    def _start(self, call: ToolCall, *, eager: bool) -> None:
        context = replace(self._context, eager=eager)
        if call.archery:
            if not self._background.start(self._shoot(call, context), f"archery {call.tool}"):
                self._never_ran(
                    call,
                    ToolResult(error_kind=ErrorKind.QUEUE, message=both("后台任务太多", "too many background tasks")),
                )
            return
        task = asyncio.create_task(self._run(call, context), name=f"call {call.tool}")
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._task_ended(call, task))

    async def _run(self, call: ToolCall, context: CallContext) -> ToolResult:
        self._begun.add(call.id)
        return await self._call_tool(call, context)

    async def _shoot(self, call: ToolCall, context: CallContext) -> None:
        self._ended(call, await self._call_tool(call, context))

    def _task_ended(self, call: ToolCall, task: asyncio.Task[ToolResult]) -> None:
        """However a task ended, the call has an outcome: the turn waits for it."""
        if task.cancelled():
            result = _CANCELLED
            if call.id not in self._begun:  # cancelled before its first step: the router knows nothing of it
                self._never_ran(call, result)
        elif (error := task.exception()) is not None:
            log.error("call %s of %s failed", call.id, call.tool, exc_info=error)
            result = ToolResult(error_kind=ErrorKind.EXECUTION, message=f"{type(error).__name__}: {error}")
        else:
            result = task.result()
        self._ended(call, result)

    def _never_ran(self, call: ToolCall, result: ToolResult) -> None:
        outcome = Outcome.CANCELLED if result is _CANCELLED else Outcome.ERROR
        spec = self._find_spec(call.tool)
        self._events.publish(
            CallFinished(self._context.turn_id, call, self._context, spec, outcome, result, waited=0.0, ran=0.0)
        )

    def _drop_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._never_ran(call, _CANCELLED)

    def _ended(self, call: ToolCall, result: ToolResult) -> None:
        outcome = CallOutcome(call, result, self._clock())
        if not outcome.call.archery:
            self._outcomes[outcome.call.id] = outcome
        self._finished.append(outcome)
        self._progress.set()

    async def next_finished(self) -> CallOutcome | None:
        """The next outcome in completion order; None when every normal call has ended and been given out.

        Archery calls that happen to end in time are given out too (spec 4.4 step 3); none is waited for.
        """
        while True:
            if self._finished:
                return self._finished.popleft()
            if len(self._outcomes) >= len(self._calls):
                return None
            self._progress.clear()
            await self._progress.wait()

    def outcomes(self) -> list[CallOutcome]:
        """All outcomes of normal calls in call order; only after ``next_finished`` gave None."""
        return [self._outcomes[call.id] for call in self._calls]

    def cancel(self) -> None:
        """Ask running normal calls to stop; archery calls go on (D27)."""
        self._drop_waiting()
        for task in self._tasks:
            task.cancel()

    async def settled(self) -> None:
        """Wait until every normal call has ended, cancelled ones with their processes.

        A tool that does not let itself be cancelled is waited for ``SETTLE_SECONDS`` and then left behind.
        """
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=SETTLE_SECONDS)
            for task in late:
                log.error("%s does not end although it was cancelled", task.get_name())
                self._background.adopt(task)

    def release(self) -> None:
        """Let running calls go on without the turn (``CancelToolsOnDisconnect=false``)."""
        self._drop_waiting()
        for task in self._tasks:
            if not task.done():
                self._background.adopt(task)
        self._tasks.clear()


def _over_limit(limit: int) -> str:
    return both(
        f"错误：本轮工具调用超过上限 {limit} 个，此调用未执行。",
        f"not run: one reply may call at most {limit} tools (MaxToolCallsPerRound)",
    )
