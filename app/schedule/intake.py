"""Where calls that are put off come in: limits, and a file on the disk before anybody is told (spec 1.9, 7.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import tzinfo

from app.config.disk_work import ended
from app.errors import TaskRefusedError, both
from app.schedule.folder import TaskFolder
from app.schedule.task import MAX_TASK_BYTES, Task, task_bytes


class Intake:
    """Stores tasks. It needs no running schedule: the process that owns the home finds the files (D88).

    ``limit`` is the most tasks that may wait, ``told`` is called after each stored one.
    """

    def __init__(
        self,
        folder: TaskFolder,
        *,
        zone: Callable[[], tzinfo],
        limit: Callable[[], int],
        told: Callable[[], None],
    ) -> None:
        self._folder = folder
        self._zone = zone
        self._limit = limit
        self._told = told
        self._one_by_one = asyncio.Lock()

    async def take(self, task: Task) -> None:
        """Store the task; when this returns it is on the disk and survives a crash.

        The very same task a second time changes nothing, so a client may ask again. Who is cancelled meanwhile has
        scheduled nothing. Raises TaskRefusedError; OSError when it cannot be written; ValueError when its arguments
        are no JSON.
        """
        async with self._one_by_one:
            storing = asyncio.ensure_future(asyncio.to_thread(self._store, task, self._zone(), self._limit()))
            try:
                await asyncio.shield(storing)
            except asyncio.CancelledError:
                await ended(storing)
                if storing.exception() is None and storing.result():
                    taking_back = asyncio.ensure_future(asyncio.to_thread(self._folder.remove, task.id))
                    await ended(taking_back)
                    taking_back.result()
                raise
        self._told()

    def _store(self, task: Task, zone: tzinfo, limit: int) -> bool:
        """False when the very same task waits already."""
        data = task_bytes(task, zone)
        if len(data) > MAX_TASK_BYTES:
            raise TaskRefusedError(
                both(
                    f"任务超过上限 {MAX_TASK_BYTES} 字节，没有安排",
                    f"the task is larger than {MAX_TASK_BYTES} bytes; it was not scheduled",
                )
            )
        waiting = len(self._folder.names())
        if waiting >= limit and not self._folder.waits(task.id):
            raise TaskRefusedError(
                both(
                    f"已有 {waiting} 个任务在等待，达到上限 {limit}（ScheduleMaxPending），没有安排",
                    f"{waiting} tasks are waiting and at most {limit} may (ScheduleMaxPending); it was not scheduled",
                )
            )
        if self._folder.create(task.id, data):
            return True
        if self._same(task, zone):
            return False
        raise TaskRefusedError(
            both(
                f"已有 id 为 {task.id} 的任务在等待；请换一个 id，或先删除它的文件",
                f"a task with the id {task.id} is waiting already; take another id, or remove its file first",
            )
        )

    def _same(self, task: Task, zone: tzinfo) -> bool:
        try:
            there = self._folder.read(task.id, zone)
        except (OSError, ValueError):
            return False
        return (there.due, there.tool, there.arguments) == (task.due, task.tool, task.arguments)
