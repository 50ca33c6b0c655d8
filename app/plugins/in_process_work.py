"""Runs the methods of in-process plugins within limits: plain ones in threads, async ones in the event loop.

Whatever a plugin does, the caller gets an answer in time. A task that goes on after it was cancelled is cut off. A
thread cannot be ended, so one that hangs is left behind: named in the log, counted, and after ``HANGING_LIMIT`` of them
the plugin is not run any more until some have ended.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from types import CodeType
from typing import Any

from app.errors import VcpError, both
from app.plugins.in_process_modules import place_of, plugin_frame
from app.plugins.loop_watch import LoopWatch, gave_up
from app.plugins.places import Limits, Place, Places

HANGING_LIMIT = 8
"""Calls of one plugin that may hang at a time."""

CALLS_LIMIT = 4096
"""Tool calls of all in-process plugins that may be under way at a time."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """Threads in all, calls that wait for one and for how many seconds, and seconds between asking work to end and
    leaving it behind.
    """

    threads: int = 16
    queued: int = 1024
    queue_seconds: float = 60.0
    stop_seconds: float = 2.0


class PluginTimeoutError(VcpError):
    """A plugin's method took longer than it may."""

    status = 504
    code = "plugin_timeout"


class PluginHangingError(VcpError):
    """Too many earlier calls of the plugin still hang."""

    status = 503
    code = "plugin_hanging"


class Workers:
    """One for all in-process plugins. ``limits`` is asked at each use."""

    def __init__(self, watch: LoopWatch, limits: Callable[[], WorkLimits]) -> None:
        self._watch = watch
        self._limits = limits
        self._used = WorkLimits()
        self._places = Places(_limits(self._used, self._used.threads))
        self._calls = Places(_limits(self._used, CALLS_LIMIT))
        self._hanging: Counter[str] = Counter()
        self._left: set[asyncio.Future[Any]] = set()

    def _limits_of_now(self) -> WorkLimits:
        limits = self._limits()
        if limits != self._used:  # settings were reloaded
            self._used = limits
            self._places.limit(_limits(limits, limits.threads))
            self._calls.limit(_limits(limits, CALLS_LIMIT))
        return limits

    def hanging(self, plugin: str) -> int:
        """How many calls of this plugin hang now."""
        return self._hanging[plugin]

    async def place(self, plugin: str, limit: int | None, deadline: float | None) -> Place:
        """Wait for one of the ``limit`` calls that the plugin allows at a time, to be released at its end.

        Raises QueueError.
        """
        self._limits_of_now()
        left = None if deadline is None else deadline - asyncio.get_running_loop().time()
        place = await self._calls.take(plugin, limit, left)
        place.started()
        return place

    async def run(self, plugin: str, method: Callable[..., Any], *arguments: Any, seconds: float, what: str) -> Any:
        """What the method returns; ``what`` names it in errors and in the log.

        Raises PluginTimeoutError after ``seconds`` (waiting for a thread is not part of them), PluginHangingError,
        QueueError, and whatever the method raises.
        """
        if self._hanging[plugin] >= HANGING_LIMIT:
            raise PluginHangingError(
                both(
                    f'插件 "{plugin}" 有 {self._hanging[plugin]} 个调用仍未结束，暂不再运行',
                    f'{self._hanging[plugin]} calls of plugin "{plugin}" still hang; it is not run until they end',
                )
            )
        if _is_async(method):
            return await self._in_loop(plugin, method(*arguments), seconds, what)
        begun = asyncio.get_running_loop().time()
        result = await self._in_thread(plugin, method, arguments, seconds, what)
        if inspect.isawaitable(result):
            left = seconds - (asyncio.get_running_loop().time() - begun)
            return await self._in_loop(plugin, result, max(left, 0.01), what)
        return result

    async def _in_loop(self, plugin: str, work: Awaitable[Any], seconds: float, what: str) -> Any:
        stepped = self._watch.stepped(plugin, work if inspect.iscoroutine(work) else _awaited(work))
        task = asyncio.get_running_loop().create_task(stepped, name=f"plugin {plugin}: {what}")
        try:
            await _ended(task, seconds)
        except asyncio.CancelledError:
            await self._end(plugin, task, what)
            raise
        if not task.done():
            await self._end(plugin, task, what)
            raise _too_long(plugin, what, seconds)
        if task.cancelled():
            raise RuntimeError(gave_up(asyncio.CancelledError()))
        return task.result()

    async def end_tasks(self, plugin: str, package: str) -> None:
        """End the tasks that the code of a private package has started and not ended itself."""
        tasks = [task for task in asyncio.all_tasks() if _runs_code_of(task, package)]
        await asyncio.gather(*(self._end(plugin, task, f"its task {task.get_name()}"[:100]) for task in tasks))

    async def _end(self, plugin: str, task: asyncio.Task[Any], what: str) -> None:
        """Cancel the task; one that goes on all the same is closed: it would keep the whole program from ending."""
        task.cancel()
        try:
            await asyncio.wait({task}, timeout=self._limits().stop_seconds)
        finally:
            if task.done():
                _seen(task)
            else:
                log.warning("plugin %s: %s does not end although it was cancelled; it is cut off", plugin, what)
                self._leave(plugin, task)
                _close(plugin, task)

    async def _in_thread(
        self, plugin: str, method: Callable[..., Any], arguments: tuple[Any, ...], seconds: float, what: str
    ) -> Any:
        limits = self._limits_of_now()
        # No plugin may hold all threads: others want to run while one waits for something slow.
        place = await self._places.take(plugin, max(1, limits.threads // 2))
        place.started()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        work = _ThreadWork(loop, future, contextvars.copy_context(), method, arguments)
        thread = threading.Thread(target=work.run, name=f"plugin {plugin}: {what}"[:100], daemon=True)
        try:
            thread.start()
            await asyncio.wait({future}, timeout=seconds)
        finally:
            place.release()
            if future.done():
                _seen(future)
            elif thread.ident is not None:
                log.warning(
                    "plugin %s: %s goes on in its thread, nobody waits for it any more%s", plugin, what, _stands(thread)
                )
                self._leave(plugin, future)
        if not future.done():
            raise _too_long(plugin, what, seconds)
        return future.result()

    def _leave(self, plugin: str, future: asyncio.Future[Any]) -> None:
        def ended(done: asyncio.Future[Any]) -> None:
            _seen(done)
            self._left.discard(done)
            self._hanging[plugin] -= 1

        self._hanging[plugin] += 1
        self._left.add(future)
        future.add_done_callback(ended)


@dataclass(frozen=True, slots=True)
class _ThreadWork:
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    context: contextvars.Context
    method: Callable[..., Any]
    arguments: tuple[Any, ...]

    def run(self) -> None:
        result, error = None, None
        try:
            result = self.context.run(self.method, *self.arguments)
        except Exception as raised:  # noqa: BLE001 - the plugin boundary: told to whoever waits
            error = raised if not isinstance(raised, StopIteration) else RuntimeError("StopIteration")
        except BaseException as raised:  # noqa: BLE001 - an exit of the program is not for a plugin to decide
            error = RuntimeError(gave_up(raised))
            error.__cause__ = raised
        with suppress(RuntimeError):  # the loop is closed: the server has ended without this thread
            self.loop.call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: Any, error: Exception | None) -> None:
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


def _limits(limits: WorkLimits, at_once: int) -> Limits:
    return Limits(running=at_once, queued=limits.queued, queue_seconds=limits.queue_seconds, starting=at_once)


def _runs_code_of(task: asyncio.Task[Any], package: str) -> bool:
    frame = getattr(task.get_coro(), "cr_frame", None)
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith(f"{package}.")


def _close(plugin: str, task: asyncio.Task[Any]) -> None:
    """End a suspended task from outside: its coroutine is closed where it stands, and what is left of it wakes up."""
    work = task.get_coro()
    try:
        if isinstance(work, Coroutine):
            work.close()
    except Exception as error:  # noqa: BLE001 - the plugin boundary: its clean-up may raise, or refuse to end even now
        log.warning("plugin %s: cutting off its work raised %s", plugin, type(error).__name__)
    task.cancel()


def _is_async(method: Callable[..., Any]) -> bool:
    code = getattr(method, "__code__", None)
    if isinstance(code, CodeType) and code.co_flags & inspect.CO_COROUTINE:  # as most are; asking for all takes longer
        return True
    return inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(getattr(method, "__call__", None))  # noqa: B004 - objects with an async __call__


async def _ended(task: asyncio.Task[Any], seconds: float) -> None:
    """Wait for the task's end, at most ``seconds``; what ``asyncio.wait`` does for many, at a third of the price."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def wake(_task: object = None) -> None:
        if not over.done():
            over.set_result(None)

    task.add_done_callback(wake)
    timer = loop.call_later(seconds, wake)
    try:
        await over
    finally:
        timer.cancel()
        task.remove_done_callback(wake)


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


def _too_long(plugin: str, what: str, seconds: float) -> PluginTimeoutError:
    return PluginTimeoutError(
        both(
            f'插件 "{plugin}" 的 {what} 超过了 {seconds:g} 秒',
            f'{what} of plugin "{plugin}" took longer than {seconds:g} s',
        )
    )


def _seen(future: asyncio.Future[Any]) -> None:
    """Nobody will ask for its error any more; asyncio must not complain about that."""
    if not future.cancelled():
        future.exception()


def _stands(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    inside = plugin_frame(frame) or frame
    return f"; it stands at {place_of(inside)}" if inside is not None else ""
