"""An administrator's visits to pages of the panel, straight into the application."""

from __future__ import annotations

import asyncio
import html
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote, urlencode

from app.services import Services
from app.web.app import create_app
from tests.web.asgi import Answered, ask, services_in

LOGIN = ("authorization", "Basic " + b64encode(b"admin:secret").decode())
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
"""What a model, a node or a file may bring as any text."""

_TAGS = re.compile(r"<[^>]*>")


class Visits:
    """Pages of one server; all are asked for in Chinese unless ``language`` says ``en``."""

    def __init__(self, home: Path, *config: str) -> None:
        self.home = home
        self.services: Services = services_in(home, "AdminUsername=admin", "AdminPassword=secret", *config)
        self.app = create_app(self.services)

    async def get(self, path: str, language: str = "zh") -> Answered:
        """A page below ``/AdminPanel/``, with its query."""
        return await self._ask("GET", path, b"", language)

    async def post(self, path: str, /, language: str = "zh", **form: str) -> Answered:
        """A form."""
        return await self._ask("POST", path, urlencode(form).encode(), language)

    async def _ask(self, method: str, path: str, data: bytes, language: str) -> Answered:
        path, _, query = f"/AdminPanel/{path}".partition("?")

        async def with_query(scope: object, receive: object, send: object) -> None:
            assert isinstance(scope, dict)
            await self.app({**scope, "query_string": quote(query, safe="=&%+").encode()}, receive, send)  # type: ignore[arg-type]

        headers = (LOGIN, ("accept-language", language), ("content-type", "application/x-www-form-urlencoded"))
        return await ask(with_query, method, path, *headers, blocks=[data] if data else ())


def visit(home: Path, test: Callable[[Visits], Awaitable[None]], *config: str) -> None:
    """Run a test with one server."""

    async def main() -> None:
        await test(Visits(home, *config))

    asyncio.run(asyncio.wait_for(main(), 60))


def text_of(answer: Answered) -> str:
    """What a person reads on the page."""
    return " ".join(html.unescape(_TAGS.sub(" ", answer.body.decode("utf-8"))).split())


def is_harmless(answer: Answered) -> bool:
    """Whether nothing of ``HOSTILE`` became an element, and the page may run scripts of this server alone."""
    page = answer.body.decode("utf-8")
    policy = answer.headers.get("content-security-policy", "")
    return "<script>alert" not in page and "<img src=x" not in page and "script-src 'self'" in policy
