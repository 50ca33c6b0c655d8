"""The schedule itself: finds tasks, waits for their time, claims each before it runs, and keeps what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from typing import Any

from app.config.disk_work import on_disk
from app.errors import both
from app.extend import (
    CallContext,
    CallTool,
    Clock,
    Door,
    EventSink,
    Json,
    TaskFinished,
    TaskScheduled,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from app.protocol.timestamps import iso_millis
from app.schedule.call import call_of
from app.schedule.folder import TaskFolder
from app.schedule.task import Task
from app.schedule.times import local_time
from app.schedule.timetable import Timetable
from app.schedule.unreadable import UnreadableFiles
from app.schedule.watch import FolderWatch
from app.tools.rendering import result_object

log = logging.getLogger(__name__)

MAX_ARMED = 100_000
"""Tasks that wait in memory; more stay in their files until there is room."""

MAX_INTERRUPTED = 3
"""Runs of an idempotent task that the server did not live to finish; after the last one it has failed."""

CLEAN_UP_SECONDS = 15.0
"""How long a stop waits for calls that were cancelled."""

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between looks.

    ``tick``: at the clock while something waits, since a clock may be set; ``rescan``: at the folder although no change
    was told, ``poll`` where none are told, ``rest`` at least; ``settle``: at a file that holds no task, which may be
    half written; ``retry``: after a claim that the disk refused; ``prune``: at what is too old to keep.
    """

    tick: float = 5.0
    rescan: float = 30.0
    poll: float = 2.0
    rest: float = 0.2
    settle: float = 1.0
    retry: float = 60.0
    prune: float = 3600.0


class ScheduleRunner:
    """Runs tasks when they are due, in the one process that owns the home (D88).

    Never twice (D29): a task is renamed into ``.running/`` before it runs. Found there after a crash, or when the
    server stops in mid-run, it goes to ``failed/`` and is reported, unless its tool is idempotent. ``limit`` is the
    most that run at a time, ``keep_days`` the age at which results and failed tasks are removed; ``grace`` waits for
    running calls, as long as they may take, when the server stops. ``looked_at`` is when the folder was last read, on
    the loop's clock.
    """

    def __init__(
        self,
        folder: TaskFolder,
        call_tool: CallTool,
        find_spec: Callable[[str], ToolSpec | None],
        events: EventSink,
        *,
        clock: Clock,
        zone: Callable[[], tzinfo],
        new_id: Callable[[], str],
        limit: Callable[[], int],
        keep_days: Callable[[], float],
        grace: Callable[[Collection[asyncio.Task[Any]]], Awaitable[None]],
        pace: Pace | None = None,
    ) -> None:
        self._folder = folder
        self._call_tool = call_tool
        self._find_spec = find_spec
        self._events = events
        self._clock = clock
        self._zone = zone
        self._new_id = new_id
        self._limit = limit
        self._keep_days = keep_days
        self._grace = grace
        self._pace = pace or Pace()
        self._watch = FolderWatch(folder.waiting, self.look_again)
        self._timetable = Timetable()
        self._ready: deque[str] = deque()
        self._running: dict[str, asyncio.Task[bool]] = {}
        self._unreadable = UnreadableFiles(self._pace.settle)
        self._from_before: set[str] = set()
        self._place: tuple[int, int] | None = None
        self._wake = asyncio.Event()
        self.looked_at = -math.inf
        self._look_at = -math.inf
        self._prune_at = -math.inf
        self._loop_task: asyncio.Task[None] | None = None
        self._disk_trouble = ""
        self._stopped = ""

    async def start(self) -> None:
        """Make the folders (B29), settle what a crash left behind, and begin. Never waits for a task."""
        try:
            await on_disk(self._folder.make)
            self._from_before = set(await on_disk(self._folder.names))
        except OSError as error:
            self._in_trouble(error)
        await self._settle_claims()
        self._loop_task = asyncio.create_task(self._loop(), name="schedule")
        self._loop_task.add_done_callback(self._loop_ended)

    def health(self) -> str:
        """What keeps tasks from being found or claimed."""
        return self._stopped or self._disk_trouble

    async def stop(self) -> None:
        """Begin nothing more, give running calls their grace, then cancel them and settle what they leave."""
        if self._loop_task is None:
            return
        self._loop_task.cancel()
        await asyncio.wait((self._loop_task,))
        await self._watch.stop()
        if running := tuple(self._running.values()):
            await self._grace(running)
            late = [task for task in running if not task.done()]
            for task in late:
                task.cancel()
            if late:
                _, left = await asyncio.wait(late, timeout=CLEAN_UP_SECONDS)
                for task in left:
                    log.error("%s does not end although it was cancelled", task.get_name())
        await self._settle_claims()

    def look_again(self) -> None:
        """The folder may have changed."""
        self._look_at = min(self._look_at, self.looked_at + self._pace.rest)
        self._wake.set()

    def waiting(self) -> Mapping[str, float]:
        """The names of the tasks that wait, and when each is due; those that wait for a place to run come first."""
        return {**dict.fromkeys(self._ready, self._clock()), **self._timetable.moments()}

    def running(self) -> Collection[str]:
        """The names of the tasks that run."""
        return tuple(self._running)

    def unreadable(self) -> Mapping[str, str]:
        """Files that hold no task, by name, and what is wrong with them."""
        return self._unreadable.reasons()

    def run_now(self, name: str) -> bool:
        """Let a task that waits be due now; false when none of this name does."""
        if not self._timetable.cancel(name):
            return False
        self._timetable.add(name, self._clock())
        self._wake.set()
        return True

    def forget(self, name: str) -> None:
        """The file of a task that waited was taken away."""
        self._timetable.cancel(name)

    async def _loop(self) -> None:
        now = asyncio.get_running_loop().time
        while True:
            try:
                if now() >= self._look_at:
                    await self._look()
                if now() >= self._prune_at:
                    self._prune_at = now() + self._pace.prune
                    await on_disk(self._folder.prune, self._clock() - self._keep_days() * DAY)
            except OSError as error:
                self._look_at = now() + self._pace.poll
                self._in_trouble(error)
            self._start_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._pause(now()))):
                    await self._wake.wait()
            self._wake.clear()

    def _loop_ended(self, loop: asyncio.Task[None]) -> None:
        """A fault of ours ended the schedule: the server is unwell, and says so, until it is started anew."""
        if not loop.cancelled() and (error := loop.exception()) is not None:
            log.error("the schedule has stopped", exc_info=error)
            self._stopped = f"{both('定时任务已停止', 'the schedule has stopped')}: {type(error).__name__}"

    def _pause(self, now: float) -> float:
        pause = self._look_at - now
        due = self._timetable.next_due()
        if due is not None:
            pause = min(pause, self._pace.tick, due - self._clock())
        return pause

    async def _look(self) -> None:
        """Read the folder and bring the timetable in line with it."""
        self._look_at = math.inf  # whoever wants a look from now on wants another one
        known = self._timetable.names() | set(self._ready) | set(self._running)
        seen = await on_disk(self._folder.look, known, self._unreadable.signatures(), self._zone())
        now = asyncio.get_running_loop().time()
        self.looked_at = now
        for name, task in seen.tasks.items():
            if len(self._timetable) < MAX_ARMED and self._timetable.add(name, task.due):
                if name not in self._from_before:
                    self._events.publish(TaskScheduled(task.id, task.tool, task.due))
                self._from_before.discard(name)
        if seen.complete:
            for name in self._timetable.names() - seen.names - set(seen.tasks):
                self._timetable.cancel(name)
                log.info("task file %s is gone, its call is cancelled", name)
        unsettled = self._unreadable.note(seen, now)
        if seen.place != self._place:  # the first look, or somebody removed the folder and it was made anew
            self._place = seen.place
            await self._watch.start()
            unsettled = True  # what comes before the watch is set up is not told
        self._well()
        pace = self._pace
        wait = pace.rescan if self._watch.works else pace.poll
        if seen.more and len(self._timetable) < MAX_ARMED:
            wait = 0
        self._look_at = min(self._look_at, now + (min(wait, pace.settle) if unsettled else wait))

    def _start_due(self) -> None:
        self._ready.extend(self._timetable.due(self._clock()))
        while self._ready and len(self._running) < self._limit():
            name = self._ready.popleft()
            task = asyncio.create_task(self._carry_out(name), name=f"scheduled {name}")
            self._running[name] = task
            task.add_done_callback(partial(self._ended, name))

    def _ended(self, name: str, task: asyncio.Task[bool]) -> None:
        del self._running[name]
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            log.error("task %s: its outcome could not be kept", name, exc_info=error)
        elif task.result():
            self.look_again()
        self._wake.set()

    async def _carry_out(self, name: str) -> bool:
        """Claim the task and run it; true when a new one of its name waits already."""
        try:
            await on_disk(self._folder.claim, name)
        except FileNotFoundError:
            return False  # taken back in the last moment (S4)
        except OSError as error:
            self._in_trouble(error)
            self._timetable.add(name, self._clock() + self._pace.retry)
            return False
        try:
            task = await on_disk(self._folder.read_claim, name, self._zone())
        except (OSError, ValueError) as error:
            unreadable = Task(id=name, due=math.floor(self._clock()), tool="", arguments={})
            reason = f"{both('任务文件已无法读取', 'the task file cannot be read any more')}: {error}"
            await self._failed(name, unreadable, reason)
            return await on_disk(self._folder.waits, name)
        if not task.tool:
            reason = both(
                "任务文件没有完整的 tool_call（tool_name 和 arguments）",
                "the task file has no complete tool_call (tool_name and arguments)",
            )
            await self._failed(name, task, reason)
        else:
            await self._run(name, task)
        return await on_disk(self._folder.waits, name)

    async def _run(self, name: str, task: Task) -> None:
        call = call_of(task, self._find_spec(task.tool), self._new_id(), self._zone())
        result = await self._call_tool(call, CallContext(turn_id=call.id, door=Door.SCHEDULE))
        try:
            await self._keep(name, task, call, result)
        finally:  # whatever becomes of the file, the call was made
            error = "" if result.ok else _why(result)
            self._events.publish(TaskFinished(task.id, task.tool, task.due, result, error, call.maid))

    async def _keep(self, name: str, task: Task, call: ToolCall, result: ToolResult) -> None:
        document = self._document(task, call, result)
        if result.ok:
            await on_disk(self._end_well, name, document)
        else:
            await on_disk(self._end_badly, name, document, self._failure(_why(result)))

    def _end_well(self, name: str, document: dict[str, Json]) -> None:
        self._store_result(name, document)
        self._folder.release(name)

    def _end_badly(self, name: str, document: dict[str, Json], failure: dict[str, Json]) -> None:
        self._folder.fail(name, failure)  # first: a claim with a result beside it counts as settled
        self._store_result(name, document)

    def _store_result(self, name: str, document: dict[str, Json]) -> None:
        """Store it; a result that cannot be stored is no reason to lose sight of the task that has run."""
        try:
            try:
                self._folder.store_result(name, document)
            except ValueError as error:  # an in-process tool gave what is no JSON, or it is huge
                note = f"{both('结果无法保存', 'the result cannot be kept')}: {error}"
                self._folder.store_result(name, {**document, "result": {"note": note}})
        except OSError as error:
            log.error("the result of task %s cannot be stored: %s", name, error)

    def _document(self, task: Task, call: ToolCall, result: ToolResult) -> dict[str, Json]:
        now, zone = self._clock(), self._zone()
        return {
            "taskId": task.id,
            "tool_name": task.tool,
            "scheduledLocalTime": local_time(task.due, zone),
            "finishedLocalTime": local_time(now, zone),
            "requestor": task.requestor,
            "status": "success" if result.ok else "error",
            "result": result_object(call, result, iso_millis(now, zone)),
        }

    async def _failed(self, name: str, task: Task, reason: str) -> None:
        """No call was made, or nobody knows what came of it."""
        try:
            await on_disk(self._folder.fail, name, self._failure(reason))
        finally:
            self._events.publish(TaskFinished(task.id, task.tool, task.due, None, reason))

    def _failure(self, reason: str) -> dict[str, Json]:
        return {"reason": reason, "failedLocalTime": local_time(self._clock(), self._zone())}

    async def _settle_claims(self) -> None:
        """What is still claimed was interrupted: run again what is idempotent, report the rest as failed (D29)."""
        try:
            claims = await on_disk(self._folder.claims)
        except OSError as error:
            self._in_trouble(error)
            return
        for name in claims:
            if name in self._running:
                continue  # a call that does not let itself be cancelled
            try:
                await self._settle(name)
            except (OSError, ValueError) as error:  # it stays claimed, and so does not run
                log.error("task %s was interrupted and cannot be settled: %s", name, error)

    async def _settle(self, name: str) -> None:
        if await on_disk(self._folder.has_result, name):
            await on_disk(self._folder.release, name)  # it had ended; only its claim was left
            return
        try:
            task = await on_disk(self._folder.read_claim, name, self._zone())
        except ValueError:
            task = Task(id=name, due=math.floor(self._clock()), tool="", arguments={})
        spec = self._find_spec(task.tool) if task.tool else None
        again = spec is not None and spec.idempotent and task.interrupted < MAX_INTERRUPTED
        if again and await on_disk(self._folder.put_back, name, task.interrupted + 1):
            log.warning("task %s was interrupted in mid-run; it runs again, its tool is idempotent", name)
            return
        reason = both(
            "服务器在任务运行中途停止；任务可能已经生效，因此没有再次运行",
            "the server stopped in the middle of the run; the task may have had its effect and is not run again",
        )
        await self._failed(name, task, reason)

    def _in_trouble(self, error: OSError) -> None:
        if not self._disk_trouble:
            log.error("scheduled tasks: %s", error)
        self._disk_trouble = f"{both('定时任务目录无法使用', 'the folder of scheduled tasks cannot be used')}: {error}"

    def _well(self) -> None:
        if self._disk_trouble:
            log.info("the folder of scheduled tasks can be used again")
        self._disk_trouble = ""


def _why(result: ToolResult) -> str:
    kind = result.error_kind.value if result.error_kind is not None else ""
    return f"{kind}: {result.message}" if result.message else kind
