"""An administrator's browser, as far as HTTP goes."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from tests.server import Running, run, running

LOGIN = {"Authorization": "Basic " + b64encode(b"admin:secret").decode()}
CONFIG = ("AdminUsername=admin", "AdminPassword=secret")
HOSTILE = '<img src=x onerror=alert(1)>"><script>alert(2)</script>'


class Page:
    """An administrator's browser, as far as HTTP goes."""

    def __init__(self, server: Running) -> None:
        self.server = server

    async def get(self, path: str, language: str = "en", **headers: str) -> httpx.Response:
        return await self.server.client.get(
            f"/AdminPanel{path}", headers={**LOGIN, "Accept-Language": language, **headers}
        )

    async def post(self, path: str, form: Any = (), language: str = "en", **headers: str) -> httpx.Response:
        sent = {"Content-Type": "application/x-www-form-urlencoded", "HX-Request": "true", "Accept-Language": language}
        return await self.server.client.post(
            f"/AdminPanel{path}", content=urlencode(form), headers={**LOGIN, **sent, **headers}
        )


def browsing(home: Path, test: Callable[[Page], Awaitable[None]], *config: str) -> None:
    async def main() -> None:
        async with running(home, "http://127.0.0.1:9", config=(*CONFIG, *config)) as server:
            await test(Page(server))

    run(main())


def hidden(text: str, name: str) -> str:
    """The value of a hidden field."""
    found = re.search(rf'name="{name}" value="([^"]*)"', text)
    assert found, name
    return found[1]
