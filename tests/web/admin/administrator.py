"""An administrator's requests to a server, with paths sent as they are written."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from app.services import Services
from app.web.app import create_app
from tests.web.asgi import Answered, ask, services_in

LOGIN = ("authorization", "Basic " + b64encode(b"admin:secret").decode())


class Administrator:
    """One server in ``home`` that is not started, and its administrator."""

    def __init__(self, home: Path, *config: str) -> None:
        self.home = home
        self.services: Services = services_in(home, "AdminUsername=admin", "AdminPassword=secret", *config)
        self.app = create_app(self.services)

    async def get(self, path: str, *headers: tuple[str, str]) -> Answered:
        return await self.ask("GET", path, *headers)

    async def post(self, path: str, body: Any, *headers: tuple[str, str]) -> Answered:
        return await self.ask(
            "POST", path, *headers, data=body if isinstance(body, bytes) else json.dumps(body).encode()
        )

    async def ask(self, method: str, path: str, *headers: tuple[str, str], data: bytes = b"") -> Answered:
        """``path`` is decoded once, as servers do; what stands behind a ``?`` is its query."""
        path, _, query = path.partition("?")

        async def with_query(scope: Any, receive: Any, send: Any) -> None:
            await self.app({**scope, "query_string": query.encode()}, receive, send)

        return await ask(with_query, method, unquote(path), LOGIN, *headers, blocks=[data] if data else [])

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path
