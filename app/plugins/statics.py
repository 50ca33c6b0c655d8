"""Static plugins: run at the start and by their timetables, their output fills placeholders (spec 3.4, 5.3, 5.6).

What a placeholder shows:

* the last good text, also that of before a restart or of a run that failed since;
* while a plugin has never worked: that it is loading, then why it failed, or that it has nothing to say.

Two runs of one plugin never overlap: a time that comes while it runs is passed over (B38).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from types import MappingProxyType

from app.errors import NotFoundError, both
from app.extend import Clock, EventSink, Found, PromptContext, StaticRefreshed, Trust
from app.plugins.discovery import Plugin, PluginSet
from app.plugins.static_runs import StaticRun, StaticRunner
from app.plugins.static_values import KeptValue, StaticValues
from app.plugins.timetable import next_time
from app.protocol.prompt_texts import static_cut, static_failed, static_loading, static_unavailable

LONGEST_SLEEP = 30.0
"""Seconds after which a clock or a zone that somebody changed is noticed."""

ERROR_PREFIX = "[Error"
"""Texts that begin like this are no good values (5.6): they are neither kept nor defended against newer errors."""

_NOTHING = re.compile(r"(?!)")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StaticState:
    """How a static plugin is, for lists; times are seconds since the epoch.

    ``keys`` are its placeholders without braces. ``stale``: its text is one of before the start, or of before its
    manifest or settings changed. ``served``: the server itself fills its placeholders, so it is never run.
    """

    plugin: str
    display: str
    keys: tuple[str, ...]
    cron: str | None
    served: bool
    running: bool
    stale: bool
    last_run: float | None
    last_error: str
    next_run: float | None


@dataclass(slots=True, eq=False)
class _Kept:
    """One plugin with its value and its tasks. ``failed`` is shown while there is no value, ``ran`` tells that a run
    has ended.
    """

    plugin: Plugin
    settings: Mapping[str, str]
    keys: tuple[str, ...]
    served: bool
    value: KeptValue | None = None
    stale: bool = False
    failed: str = ""
    ran: bool = False
    last_run: float | None = None
    last_error: str = ""
    next_run: float | None = None
    running: asyncio.Task[str | None] | None = None
    timetable: asyncio.Task[None] | None = None


class StaticPlugins:
    """All static plugins that were found, as a source of placeholders; their texts are data (D9).

    ``zone``, ``max_chars`` and ``enabled`` give the settings of now: the zone of timetables, the longest value, of
    which the beginning is kept, and whether plugins may run by themselves. ``served`` are keys that the server fills
    itself, always up to date: a plugin that has no others is listed and never run. ``pattern`` is a new one after each
    ``replace``.
    """

    name = "static"
    roles = frozenset({"system"})
    trust = Trust.DATA
    after_detectors = False

    def __init__(
        self,
        plugins: PluginSet,
        runner: StaticRunner,
        values: StaticValues,
        *,
        clock: Clock,
        zone: Callable[[], tzinfo],
        max_chars: Callable[[], int],
        events: EventSink,
        enabled: Callable[[], bool] = lambda: True,
        served: frozenset[str] = frozenset(),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._runner = runner
        self._values = values
        self._clock = clock
        self._zone = zone
        self._max_chars = max_chars
        self._events = events
        self._enabled = enabled
        self._served = served
        self._sleep = sleep
        self._started = False
        self._endings: set[asyncio.Task[None]] = set()
        self._kept: Mapping[str, _Kept] = {}
        self._by_key: Mapping[str, _Kept] = {}
        self.pattern = _NOTHING
        self._serve({plugin.name: self._new(plugin) for plugin in _static(plugins)})

    # --- what others ask ----------------------------------------------------------------------------------------------

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        """The values of now, at once; nobody waits for a run (P78)."""
        del context
        by_key = self._by_key
        return {item.text: self._shown(key, by_key[key]) for item in found if (key := item.groups[0]) in by_key}

    def states(self) -> tuple[StaticState, ...]:
        """All static plugins in the order of discovery."""
        return tuple(_state(kept) for kept in self._kept.values())

    def texts(self, plugins: Collection[str]) -> Mapping[str, str]:
        """The good texts of now of these plugins, by placeholder without braces; those that have none are left out."""
        return {
            key: kept.value.text
            for key, kept in self._by_key.items()
            if kept.value is not None and kept.plugin.name in plugins
        }

    async def refresh(self, name: str) -> StaticState:
        """Run a plugin now, or wait for the run that is under way, and tell how it is then.

        Raises NotFoundError when there is no static plugin of this name.
        """
        kept = self._kept.get(name)
        if kept is None:
            raise NotFoundError(both(f'没有名为 "{name}" 的静态插件', f'there is no static plugin "{name}"'))
        if not kept.served:
            await self._run(kept)
        return _state(kept)

    def health(self) -> str:
        """A static plugin that fails shows that in its value; the server is well all the same."""
        return ""

    # --- start, change, stop ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take up the values of before and begin with the first runs, in the background (spec 5.6)."""
        before = await asyncio.to_thread(self._values.load, tuple(self._kept))
        for name, value in before.items():
            kept = self._kept.get(name)
            if kept is not None and kept.value is None:
                kept.value, kept.stale = KeptValue(self._limited(name, value.text), value.printed_at), True
        self._started = True
        for kept in self._kept.values():
            self._begin(kept)

    async def replace(self, plugins: PluginSet) -> None:
        """Serve this set from now on (spec 5.11, B28).

        Plugins whose manifest, folder and settings are what they were keep value and timetable and are not run again;
        changed ones keep the old text until their new run has ended; those that are gone vanish with their values.
        """
        before = self._kept
        chosen: dict[str, _Kept] = {}
        changed: list[tuple[_Kept, _Kept | None]] = []
        for plugin in _static(plugins):
            old, new = before.get(plugin.name), self._new(plugin)
            if old is not None and (old.plugin, old.settings) == (new.plugin, new.settings):
                chosen[plugin.name] = old
                continue
            if old is not None:
                new.value, new.stale, new.failed, new.ran = old.value, True, old.failed, old.ran
            chosen[plugin.name] = new
            changed.append((new, old))
        self._serve(chosen)
        for new, old in changed:
            ending = self._retire(old, forget=False) if old is not None else None
            if self._started:
                self._begin(new, after=ending)
        for name, old in before.items():
            if name not in chosen:
                self._retire(old, forget=True)

    async def stop(self) -> None:
        """End all runs and timetables within bounded time."""
        self._started = False
        for kept in self._kept.values():
            self._retire(kept, forget=False)
        await self._runner.stop()
        if self._endings:
            await asyncio.wait(tuple(self._endings))

    def _new(self, plugin: Plugin) -> _Kept:
        keys = tuple(dict.fromkeys(placeholder.key for placeholder in plugin.manifest.placeholders))
        return _Kept(
            plugin=plugin,
            settings=self._runner.settings(plugin),
            keys=keys,
            served=bool(keys) and self._served.issuperset(keys),
        )

    def _serve(self, kept: Mapping[str, _Kept]) -> None:
        by_key: dict[str, _Kept] = {}
        for name, one in kept.items():
            for key in one.keys:
                first = by_key.setdefault(key, one)
                if first is not one:
                    log.warning("placeholder {{%s}} of plugin %s is already that of %s", key, name, first.plugin.name)
        for key in self._served:
            by_key.pop(key, None)
        self._kept = MappingProxyType(dict(kept))
        self._by_key = MappingProxyType(by_key)
        self.pattern = re.compile(r"\{\{(" + "|".join(map(re.escape, by_key)) + r")\}\}") if by_key else _NOTHING

    def _begin(self, kept: _Kept, after: asyncio.Task[None] | None = None) -> None:
        if not kept.served:
            kept.timetable = asyncio.create_task(self._keep(kept, after), name=f"static {kept.plugin.name}")

    def _retire(self, kept: _Kept, *, forget: bool) -> asyncio.Task[None]:
        """Cancel what runs for a plugin; the task ends when it has ended."""

        async def end() -> None:
            tasks = [task for task in (kept.timetable, kept.running) if task is not None]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            if forget:
                await asyncio.to_thread(self._values.forget, kept.plugin.name)

        ending = asyncio.create_task(end())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        return ending

    # --- runs ---------------------------------------------------------------------------------------------------------

    async def _keep(self, kept: _Kept, after: asyncio.Task[None] | None) -> None:
        """Run a plugin now, once its predecessor is gone, and then at each of its times."""
        if after is not None:
            await asyncio.wait({after})
        due = True
        while due:
            while not self._enabled():
                await self._sleep(LONGEST_SLEEP)
            await self._run(kept)
            due = await self._time_comes(kept)

    async def _time_comes(self, kept: _Kept) -> bool:
        """Wait for the next time of the timetable; False when there is none.

        Clocks are set and zones are changed meanwhile: the time is worked out anew when the one went back or the other
        is a new one.
        """
        cron = kept.plugin.manifest.cron
        while cron is not None:
            asked, zone = self._clock(), self._zone()
            due = kept.next_run = next_time(cron, asked, zone)
            if due is None:
                return False
            while asked <= (now := self._clock()) and zone == self._zone():
                if now >= due:
                    return True
                await self._sleep(min(due - now, LONGEST_SLEEP))
        return False

    async def _run(self, kept: _Kept) -> None:
        """Run the plugin, or wait for the run that is under way (B38). Who stops waiting does not stop the run."""
        if kept.running is None:
            kept.running = asyncio.create_task(self._refresh(kept))
            kept.running.add_done_callback(lambda run: self._ended(kept, run))
        await asyncio.wait({kept.running})

    def _ended(self, kept: _Kept, run: asyncio.Task[str | None]) -> None:
        """Tell of a run when it is wholly over, so that whoever hears of it may begin the next."""
        kept.running = None
        if run.cancelled():
            return
        error = run.exception()
        if error is not None:
            log.error("refreshing static plugin %s failed", kept.plugin.name, exc_info=error)
        elif (unchanged := run.result()) is not None:
            self._events.publish(StaticRefreshed(kept.plugin.name, unchanged))

    async def _refresh(self, kept: _Kept) -> str | None:
        """Run the plugin: why its value stayed, empty when it did not, None when the server is stopping."""
        name = kept.plugin.name
        kept.last_run = self._clock()
        run = await self._runner.run(kept.plugin)
        if run is None:
            return None
        if run.problem and run.problem != kept.last_error:
            log.warning("static plugin %s: %s", name, run.problem)
        elif kept.last_error and not run.problem:
            log.info("static plugin %s works again", name)
        kept.last_error = run.problem
        kept.ran = True
        return await self._take(kept, run)

    async def _take(self, kept: _Kept, run: StaticRun) -> str:
        """Put the value table of spec 5.6 into effect; the answer says why the value stayed, empty when it did not."""
        if run.text:
            text = self._limited(kept.plugin.name, run.text)
            before = kept.value
            kept.value, kept.stale, kept.failed = KeptValue(text, self._clock()), False, ""
            if (before is None or before.text != text) and not text.startswith(ERROR_PREFIX):
                await self._save(kept.plugin.name, kept.value)
            return ""
        if run.text is None:
            if kept.value is None or kept.value.text.startswith(ERROR_PREFIX):
                kept.value, kept.failed = None, run.problem
            return run.problem
        kept.stale, kept.failed = False, ""
        return both("没有输出", "it printed nothing")

    async def _save(self, name: str, value: KeptValue) -> None:
        try:
            await asyncio.to_thread(self._values.save, name, value)
        except OSError as error:
            log.warning("the value of static plugin %s will not outlive the server: %s", name, error)

    def _shown(self, key: str, kept: _Kept) -> str:
        if kept.value is not None:
            return kept.value.text
        if kept.failed:
            return static_failed(kept.plugin.name, kept.failed)
        loading = not kept.ran and self._enabled()
        return static_loading(kept.plugin.manifest.display) if loading else static_unavailable(key)

    def _limited(self, name: str, text: str) -> str:
        limit = self._max_chars()
        return text if len(text) <= limit else f"{text[:limit]}\n{static_cut(name, limit)}"


def _static(plugins: PluginSet) -> list[Plugin]:
    return [plugin for plugin in plugins.plugins if plugin.manifest.static_over_stdio]


def _state(kept: _Kept) -> StaticState:
    return StaticState(
        plugin=kept.plugin.name,
        display=kept.plugin.manifest.display,
        keys=kept.keys,
        cron=kept.plugin.manifest.cron,
        served=kept.served,
        running=kept.running is not None,
        stale=kept.stale,
        last_run=kept.last_run,
        last_error=kept.last_error,
        next_run=kept.next_run,
    )
