"""The tool calls of one round: found while the model writes, run in parallel, told in call order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.chat.background import BackgroundTasks
from app.extend import (
    CallContext,
    CallFound,
    CallOutcome,
    CallTool,
    Clock,
    ErrorKind,
    EventSink,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from app.protocol.tool_blocks import BlockScanner, ToolBlock
from app.tools.text_calls import call_from_block


@dataclass(frozen=True, slots=True)
class CallRules:
    """How the calls of a round are treated."""

    run: bool = True
    eager: bool = True
    limit: int = 256
    password_wanted: bool = False


class RoundCalls:
    """Scans the text of one round for calls and runs them.

    A call starts when its block closes, if that is allowed, else with ``start_all`` when the round has ended. Results
    never raise: each call ends in an outcome. ``rules.run`` is false in a round whose calls would not be run (D24).
    """

    def __init__(
        self,
        call_tool: CallTool,
        find_spec: Callable[[str], ToolSpec | None],
        events: EventSink,
        background: BackgroundTasks,
        context: CallContext,
        rules: CallRules,
        new_id: Callable[[], str],
        clock: Clock,
    ) -> None:
        self._call_tool = call_tool
        self._find_spec = find_spec
        self._events = events
        self._background = background
        self._context = context
        self._rules = rules
        self._new_id = new_id
        self._clock = clock
        self._scanner = BlockScanner()
        self._calls: list[ToolCall] = []
        self._waiting: list[ToolCall] = []
        self._archery_count = 0
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._outcomes: dict[str, CallOutcome] = {}
        self._finished: list[CallOutcome] = []
        self._progress = asyncio.Event()
        self.skipped = 0

    @property
    def hidden(self) -> Sequence[tuple[int, int]]:
        """Ranges of the text that are no word of the reply itself: think parts and tool blocks."""
        return self._scanner.hidden

    @property
    def found(self) -> int:
        """Calls of this round that are meant to be run, archery included."""
        return len(self._calls) + self._archery_count

    @property
    def normal(self) -> Sequence[ToolCall]:
        """Calls whose results go back to the model, in the order they were written."""
        return self._calls

    def feed(self, text: str) -> None:
        """Scan the next piece of the reply."""
        for block in self._scanner.feed(text):
            self._take(block)

    def finish(self) -> None:
        """The reply has ended."""
        for block in self._scanner.finish():
            self._take(block)

    def _take(self, block: ToolBlock) -> None:
        call = call_from_block(block, self._new_id(), password_wanted=self._rules.password_wanted)
        why = block.skipped_why or ("" if self._rules.run else "round limit")
        self._events.publish(CallFound(self._context.turn_id, call.id, call.tool, why))
        if block.skipped_why:
            return
        if not self._rules.run:
            self.skipped += 1
            return
        over = self.found >= self._rules.limit
        if call.archery:
            if over:
                return
            self._archery_count += 1
        else:
            self._calls.append(call)
            if over:
                message = (
                    f"错误：本轮工具调用超过上限 {self._rules.limit} 个，此调用未执行。"
                    f" / not run: one reply may call at most {self._rules.limit} tools (MaxToolCallsPerRound)"
                )
                self._ended(call, ToolResult(error_kind=ErrorKind.LIMIT, message=message))
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
            self._background.start(self._run(call, context), f"archery {call.tool}")
            return
        self._tasks[call.id] = asyncio.create_task(self._run(call, context), name=f"call {call.tool}")

    async def _run(self, call: ToolCall, context: CallContext) -> None:
        result = await self._call_tool(call, context)
        self._ended(call, result)

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
                return self._finished.pop(0)
            if len(self._outcomes) >= len(self._calls):
                return None
            self._progress.clear()
            await self._progress.wait()

    def outcomes(self) -> list[CallOutcome]:
        """All outcomes of normal calls in call order; only after ``next_finished`` gave None."""
        return [self._outcomes[call.id] for call in self._calls]

    def cancel(self) -> None:
        """Ask running normal calls to stop; archery calls go on (D27)."""
        self._waiting.clear()
        for task in self._tasks.values():
            task.cancel()

    async def settled(self) -> None:
        """Wait until every normal call has ended, cancelled ones with their processes."""
        if self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def release(self) -> None:
        """Let running calls go on without the turn (``CancelToolsOnDisconnect=false``)."""
        for task in self._tasks.values():
            if not task.done():
                self._background.adopt(task)
        self._tasks.clear()
