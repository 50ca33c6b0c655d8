"""Static plugins on disk and a host that runs them, with a clock that a test moves by hand."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from app.extend import Event, Found, PromptContext, StaticRefreshed
from app.plugins.discovery import PluginSet, discover
from app.plugins.places import Limits
from app.plugins.processes import Processes
from app.plugins.static_runs import StaticRunner
from app.plugins.static_values import StaticValues
from app.plugins.statics import StaticPlugins, StaticState
from tests.plugins.conftest import parse_env
from tests.waiting import until

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOW = datetime(2026, 1, 5, 10, 30, 5, tzinfo=SHANGHAI).timestamp()


class Hands:
    """The hands of a clock: whoever sleeps wakes when a test has moved them far enough."""

    def __init__(self) -> None:
        self.now = NOW
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, woken))
        await woken

    @property
    def sleepers(self) -> int:
        return sum(not woken.done() for _, woken in self._sleepers)

    async def move(self, seconds: float) -> None:
        """Move on second by second (backwards at once) and let everybody act who wakes."""
        whole, rest = divmod(max(0.0, seconds), 1.0)
        for step in (*[1.0] * int(whole), rest) if seconds > 0 else (seconds,):
            self.now += step
            for due, woken in self._sleepers:
                if due <= self.now and not woken.done():
                    woken.set_result(None)
            self._sleepers = [(due, woken) for due, woken in self._sleepers if not woken.done()]
            for _ in range(5):
                await asyncio.sleep(0)

    def wake_all(self) -> None:
        """Time has gone on elsewhere, too: nobody sleeps any longer."""
        for _, woken in self._sleepers:
            if not woken.done():
                woken.set_result(None)


class StaticBench:
    """A home with static plugins."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.hands = Hands()
        self.zone: tzinfo = SHANGHAI
        self.max_chars = 10_000
        self.enabled = True
        self.served: frozenset[str] = frozenset()
        self.environ: dict[str, str] = {"PATH": os.environ["PATH"]}
        self.limits = Limits(running=4, queue_seconds=60, stop_seconds=0.3, output_bytes=1024 * 1024)
        self.events: list[Event] = []
        self.values = StaticValues(home / ".vcp" / "static_values")
        self.processes = Processes(self.limits)

    def publish(self, event: Event) -> None:
        self.events.append(event)

    def plugin(self, name: str, command: str = "cat value", *, keys: tuple[str, ...] = (), **fields: Any) -> Path:
        """Write a plugin that runs ``command``; without one it prints its file ``value``."""
        folder = self.home / "Plugin" / name
        folder.mkdir(parents=True, exist_ok=True)
        manifest = {
            "name": name,
            "displayName": f"插件 {name}",
            "pluginType": "static",
            "entryPoint": {"type": "python", "command": command, "interpreter": "server"},
            "communication": {"protocol": "stdio", "timeout": 20_000},
            "capabilities": {
                "systemPromptPlaceholders": [{"placeholder": key} for key in keys or ("{{" + name + "}}",)]
            },
            **fields,
        }
        (folder / "plugin-manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        return folder

    def script(self, name: str, source: str, **fields: Any) -> Path:
        """Write a plugin in Python."""
        folder = self.plugin(name, "python main.py", **fields)
        (folder / "main.py").write_text(source, encoding="utf-8")
        return folder

    def prints(self, name: str, text: str, **fields: Any) -> Path:
        """Write a plugin that prints this text."""
        folder = self.plugin(name, **fields)
        self.says(name, text)
        return folder

    def says(self, name: str, text: str) -> None:
        """From now on the plugin prints this."""
        (self.home / "Plugin" / name / "value").write_text(text, encoding="utf-8")

    def found(self) -> PluginSet:
        return discover([self.home / "Plugin"], parse_env)

    def host(self) -> StaticPlugins:
        self.processes = Processes(self.limits)
        runner = StaticRunner(
            self.processes, project_base=self.home, environ=lambda: self.environ, server_python=sys.executable
        )
        return StaticPlugins(
            self.found(),
            runner,
            self.values,
            clock=self.hands,
            zone=lambda: self.zone,
            max_chars=lambda: self.max_chars,
            events=self,
            enabled=lambda: self.enabled,
            served=self.served,
            sleep=self.hands.sleep,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[StaticPlugins]:
        statics = self.host()
        await statics.start()
        try:
            yield statics
        finally:
            await statics.stop()

    def run(self, work: Callable[[StaticPlugins], Coroutine[Any, Any, None]]) -> None:
        """Run ``work`` with a host that was started, and stop it afterwards."""

        async def main() -> None:
            async with asyncio.timeout(60), self.running() as statics:
                await work(statics)

        asyncio.run(main())

    def refreshed(self, name: str) -> list[str]:
        """What each run of a plugin so far had to complain about."""
        return [event.problem for event in self.events if isinstance(event, StaticRefreshed) and event.plugin == name]

    async def runs(self, name: str, count: int) -> None:
        """Wait until a plugin has run so many times."""
        await until(lambda: len(self.refreshed(name)) >= count)
        assert len(self.refreshed(name)) == count


async def shown(statics: StaticPlugins, text: str) -> str:
    """The text with its static placeholders filled."""
    pattern = statics.pattern
    found = [Found(match[0], match.groups()) for match in pattern.finditer(text)]
    texts = await statics.resolve(found, PromptContext("m", ()))
    return pattern.sub(lambda match: texts.get(match[0], match[0]), text)


def state(statics: StaticPlugins, name: str) -> StaticState:
    return next(state for state in statics.states() if state.plugin == name)
