"""Reads what is on disk now and puts it in force: one reload at a time, whole or not at all (spec 5.11, B28)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from app.config.snapshot import CONFIG_FILE, Config, doubt, until_restart
from app.errors import ConfigError
from app.extend import EventSink, Reloaded
from app.plugins.discovery import PluginSet
from app.reload.differences import config_changes, listed, plugin_changes

log = logging.getLogger(__name__)

MAX_PROBLEMS = 100
"""Problems that one reload tells; the rest is counted."""

MAX_PROBLEM_CHARS = 1000


class Installation(Protocol):
    """What is in force, and how something else comes to be."""

    @property
    def config(self) -> Config: ...

    @property
    def found_plugins(self) -> PluginSet: ...

    def read_config(self) -> Config:
        """The configuration as it is on disk. Blocks; ConfigError when it cannot be read."""
        ...

    def search_plugins(self, before: PluginSet) -> PluginSet:
        """The plugins as they are on disk; what cannot be read is as in ``before``. Blocks."""
        ...

    def apply(self, config: Config) -> None:
        """Put a configuration in force; ConfigError, and nothing has changed, when it cannot be worked with."""
        ...

    async def replace_plugins(self, plugins: PluginSet) -> None:
        """Let everything that runs plugins work with these; what is equal is left alone."""
        ...


@dataclass(frozen=True, slots=True)
class _Read:
    """What is on disk. ``config`` is None when the one in force stays, and ``problem`` says why.

    ``waiting`` are the settings that differ and need a restart.
    """

    plugins: PluginSet
    config: Config | None = None
    problem: str = ""
    waiting: tuple[str, ...] = ()


class Reloader:
    """Reloads when asked; whoever asks during a reload gets the next one, together with all others who do."""

    def __init__(self, installation: Installation, events: EventSink) -> None:
        self._installation = installation
        self._events = events
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[Reloaded] | None = None
        self._tasks: set[asyncio.Task[Reloaded]] = set()
        self._files: set[str] = set()
        self._told = _standing(installation.config, installation.found_plugins)
        self._waiting: frozenset[str] = frozenset()

    async def reload(self, files: Iterable[str] = ()) -> Reloaded:
        """Read everything anew, put in force what differs, tell it; ``files`` are further ones known to have changed.

        Nothing on disk is written. A file that cannot be read, or looks half written, leaves what it had said before.
        Cancelling the caller does not cancel the reload.
        """
        self._files.update(files)
        if self._next is None:
            self._next = asyncio.create_task(self._in_turn(), name="reload")
            self._tasks.add(self._next)
            self._next.add_done_callback(self._tasks.discard)
        return await asyncio.shield(self._next)

    async def stop(self) -> None:
        """End a reload that runs; what it had put in force by then stays."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _in_turn(self) -> Reloaded:
        async with self._lock:
            self._next = None
            files, self._files = tuple(sorted(self._files)), set()
            return await self._reload(files)

    async def _reload(self, files: tuple[str, ...]) -> Reloaded:
        installation = self._installation
        config, plugins = installation.config, installation.found_plugins
        read = await asyncio.to_thread(self._read, config, plugins)
        problem = read.problem
        parts: list[str] = []
        if read.config is not None and read.config != config:
            try:
                installation.apply(read.config)
            except ConfigError as error:
                problem = f"{error.message}; the settings stay as they were"
            else:
                if keys := config_changes(config, read.config):
                    parts.append(f"{CONFIG_FILE}: {listed(keys)}")
        if read.plugins != plugins or installation.config is not config:
            await installation.replace_plugins(read.plugins)
        if changes := plugin_changes(plugins, read.plugins):
            parts.append(f"plugins: {'; '.join(changes)}")
        parts.extend(files)
        self._tell_waiting(frozenset(read.waiting))
        problems, told = self._tell_problems({problem} if problem else set())
        done = Reloaded(tuple(parts), problems)
        if parts:
            log.info("reloaded: %s", " | ".join(parts))
        if parts or told:
            self._events.publish(done)
        return done

    def _read(self, config: Config, plugins: PluginSet) -> _Read:
        installation = self._installation
        found = installation.search_plugins(plugins)
        try:
            now = installation.read_config()
        except ConfigError as error:
            return _Read(found, problem=f"{error.message}; the settings stay as they were")
        unsure = doubt(now, config)
        if unsure is not None:
            return _Read(found, problem=str(unsure))
        now, waiting = until_restart(now, config)
        return _Read(found, now, waiting=waiting)

    def _tell_waiting(self, waiting: frozenset[str]) -> None:
        if new := waiting - self._waiting:
            log.warning("%s: changed; takes effect after a restart", listed(sorted(new)))
        self._waiting = waiting

    def _tell_problems(self, more: set[str]) -> tuple[tuple[str, ...], bool]:
        """All problems of now, at most ``MAX_PROBLEMS``, and whether they are others than before."""
        installation = self._installation
        standing = _standing(installation.config, installation.found_plugins) | more
        new, gone = sorted(standing - self._told), sorted(self._told - standing)
        self._told = standing
        for problem in new[:MAX_PROBLEMS]:
            log.warning("%s", problem)
        if len(new) > MAX_PROBLEMS:
            log.warning("and %d more problems", len(new) - MAX_PROBLEMS)
        if gone:
            log.info("no problem any more: %s", listed(gone, MAX_PROBLEM_CHARS))
        return tuple(sorted(standing)[:MAX_PROBLEMS]), bool(new or gone)


def _standing(config: Config, plugins: PluginSet) -> frozenset[str]:
    return frozenset((*map(str, config.problems), *plugins.problems))
