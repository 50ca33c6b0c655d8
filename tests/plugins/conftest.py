"""Makes plugins on disk and calls them the way the router does."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.extend import CallContext, Door, ToolCall, ToolResult
from app.plugins.background import BackgroundLimits
from app.plugins.callbacks import Callbacks
from app.plugins.discovery import PluginSet, discover
from app.plugins.places import Limits
from app.plugins.processes import Processes
from app.plugins.stdio import StdioPlugins


def parse_env(text: str) -> dict[str, str]:
    """Enough of the settings grammar for these tests."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip().strip('"') for key, _, value in pairs}


class Bench:
    """A home with plugins, and a way to call them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.limits = Limits(stop_seconds=2.0)
        self.environ: dict[str, str] = {"PATH": os.environ["PATH"]}
        self.auth_code: str | None = None
        self.threads = False
        self.uvloop = False
        self.loads = 0
        self.callbacks: Callbacks | None = None
        self.background = BackgroundLimits()

    def plugin(self, name: str, script: str, **fields: Any) -> Path:
        """Write a Python plugin; ``fields`` go into its manifest."""
        folder = self.home / "Plugin" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "main.py").write_text(script, encoding="utf-8")
        manifest = {
            "name": name,
            "pluginType": "synchronous",
            "entryPoint": {"type": "python", "command": "python main.py", "interpreter": "server"},
            "communication": {"protocol": "stdio", "timeout": 20_000},
            **fields,
        }
        (folder / "plugin-manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        return folder

    def found(self) -> PluginSet:
        return discover([self.home / "Plugin"], parse_env)

    def run(self, work: Callable[[Caller], Coroutine[Any, Any, Any]]) -> Any:
        """Run ``work`` with a caller in a loop of its own and stop everything afterwards."""

        async def main() -> Any:
            processes = Processes(self.limits, threads=self.threads)
            source = StdioPlugins(
                self.found(),
                processes,
                project_base=self.home,
                environ=lambda: self.environ,
                auth_code=lambda: self.auth_code,
                port=6005,
                server_python=sys.executable,
                callbacks=self.callbacks,
                background_limits=lambda: self.background,
            )
            await source.start()
            try:
                return await work(Caller(source, processes))
            finally:
                await source.stop()

        if self.uvloop:
            import uvloop

            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(main())
        return asyncio.run(main())

    def call(self, name: str, arguments: Mapping[str, Any] | None = None, **context: Any) -> ToolResult:
        """Call one plugin once."""

        async def work(caller: Caller) -> ToolResult:
            return await caller(name, arguments, **context)

        result = self.run(work)
        assert isinstance(result, ToolResult)
        return result


class Caller:
    """Calls tools of one source and remembers the process ids."""

    def __init__(self, source: StdioPlugins, processes: Processes) -> None:
        self.source = source
        self.processes = processes
        self.pids: list[int] = []

    async def __call__(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        texts: Mapping[str, str] | None = None,
        command: str | None = None,
        client_ip: str | None = None,
        deadline: float | None = None,
    ) -> ToolResult:
        call = ToolCall(id="1", tool=name, arguments=arguments or {}, texts=texts or {}, command=command)
        context = CallContext(turn_id="t", door=Door.STREAM, client_ip=client_ip, deadline=deadline)
        return await self.source.call(self.source.tools()[name], call, context, self._started)

    def _started(self, *, pid: int) -> None:
        self.pids.append(pid)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
