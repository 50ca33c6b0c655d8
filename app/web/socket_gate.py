"""What every WebSocket passes before it is open: address, path, key, limits (spec 6.1; B5, B15, D63, D64).

A key stands behind the path (``/VCPlog/VCP_Key=<key>``: the very bytes that were sent, up to the ``?``), in
``Authorization: Bearer``, or among the sub-protocols: as it is, or as ``vcp-key.`` and its base64url form.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from urllib.parse import parse_qsl, quote

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.errors import ForbiddenError, NotFoundError, ShutdownError, UnauthorizedError, VcpError, both
from app.extend import DeclaredSocket, SocketRequest
from app.web.blocking import AddressBlocks
from app.web.errors import error_response
from app.web.socket_connection import EXTENSION, SocketConnection, SocketLimits

log = logging.getLogger(__name__)

SUBPROTOCOL = "vcp"
"""Offered beside a key, this one is chosen, so that the answer does not repeat the key."""

KEY_SUBPROTOCOL = "vcp-key."
QUERY_FIELDS = 32
MAX_KEY_CHARS = 4096

_FORBIDDEN = "Forbidden: Your IP address has been blocked due to suspicious activity."
_NO_SOCKET = both("没有此 WebSocket 接口（区分大小写）", "no WebSocket is served at this path; capitals count")
_NO_KEY = both(
    "密钥错误或缺失：请写在路径 /VCP_Key=<密钥>、Authorization: Bearer 或子协议中",
    "the key is missing or wrong; send it in the path as /VCP_Key=<key>, as Authorization: Bearer or as a sub-protocol",
)


class SocketGate:
    """The ASGI application for WebSockets of one listener; everything else is not its business.

    ``limits`` gives the limits of now, apart from the length of messages, which each path has for itself, and
    ``connections`` how many may be open at a time.
    """

    def __init__(
        self,
        sockets: Sequence[DeclaredSocket],
        *,
        blocks: AddressBlocks,
        address: Callable[[Scope], str],
        limits: Callable[[], SocketLimits],
        connections: Callable[[], int],
        stopping: Callable[[], bool],
    ) -> None:
        self._sockets = sorted(sockets, key=lambda declared: len(declared.path), reverse=True)
        self._blocks = blocks
        self._address = address
        self._limits = limits
        self._connections = connections
        self._stopping = stopping
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket to its end, or refuse it with an HTTP status."""
        await receive()  # the wish to connect
        try:
            declared, request, subprotocol = self._let_in(scope)
            handler = declared.accept(request)
        except VcpError as error:
            await self._refuse(error, scope, receive, send)
            return
        connection: SocketConnection = scope["extensions"][EXTENSION]["connection"]
        self._open += 1
        try:
            await send({"type": "websocket.accept", "subprotocol": subprotocol})
            limits = replace(self._limits(), message_bytes=declared.max_message_bytes())
            connection.serve(handler, request.address, limits)
            await connection.ended
        finally:
            self._open -= 1

    async def _refuse(self, error: VcpError, scope: Scope, receive: Receive, send: Send) -> None:
        response: Response = error_response("", error)
        await response(scope, receive, send)

    def _let_in(self, scope: Scope) -> tuple[DeclaredSocket, SocketRequest, str | None]:
        address = self._address(scope)
        if self._blocks.blocked(address):
            raise ForbiddenError(_FORBIDDEN)
        path = scope["raw_path"].decode("latin-1")
        declared, in_path = self._declared(path)
        headers = Headers(scope=scope)
        origin = headers.get("origin", "")
        offered = list(scope["subprotocols"])
        identity = self._identity(declared, in_path, headers, offered)
        if identity is None:
            if in_path or headers.get("authorization") or any(name != SUBPROTOCOL for name in offered):
                self._blocks.wrong_key(address)
            elif declared.open_to is not None and declared.open_to(origin, headers.get("host", "")):
                identity = ""
        if identity is None:
            log.info("a WebSocket at %s is refused to %s: no key, or a wrong one", declared.path, address)
            raise (ForbiddenError if declared.open_to is not None and not declared.keys() else UnauthorizedError)(
                _NO_KEY
            )
        if self._stopping():
            raise ShutdownError()
        if self._open >= self._connections():
            raise _TooManyError()
        query: dict[str, str] = {}
        for name, value in parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=QUERY_FIELDS):
            query.setdefault(name, value)
        request = SocketRequest(declared.path, address, query, identity, origin)
        return declared, request, _chosen(offered)

    def _declared(self, path: str) -> tuple[DeclaredSocket, str]:
        """The path that was meant, and the key that stands behind it (empty: none)."""
        for declared in self._sockets:
            if path == declared.path:
                return declared, ""
            before = f"{declared.path.rstrip('/')}/{declared.key_prefix}"
            if path.startswith(before) and len(path) > len(before):
                return declared, path[len(before) :]
        raise NotFoundError(_NO_SOCKET)

    def _identity(self, declared: DeclaredSocket, in_path: str, headers: Headers, offered: Sequence[str]) -> str | None:
        """Whose key was brought: empty for one of the path's own, None for none of all."""
        given = [in_path.encode("latin-1")] if in_path else []
        authorization = headers.get("authorization", "").encode("latin-1").strip()
        if authorization[:7].lower() == b"bearer ":
            given.append(authorization[7:].strip())
        for name in offered:
            if name.startswith(KEY_SUBPROTOCOL):
                given += _decoded(name.removeprefix(KEY_SUBPROTOCOL))
            elif name != SUBPROTOCOL:
                given.append(name.encode("latin-1", "replace"))
        given = [value for value in given if 0 < len(value) <= MAX_KEY_CHARS]
        keys = declared.keys
        for key in keys():
            # Clients that build addresses by the book write a key with other than plain characters in this form.
            forms = (key.encode("utf-8", "surrogateescape"), quote(key, safe="", errors="replace").encode())
            if key and any(hmac.compare_digest(value, form) for value in given for form in forms):
                return ""
        if declared.identify is not None:
            for value in given:
                if (owner := declared.identify(value.decode("utf-8", "replace"))) is not None:
                    return owner
        return None


def _decoded(text: str) -> list[bytes]:
    try:
        return [base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))]
    except (binascii.Error, ValueError):
        return []


def _chosen(offered: Sequence[str]) -> str | None:
    """The sub-protocol that is answered with: a browser hangs up when none of those that it offered is."""
    return SUBPROTOCOL if SUBPROTOCOL in offered else offered[0] if offered else None


class _TooManyError(VcpError):
    status = 503
    code = "too_many_connections"

    def __init__(self) -> None:
        super().__init__(both("WebSocket 连接过多，请稍后重试", "too many WebSockets are open, try again later"))
