"""What every request passes before it reaches a route: address, path, CORS, blocks, key."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import ForbiddenError, UnauthorizedError, VcpError
from app.web.addresses import Network, client_address
from app.web.blocking import AddressBlocks
from app.web.errors import send_error
from app.web.paths import PathTable

log = logging.getLogger(__name__)

CLIENT_IP = "vcp.client_ip"
"""Key of the ASGI scope under which routes find the client's address."""

# Which pages may read an answer is not for the upstream to say, whose headers are passed on.
_OURS = frozenset({b"access-control-allow-origin", b"access-control-allow-credentials"})
_METHODS = "GET,HEAD,PUT,PATCH,POST,DELETE"
_UNAUTHORIZED = "Unauthorized (Bearer token required)"
_FORBIDDEN = "Forbidden: Your IP address has been blocked due to suspicious activity."


class Gate:
    """ASGI middleware around the whole app (spec 1.1, 1.2; B1, B2, B6, B12).

    Every path that is not one of ``open_paths`` needs the key, whether a route has it or not. Nothing of a body
    is read before the key was seen to be right. What is given as a callable is asked at each request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        key: Callable[[], str],
        open_paths: frozenset[str],
        paths: PathTable,
        trusted_proxies: Callable[[], Sequence[Network]],
        blocks: AddressBlocks,
        cors_origins: Callable[[], Sequence[str]],
    ) -> None:
        self._app = app
        self._key = key
        self._open_paths = open_paths
        self._paths = paths
        self._trusted = trusted_proxies
        self._blocks = blocks
        self._origins = cors_origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        scope[CLIENT_IP] = address = client_address(scope, self._trusted())
        scope["path"] = path = self._paths.canonical(scope["path"])
        headers = Headers(scope=scope)
        if scope["type"] == "websocket":
            if self._refusal(path, headers, address) is None:
                await self._app(scope, receive, send)
                return
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        send = self._with_cors(headers, send)
        if scope["method"] == "OPTIONS":
            await self._preflight(headers, send)
            return
        refusal = self._refusal(path, headers, address)
        if refusal is not None:
            await send_error(scope, receive, send, refusal)
            return
        await self._app(scope, receive, send)

    def _refusal(self, path: str, headers: Headers, address: str) -> VcpError | None:
        if self._blocks.blocked(address):
            return ForbiddenError(_FORBIDDEN)
        if path in self._open_paths or self._authorized(headers):
            return None
        if headers.get("authorization"):
            self._blocks.wrong_key(address)
        return UnauthorizedError(_UNAUTHORIZED)

    def _authorized(self, headers: Headers) -> bool:
        key = self._key()
        # Header values are latin-1 to ASGI while keys may be any text; bytes are what was sent. Blanks behind a value
        # are no part of it to HTTP, but the parser leaves them.
        given = headers.get("authorization", "").encode("latin-1").rstrip(b" \t")
        expected = b"Bearer " + key.encode("utf-8", "surrogateescape")
        return bool(key) and hmac.compare_digest(given, expected)

    def _with_cors(self, request: Headers, send: Send) -> Send:
        allowed = self._allowed_origin(request.get("origin"))

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(
                    raw=[pair for pair in message.get("headers", ()) if pair[0].lower() not in _OURS]
                )
                if allowed is not None:
                    headers["Access-Control-Allow-Origin"] = allowed
                if allowed != "*":
                    headers.add_vary_header("Origin")
                message = {**message, "headers": headers.raw}
            await send(message)

        return sending

    def _allowed_origin(self, origin: str | None) -> str | None:
        origins = self._origins()
        if "*" in origins:
            return "*"
        return origin if origin in origins else None

    async def _preflight(self, request: Headers, send: Send) -> None:
        headers = [(b"access-control-allow-methods", _METHODS.encode()), (b"content-length", b"0")]
        asked = request.get("access-control-request-headers")
        if asked:
            headers.append((b"access-control-allow-headers", asked.encode("latin-1")))
            headers.append((b"vary", b"Access-Control-Request-Headers"))
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
