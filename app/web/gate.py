"""What every request passes before it reaches a route: address, path, CORS, blocks, key."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import ForbiddenError, UnauthorizedError
from app.extend import Access
from app.web.addresses import Network, client_address
from app.web.blocking import AddressBlocks
from app.web.errors import send_error
from app.web.paths import PathTable

log = logging.getLogger(__name__)

CLIENT_IP = "vcp.client_ip"
"""Key of the ASGI scope under which routes find the client's address."""

_METHODS = "GET,HEAD,PUT,PATCH,POST,DELETE"
_UNAUTHORIZED = "Unauthorized (Bearer token required)"
_FORBIDDEN = "Forbidden: Your IP address has been blocked due to suspicious activity."


class Gate:
    """ASGI middleware around the whole app (spec 1.1, 1.2; B1, B2, B6, B12).

    ``access`` names the open paths; every other path needs the key, whether a route has it or not. Nothing of a body
    is read before the key was seen to be right.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        key: Callable[[], str],
        access: Mapping[str, Access],
        paths: PathTable,
        trusted_proxies: Sequence[Network],
        blocks: AddressBlocks,
        cors_origins: Sequence[str],
    ) -> None:
        self._app = app
        self._key = key
        self._access = access
        self._paths = paths
        self._trusted = trusted_proxies
        self._blocks = blocks
        self._origins = frozenset(cors_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        scope[CLIENT_IP] = address = client_address(scope, self._trusted)
        scope["path"] = path = self._paths.canonical(scope["path"])
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send, path)
            return
        headers = Headers(scope=scope)
        send = self._with_cors(headers, send)
        if scope["method"] == "OPTIONS":
            await self._preflight(headers, send)
            return
        if self._blocks.blocked(address):
            await send_error(scope, receive, send, ForbiddenError(_FORBIDDEN))
            return
        if self._access.get(path) is not Access.OPEN and not self._authorized(headers):
            if headers.get("authorization"):
                self._blocks.wrong_key(address)
            await send_error(scope, receive, send, UnauthorizedError(_UNAUTHORIZED))
            return
        await self._app(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        if self._access.get(path) is Access.OPEN or self._authorized(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.close", "code": 1008})

    def _authorized(self, headers: Headers) -> bool:
        key = self._key()
        given = headers.get("authorization", "")
        # Header values are latin-1 to ASGI while keys may be any text; bytes are what was sent.
        expected = b"Bearer " + key.encode("utf-8")
        return bool(key) and hmac.compare_digest(given.encode("latin-1"), expected)

    def _with_cors(self, request: Headers, send: Send) -> Send:
        allowed = self._allowed_origin(request.get("origin"))
        if allowed is None:
            return send

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Access-Control-Allow-Origin"] = allowed
                if allowed != "*":
                    headers.add_vary_header("Origin")
            await send(message)

        return sending

    def _allowed_origin(self, origin: str | None) -> str | None:
        if "*" in self._origins:
            return "*"
        return origin if origin in self._origins else None

    async def _preflight(self, request: Headers, send: Send) -> None:
        headers = [(b"access-control-allow-methods", _METHODS.encode()), (b"content-length", b"0")]
        asked = request.get("access-control-request-headers")
        if asked:
            headers.append((b"access-control-allow-headers", asked.encode("latin-1")))
            headers.append((b"vary", b"Access-Control-Request-Headers"))
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
