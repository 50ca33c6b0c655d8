"""A person at the panel of a running server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.server import Running, running

NAME, PASSWORD = "admin", "密码 pass:word"
SETTINGS = (f"AdminUsername={NAME}", f"AdminPassword={PASSWORD}")
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
"""What a model, a file or a client may put where a name is expected."""


class Visitor:
    """A browser without scripts: keeps cookies, says that its requests come from our own pages."""

    def __init__(self, server: Running, client: httpx.AsyncClient) -> None:
        self.server = server
        self.client = client

    async def page(self, path: str, *, language: str = "en", status: int = 200) -> str:
        """The HTML of a page below ``/AdminPanel``."""
        answer = await self.client.get(
            f"/AdminPanel{path}", headers={"accept-language": language, "accept": "text/html"}
        )
        assert answer.status_code == status, f"{answer.status_code}: {answer.text[:500]}"
        return answer.text

    async def post(self, path: str, fields: Mapping[str, str], *, htmx: bool = True, **headers: str) -> httpx.Response:
        """Send a form to ``/AdminPanel``…, as htmx does or as a browser."""
        if htmx:
            headers["hx-request"] = "true"
        return await self.client.post(
            f"/AdminPanel{path}", data=dict(fields), headers={"accept-language": "en", **headers}
        )

    async def api(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """A request to ``/admin_api``…."""
        return await self.client.request(method, f"/admin_api{path}", json=body, headers=headers)


@asynccontextmanager
async def visiting(
    home: Path,
    upstream: str = "http://127.0.0.1:9",
    *,
    config: Iterable[str] = (),
    logged_in: bool = True,
    **parts: Any,
) -> AsyncIterator[Visitor]:
    """A running server with an administrator, and somebody at its panel, who has logged in by the page."""
    async with running(home, upstream, config=(*SETTINGS, *config), **parts) as server:
        headers = {"sec-fetch-site": "same-origin"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=30) as client:
            visitor = Visitor(server, client)
            if logged_in:
                fields = {"username": NAME, "password": PASSWORD, "next": "/AdminPanel/actions"}
                answer = await visitor.post("/login", fields, htmx=False)
                assert (answer.status_code, answer.headers["location"]) == (303, "/AdminPanel/actions")
            yield visitor
