"""Writes in-process plugins on disk and calls them the way the server does."""

from __future__ import annotations

import json
import textwrap
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.extend import CallContext, Door, ToolCall, ToolResult
from app.services import Services, plugin_hosts
from tests.web.asgi import services_in

WAIT_SECONDS = 10.0


def write_module(
    home: Path,
    name: str,
    source: str,
    *,
    folder: str | None = None,
    files: Mapping[str, str] | None = None,
    timeout: float = 10_000,
    **manifest: Any,
) -> Path:
    """A plugin whose module is ``source``; ``files`` lie beside it. Writing it again is a new version."""
    path = home / "Plugin" / (folder or name)
    path.mkdir(parents=True, exist_ok=True)
    for file, text in {"plugin.py": source, **(files or {})}.items():
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_text(textwrap.dedent(text), encoding="utf-8")
    content = {
        "name": name,
        "displayName": name,
        "pluginType": "hybridservice",
        "entryPoint": {"type": "python", "script": "plugin.py"},
        "communication": {"protocol": "direct", "timeout": timeout},
        **manifest,
    }
    (path / "plugin-manifest.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without the plugins that come with the program."""
    monkeypatch.setattr(plugin_hosts, "program_plugins", lambda: tmp_path / "none")
    return tmp_path


@asynccontextmanager
async def serving(home: Path, *config: str) -> AsyncIterator[Services]:
    """The services of a home, started."""
    services = services_in(home, *config)
    async with services.running_parts():
        yield services


async def call(services: Services, tool: str, arguments: Mapping[str, Any] | None = None, **context: Any) -> ToolResult:
    """One tool call through the router."""
    standing = CallContext("t", context.pop("door", Door.STREAM), **context)
    return await services.router.call(ToolCall("c1", tool, arguments or {}), standing)


async def reload_plugins(services: Services) -> None:
    """What a reload does once the files have changed."""
    services.found_plugins = services.search_plugins(services.found_plugins)
    for host in services.plugin_hosts:
        await host.replace(services.found_plugins)
