"""A real server over a scripted upstream, and how tests read its answers."""

from __future__ import annotations

import asyncio
import json
import os
import textwrap
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from app.config.home_folders import make_home
from app.config.snapshot import load
from app.extend import Event, FileFetcher, PlaceholderSource, Preprocessor, ToolSource
from app.reload.watcher import Pace
from app.services import Services
from app.web.app import create_app
from app.web.server import serve

KEY = "test-key-钥匙"
HEADERS = {b"Authorization": f"Bearer {KEY}".encode()}


TEST_SECONDS = 60
"""A test that takes longer hangs; it fails with a stack trace of where."""


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine."""
    asyncio.run(asyncio.wait_for(main, TEST_SECONDS))


@dataclass(frozen=True, slots=True)
class Running:
    """A server that is running for one test."""

    url: str
    services: Services
    client: httpx.AsyncClient
    events: list[Event]

    async def chat(self, *messages: str | Mapping[str, Any], path: str = "/v1/chat/completions", **body: Any) -> Any:
        """Send a chat request; strings are user messages. The whole response is read."""
        return await self.client.post(path, json=chat_body(*messages, **body))

    async def stream(
        self, *messages: str | Mapping[str, Any], path: str = "/v1/chat/completions", **body: Any
    ) -> Streamed:
        """Send a streamed chat request and read it to its end."""
        return read_stream(await self.chat(*messages, path=path, stream=True, **body))


@dataclass(frozen=True, slots=True)
class Streamed:
    """A streamed answer as a client sees it."""

    status: int
    raw: str
    chunks: list[Any]
    done: int

    @property
    def text(self) -> str:
        return "".join(
            choice["delta"].get("content") or ""
            for chunk in self.chunks
            for choice in chunk["choices"]
            if choice["index"] == 0
        )

    @property
    def finishes(self) -> list[str]:
        return [c["finish_reason"] for chunk in self.chunks for c in chunk["choices"] if c["finish_reason"] is not None]

    @property
    def roles(self) -> list[str]:
        return [c["delta"]["role"] for chunk in self.chunks for c in chunk["choices"] if "role" in c["delta"]]

    @property
    def usages(self) -> list[Any]:
        return [chunk["usage"] for chunk in self.chunks if chunk.get("usage")]


def chat_body(*messages: str | Mapping[str, Any], **body: Any) -> dict[str, Any]:
    listed = [{"role": "user", "content": m} if isinstance(m, str) else dict(m) for m in messages]
    return {"model": "m", "messages": listed, **body}


def read_stream(response: httpx.Response) -> Streamed:
    text = response.text
    datas = [line[5:].strip() for line in text.split("\n") if line.startswith("data:")]
    assert not datas or datas[-1] == "[DONE]", text
    chunks = [json.loads(data) for data in datas if data != "[DONE]"]
    return Streamed(response.status_code, text, chunks, datas.count("[DONE]"))


def call_text(tool: str, /, **fields: str) -> str:
    """A tool block as a model writes it."""
    lines = "".join(f",\n{name}:「始」{value}「末」" for name, value in fields.items())
    return f"<<<[TOOL_REQUEST]>>>\ntool_name:「始」{tool}「末」{lines}\n<<<[END_TOOL_REQUEST]>>>"


ECHO = """
import json, sys
arguments = json.loads(sys.stdin.read() or "{}")
print(json.dumps({"status": "success", "result": arguments.get("text", "nothing")}))
"""


def write_plugin(home: Path, name: str, script: str, **manifest: Any) -> Path:
    """A synchronous plugin whose program is the given Python source."""
    folder = home / "Plugin" / name
    folder.mkdir(parents=True)
    (folder / "main.py").write_text(textwrap.dedent(script), encoding="utf-8")
    content = {
        "manifestVersion": "1.0.0",
        "name": name,
        "displayName": name,
        "pluginType": "synchronous",
        "entryPoint": {"type": "python", "command": "python main.py", "interpreter": "server"},
        "communication": {"protocol": "stdio", "timeout": 20000},
        **manifest,
    }
    (folder / "plugin-manifest.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return folder


@asynccontextmanager
async def running(
    home: Path,
    upstream: str,
    *,
    config: Iterable[str] = (),
    sources: Iterable[ToolSource] = (),
    placeholders: Iterable[PlaceholderSource] = (),
    preprocessors: Iterable[Preprocessor] = (),
    fetchers: Iterable[FileFetcher] = (),
    environ: Mapping[str, str] | None = None,
    pace: Pace | None = None,
) -> AsyncIterator[Running]:
    """A server in ``home`` before ``upstream``; ``config`` are lines of config.env. With ``pace`` it reloads live.

    Static plugins and the model of notes rest, for most tests have no use for their processes:
    ``RunStaticPlugins=true`` and ``MemoryEmbedder=auto`` wake them.
    """
    make_home(home)
    lines = [
        f"API_URL={upstream}",
        "API_Key=upstream-key",
        f"Key={KEY}",
        "ApiRetryDelay=1",
        "ShutdownSeconds=2",
        "RunStaticPlugins=false",
        "MemoryEmbedder=hashing",
        *config,
    ]
    (home / "config.env").write_text("\n".join(lines) + "\n", encoding="utf-8")
    process = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    read = partial(load, home, {**process, **(environ or {})})
    services = Services(
        read(),
        KEY,
        sources=tuple(sources),
        placeholders=tuple(placeholders),
        preprocessors=tuple(preprocessors),
        fetchers=tuple(fetchers),
        read_config=None if pace is None else read,
        pace=pace,
    )
    events: list[Event] = []
    services.events.listen(events.append)
    async with (
        serve(create_app(services), grace=2) as url,
        httpx.AsyncClient(base_url=url, headers=HEADERS, timeout=60, trust_env=False, verify=False) as client,
    ):
        services.served_at(url)
        yield Running(url, services, client, events)
