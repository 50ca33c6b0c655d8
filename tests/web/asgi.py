"""One request straight into the ASGI application, with a count of what was read of its body."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message

from app.config.home_folders import make_home
from app.config.snapshot import load
from app.services import Services
from app.web.app import create_app

KEY = "test-key-钥匙"
BEARER = ("authorization", f"Bearer {KEY}")


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back, and how many blocks of the body the application asked for."""

    status: int
    headers: dict[str, str]
    body: bytes
    reads: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def services_in(home: Path, *config: str, key: str = KEY) -> Services:
    """The services of an installation whose upstream is never asked."""
    make_home(home)
    (home / "config.env").write_text("\n".join(("API_URL=http://127.0.0.1:9", *config)), encoding="utf-8")
    return Services(load(home, {}), key)


def app_in(home: Path, *config: str, key: str = KEY) -> ASGIApp:
    return create_app(services_in(home, *config, key=key))


async def ask(
    app: ASGIApp,
    method: str,
    path: str,
    *headers: tuple[str, str],
    blocks: Iterable[bytes] = (),
    client: str = "127.0.0.1",
) -> Answered:
    """Send one request; header values are written as UTF-8, ``blocks`` may be endless."""
    remaining = iter(blocks)
    reads = 0
    ended = False
    sent: list[Message] = []

    async def receive() -> Message:
        nonlocal reads, ended
        reads += 1
        if ended:
            await asyncio.Event().wait()  # the client is there and waits for its answer
        block = next(remaining, None)
        ended = block is None
        return {"type": "http.request", "body": block or b"", "more_body": block is not None}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in headers],
        "client": (client, 4711),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    start = sent[0]
    return Answered(
        start["status"],
        {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
        reads,
    )
