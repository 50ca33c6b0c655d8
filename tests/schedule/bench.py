"""A schedule over a folder, with a clock and tools that the test holds in its hand."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from app.extend import CallContext, ErrorKind, Event, TaskFinished, ToolCall, ToolResult, ToolSpec
from app.observe.bus import EventBus
from app.schedule.folder import TaskFolder
from app.schedule.intake import Intake
from app.schedule.runner import Pace, ScheduleRunner
from app.schedule.timely import TimelyContactGuard
from app.schedule.times import local_time
from app.services.stopping import Stopping
from app.tools.router import Router
from tests.fixed_tools import FixedTools
from tests.waiting import until

ZONE = ZoneInfo("Asia/Shanghai")
NOW = 1_767_571_200.0
"""2026-01-05 08:00:00 in Shanghai."""

QUICK = Pace(tick=0.01, rescan=0.05, poll=0.05, rest=0.005, settle=0.02, retry=0.05, prune=0.05)


class Tools(FixedTools):
    """Tools that note their calls; ``Hang`` waits for its gate, ``Refuse`` says no, ``Safe`` may run twice."""

    def __init__(self) -> None:
        named = [ToolSpec(name, "test", name) for name in ("Echo", "Hang", "Refuse", "AgentAssistant")]
        super().__init__(*named, ToolSpec("Safe", "test", "Safe", idempotent=True))
        self.calls: list[ToolCall] = []
        self.contexts: list[CallContext] = []
        self.gate = asyncio.Event()
        self.running = 0
        self.most = 0

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        started()
        self.calls.append(call)
        self.contexts.append(context)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if spec.name in ("Hang", "Safe") and not call.arguments.get("quick"):
                await self.gate.wait()
            if spec.name == "Refuse":
                return ToolResult(error_kind=ErrorKind.PLUGIN, message="不 / no")
            return ToolResult(structured={"said": call.arguments.get("text")})
        finally:
            self.running -= 1

    @property
    def texts(self) -> list[Any]:
        return [call.arguments.get("text") for call in self.calls]


class Bench:
    """One home; ``now`` is what the clock says."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.now = NOW
        self.tools = Tools()
        self.events: list[Event] = []
        bus = EventBus()
        bus.listen(self.events.append)
        self.bus = bus
        self.folder = TaskFolder(home)
        self.limit = 100
        self.at_once = 8
        self.keep_days = 30.0
        self.grace = 0.0
        self.pace = QUICK
        self._ids = itertools.count(1)
        self.intake = Intake(self.folder, zone=lambda: ZONE, limit=lambda: self.limit, told=self._told)
        self.runner: ScheduleRunner | None = None
        guard = TimelyContactGuard(
            self.intake, clock=lambda: self.now, zone=lambda: ZONE, new_uuid=lambda: f"uuid{next(self._ids)}"
        )
        self.router = Router((self.tools,), (guard,), bus)

    def _told(self) -> None:
        if self.runner is not None:
            self.runner.look_again()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ScheduleRunner]:
        """A schedule that is running; each one is a server's life."""
        self.runner = ScheduleRunner(
            self.folder,
            self.router.call,
            self.router.find_spec,
            self.bus,
            clock=lambda: self.now,
            zone=lambda: ZONE,
            new_id=lambda: f"task-{next(self._ids)}",
            limit=lambda: self.at_once,
            keep_days=lambda: self.keep_days,
            grace=Stopping(lambda: self.grace).wait,
            pace=self.pace,
        )
        try:
            await self.runner.start()
            yield self.runner
        finally:
            await self.runner.stop()
            self.runner = None

    def task(self, name: str, due: float, tool: str = "Echo", /, *, folder: str = "", **arguments: Any) -> Path:
        """Drop a task file into the folder, whole; the text that it tells its tool is its name."""
        fields = {
            "taskId": name,
            "scheduledLocalTime": local_time(due, ZONE),
            "tool_call": {"tool_name": tool, "arguments": {"text": name, **arguments}},
            "requestor": "test",
        }
        return self.drop(name, json.dumps(fields), folder=folder)

    def drop(self, name: str, content: str | bytes, *, folder: str = "") -> Path:
        """Put a file into the folder at one stroke."""
        data = content.encode() if isinstance(content, str) else content
        path = self.home / "VCPTimedContacts" / folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part")
        temporary.write_bytes(data)
        os.replace(temporary, path)  # noqa: PTH105 - what other programs do
        return path

    def files(self) -> dict[str, Any]:
        """Every JSON file by its path under the home."""
        return {
            path.relative_to(self.home).as_posix(): json.loads(path.read_bytes())
            for path in sorted(self.home.rglob("*.json"))
        }

    def finished(self) -> list[TaskFinished]:
        return [event for event in self.events if isinstance(event, TaskFinished)]


async def looks(runner: ScheduleRunner, count: int = 2) -> None:
    """Wait until the schedule has looked into its folder ``count`` times more."""
    for _ in range(count):
        before = runner.looked_at
        runner.look_again()
        await until(lambda before=before: runner.looked_at > before)
