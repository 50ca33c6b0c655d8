"""The runs of the tool socket that are going on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.errors import both
from app.extend import Json, ToolResult
from app.hub.clients import Client
from app.protocol.tool_socket import ErrorCode, ToolSocketError


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How many runs may be going on, and how many bytes of arguments they may hold together."""

    runs: int = 4096
    runs_of_caller: int = 256
    runs_of_owner: int = 1024
    argument_bytes: int = 256 * 1024 * 1024


@dataclass(slots=True, eq=False)
class Run:
    """One call between its announcement and its end.

    ``caller`` is the tool client that asked, or None when the call came from another door; such a run is told to the
    owner alone (D65). ``arguments`` are as they are told, ``size`` is theirs in bytes. ``owner`` is the tool client
    that does the work, None for the server itself or as long as it is not known. ``answer`` is there once the owner
    has been asked, ``task`` is what works for a ``caller``. ``depth`` is that of the call (``CallContext``).
    """

    execution_id: str
    tool: str
    caller: Client | None
    size: int
    arguments: Mapping[str, Json]
    owner: Client | None = None
    depth: int = 0
    answer: asyncio.Future[ToolResult] | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)


class Runs:
    """All live runs by their id."""

    def __init__(self, limits: RunLimits) -> None:
        self._limits = limits
        self._live: dict[str, Run] = {}
        self._callers: Counter[str] = Counter()
        self._owners: Counter[str] = Counter()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, execution_id: object) -> bool:
        return execution_id in self._live

    def get(self, execution_id: str) -> Run | None:
        """The live run of this id."""
        return self._live.get(execution_id)

    def begin(self, run: Run) -> None:
        """Count a run; raises ToolSocketError: its id is taken (INVALID_ARGUMENTS), or there are too many."""
        if run.execution_id in self._live:
            raise ToolSocketError(
                ErrorCode.INVALID_ARGUMENTS,
                both("已有使用此 executionId 的运行", "a run with this executionId is going on"),
            )
        if (
            len(self._live) >= self._limits.runs
            or (run.caller is not None and self._callers[run.caller.id] >= self._limits.runs_of_caller)
            or (run.owner is not None and self._full(run.owner))
            or self._bytes + run.size > self._limits.argument_bytes
        ):
            raise _too_many()
        self._live[run.execution_id] = run
        self._bytes += run.size
        if run.caller is not None:
            self._callers[run.caller.id] += 1
        if run.owner is not None:
            self._owners[run.owner.id] += 1

    def give(self, run: Run, owner: Client) -> None:
        """``owner`` is to do the work; raises ToolSocketError when it has too much already."""
        if self._full(owner):
            raise _too_many()
        run.owner = owner
        self._owners[owner.id] += 1

    def _full(self, owner: Client) -> bool:
        return self._owners[owner.id] >= self._limits.runs_of_owner

    def end(self, run: Run) -> bool:
        """Forget a run; False when it has ended before."""
        if self._live.get(run.execution_id) is not run:
            return False
        del self._live[run.execution_id]
        self._bytes -= run.size
        for count, client in ((self._callers, run.caller), (self._owners, run.owner)):
            if client is not None:
                count[client.id] -= 1
                if not count[client.id]:
                    del count[client.id]
        return True

    def owned_by(self, client: Client) -> tuple[Run, ...]:
        """The live runs of a client's tools, the oldest first."""
        return tuple(run for run in self._live.values() if run.owner is client)


def _too_many() -> ToolSocketError:
    return ToolSocketError(
        ErrorCode.SERVER_ERROR, both("运行过多，请稍后重试", "too many runs are going on, try again later")
    )
