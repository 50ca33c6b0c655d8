"""An administrator's requests to one server."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from app.services import Services
from app.web.app import create_app
from tests.web.asgi import Answered, ask, services_in

LOGIN = ("authorization", "Basic " + b64encode(b"admin:secret").decode())


class Administrator:
    """Asks below ``prefix``; paths are as in an address, and decoded as a web server does it."""

    def __init__(self, home: Path, *config: str, prefix: str = "/admin_api") -> None:
        self.home = home
        self.services: Services = services_in(home, "AdminUsername=admin", "AdminPassword=secret", *config)
        self.app = create_app(self.services)
        self.prefix = prefix

    async def get(self, path: str, *headers: tuple[str, str]) -> Answered:
        return await self._ask("GET", path, headers)

    async def post(self, path: str, body: Any, *headers: tuple[str, str]) -> Answered:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self._ask("POST", path, headers, data)

    async def _ask(self, method: str, path: str, headers: tuple[tuple[str, str], ...], data: bytes = b"") -> Answered:
        path, _, query = path.partition("?")

        async def with_query(scope: Any, receive: Any, send: Any) -> None:
            await self.app({**scope, "query_string": query.encode()}, receive, send)

        return await ask(
            with_query, method, self.prefix + unquote(path), LOGIN, *headers, blocks=[data] if data else ()
        )


def administrator(home: Path, test: Callable[[Administrator], Awaitable[None]], *config: str) -> None:
    """Run a test with an administrator of a server in this home."""

    async def main() -> None:
        await test(Administrator(home, *config))

    asyncio.run(asyncio.wait_for(main(), 60))
