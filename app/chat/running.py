"""Turns that are running now: found by request id for ``/v1/interrupt``, all of them for shutdown."""

from __future__ import annotations

import asyncio
from enum import StrEnum

from app.errors import VcpError
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
    """The handle of one turn: its ids, its task and, once stopped, the reason."""

    def __init__(self, request_ids: frozenset[str], task: asyncio.Task[None], mute: Mute) -> None:
        self.request_ids = request_ids
        self.task = task
        self.mute = mute
        self.reason: StopReason | None = None

    def stop(self, reason: StopReason) -> None:
        """Cancel the turn; only the first reason counts, so that clean-up is not cancelled a second time."""
        if self.reason is not None or self.task.done():
            return
        self.reason = reason
        if reason is StopReason.INTERRUPT:
            self.mute.muted = True
        self.task.cancel()


class RunningTurns:
    """All running turns; the same request id may belong to several (D28)."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._turns: set[RunningTurn] = set()

    def __len__(self) -> int:
        return len(self._turns)

    def admit(self) -> None:
        """Raise ``TooManyTurnsError`` when no further turn may start."""
        if len(self._turns) >= self._limit:
            raise TooManyTurnsError(
                f"{self._limit} chat requests are running already (MaxRunningTurns); try again when one has ended"
            )

    def add(self, turn: RunningTurn) -> None:
        """Register the turn until its task ends."""
        self._turns.add(turn)
        turn.task.add_done_callback(lambda _task: self._turns.discard(turn))

    def interrupt(self, request_id: str) -> bool:
        """Stop every running turn with this id; False when there is none."""
        found = [turn for turn in self._turns if request_id in turn.request_ids]
        for turn in found:
            turn.stop(StopReason.INTERRUPT)
        return bool(found)

    async def stop_all(self, grace: float) -> None:
        """Give running turns ``grace`` seconds to end, then cancel them and wait for their clean-up."""
        tasks = [turn.task for turn in self._turns]
        if not tasks:
            return
        await asyncio.wait(tasks, timeout=grace)
        for turn in tuple(self._turns):
            turn.stop(StopReason.SHUTDOWN)
        await asyncio.gather(*tasks, return_exceptions=True)
