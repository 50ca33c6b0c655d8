"""Turns that are running now: found by request id for ``/v1/interrupt``, all of them for shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any

from app.errors import VcpError, both
from app.extend import Mute


class StopReason(StrEnum):
    """Why a turn is cancelled (decision D27)."""

    INTERRUPT = "interrupt"
    DISCONNECT = "disconnect"
    SHUTDOWN = "shutdown"


class TooManyTurnsError(VcpError):
    """As many turns run as ``MaxRunningTurns`` allows."""

    status = 503
    code = "too_many_turns"


class RunningTurn:
    """The handle of one turn: by which ids it is found, and how it is stopped.

    A stop cancels the turn's task, once: the clean-up that follows must not be cancelled. Only while the turn is at
    work, between ``begin`` and ``end``, is there something to cancel.
    """

    def __init__(self, request_ids: frozenset[str] = frozenset()) -> None:
        self.request_ids = request_ids
        self.mute = Mute()
        self.reason: StopReason | None = None
        self.ended = False
        self._working: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """The calling task starts to work; raises ``CancelledError`` when the turn was stopped already."""
        if self.reason is not None:
            raise asyncio.CancelledError
        self._working = asyncio.current_task()

    def end(self) -> None:
        """The answer has ended; what comes now is not to be disturbed."""
        self.ended = True

    def stop(self, reason: StopReason) -> None:
        """Stop the turn; the first reason counts."""
        if self.reason is not None or self.ended:
            return
        self.reason = reason
        if reason is StopReason.INTERRUPT:
            self.mute.muted = True
        if self._working is not None:
            self._working.cancel()


class RunningTurns:
    """All running turns; the same request id may belong to several (D28). ``limit`` gives the most there may be now."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._turns: dict[RunningTurn, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def admit(self) -> None:
        """Raise ``TooManyTurnsError`` when no further turn may start."""
        limit = self._limit()
        if len(self._turns) >= limit:
            raise TooManyTurnsError(
                both(
                    f"已有 {limit} 个对话请求在运行（MaxRunningTurns），请稍后重试",
                    f"{limit} chat requests are running already (MaxRunningTurns); try again when one has ended",
                )
            )

    def start(self, turn: RunningTurn, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run the work of a turn in a task of its own; it can be found until it has ended."""
        task = asyncio.create_task(work, name=name)
        self._turns[turn] = task
        task.add_done_callback(lambda _task: self._turns.pop(turn))
        return task

    def interrupt(self, request_id: str) -> bool:
        """Stop every running turn with this id; False when there is none."""
        found = [turn for turn in self._turns if request_id in turn.request_ids and not turn.ended]
        for turn in found:
            turn.stop(StopReason.INTERRUPT)
        return bool(found)

    async def stop_all(self, grace: float) -> None:
        """Give running turns ``grace`` seconds to end, then stop them and wait for their clean-up."""
        tasks = tuple(self._turns.values())
        if not tasks:
            return
        await asyncio.wait(tasks, timeout=grace)
        for turn in tuple(self._turns):
            turn.stop(StopReason.SHUTDOWN)
        await asyncio.wait(tasks)
