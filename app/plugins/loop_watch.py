"""Names the in-process plugin that holds up the event loop: after the fact, and while it lasts.

Every await of a plugin's method passes through ``stepped``, which measures the steps between two awaits. Beside that a
thread asks the loop for a sign of life; when none comes, it looks where the loop's thread stands. That also finds
plugins in places that no step covers: tasks and callbacks of their own.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import types
from collections.abc import Coroutine, Generator
from contextlib import suppress
from typing import Any

from app.errors import both
from app.plugins.in_process_modules import place_of, plugin_frame, plugin_of

SLOW_SECONDS = 0.25
"""A step that takes longer is told afterwards."""
STUCK_SECONDS = 3.0
"""A loop that gives no sign of life for so long is told while it lasts."""
PAUSE_SECONDS = 1.0
"""Between two questions to the loop."""

log = logging.getLogger(__name__)


def gave_up(error: BaseException) -> str:
    """The words for an exit or a cancellation that came from a plugin's own code."""
    kind = type(error).__name__
    if isinstance(error, asyncio.CancelledError):
        return both(f"插件内部取消了此操作（{kind}）", f"it was cancelled from inside the plugin ({kind})")
    return both(f"插件要求结束程序（{kind}），已忽略", f"the plugin asked for the end of the program ({kind})")


class LoopWatch:
    """Watches one event loop; ``start`` and ``stop`` are called in it."""

    def __init__(
        self, *, slow: float = SLOW_SECONDS, stuck: float = STUCK_SECONDS, pause: float = PAUSE_SECONDS
    ) -> None:
        self._slow = slow
        self._stuck = stuck
        self._pause = pause
        self._current = ""
        self._ended = threading.Event()
        self._alive = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch the running loop."""
        arguments = (asyncio.get_running_loop(), threading.get_ident())
        self._thread = threading.Thread(target=self._watch, args=arguments, name="plugin watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watching thread, which waits for nothing any more."""
        self._ended.set()
        self._alive.set()
        if self._thread is not None:
            self._thread.join(self._pause)

    async def stepped(self, plugin: str, work: Coroutine[Any, Any, Any]) -> Any:
        """Await ``work`` and measure each of its steps. An exit of the program that it asks for is an error of its own.

        It must not reach the loop, which would end the whole server.
        """
        return await self._steps(plugin, work)

    @types.coroutine
    def _steps(self, plugin: str, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        resume, value = work.send, None
        while True:
            before, self._current = self._current, plugin
            begun = time.monotonic()
            try:
                wanted = resume(value)
            except StopIteration as end:
                return end.value
            except (SystemExit, KeyboardInterrupt) as error:
                raise RuntimeError(gave_up(error)) from error
            finally:
                self._current = before
                took = time.monotonic() - begun
                if took >= self._slow:
                    log.warning(
                        "plugin %s blocked the event loop for %.2f s; everybody waited. Plain functions run in threads",
                        plugin,
                        took,
                    )
            try:
                value = yield wanted
                resume = work.send
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001 - handed on into the plugin's code, where it belongs
                value, resume = error, work.throw

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        while not self._ended.wait(self._pause):
            self._alive = alive = threading.Event()
            if self._ended.is_set():
                return
            with suppress(RuntimeError):  # the loop is closed; then this thread is told to end
                loop.call_soon_threadsafe(alive.set)
            begun = time.monotonic()
            if alive.wait(self._stuck) or self._ended.is_set():
                continue
            said = self._tell(thread)
            while not alive.wait(self._pause) and not self._ended.is_set():
                continue
            if said:
                log.warning("plugin %s let go of the event loop after %.1f s", said, time.monotonic() - begun)

    def _tell(self, thread: int) -> str:
        """Log who blocks; returns the plugin, empty when it is none."""
        frame = sys._current_frames().get(thread)
        inside = plugin_frame(frame)
        plugin = self._current
        if not plugin and inside is not None:
            plugin = plugin_of(inside)
        if not plugin or frame is None:
            return ""
        log.error(
            "plugin %s has blocked the event loop for %g s and still does: it stands at %s",
            plugin,
            self._stuck,
            place_of(inside or frame),
        )
        return plugin
