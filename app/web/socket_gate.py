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
from urllib.parse import parse_qsl, quote

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.errors import BadRequestError, ForbiddenError, NotFoundError, ShutdownError, UnauthorizedError, VcpError, both
from app.extend import DeclaredSocket, SocketRequest
from app.protocol.loopback import is_loopback
from app.protocol.markers import FATAL_ERROR
from app.web.blocking import AddressBlocks
from app.web.errors import error_response
from app.web.socket_connection import EXTENSION, SocketConnection
from app.web.socket_traffic import SocketLimits, SocketTraffic

log = logging.getLogger(__name__)

SUBPROTOCOL = "vcp"
"""Offered beside a key, this one is chosen, so that the answer does not repeat the key."""

KEY_SUBPROTOCOL = "vcp-key."
QUERY_FIELDS = 32
SUBPROTOCOLS = 16
MAX_KEY_BYTES = 4096

_FORBIDDEN = "Forbidden: Your IP address has been blocked due to suspicious activity."
_NO_SOCKET = both("没有此 WebSocket 接口（区分大小写）", "no WebSocket is served at this path; capitals count")
_NO_KEY = both(
    "密钥错误或缺失：请写在路径 /VCP_Key=<密钥>、Authorization: Bearer 或子协议中",
    "the key is missing or wrong; send it in the path as /VCP_Key=<key>, as Authorization: Bearer or as a sub-protocol",
)
_NO_STRANGERS = both(
    "此端口未设置令牌，只接受本机程序以及本机或 ToolSocketOrigins 中的网页",
    "this port has no token: only programs of this machine come in, and pages of this machine or of ToolSocketOrigins",
)


class SocketGate:
    """The ASGI application for WebSockets of one listener; everything else is not its business.

    ``limits`` gives the limits of now for a longest message, and ``connections`` how many may be open at a time.
    """

    def __init__(
        self,
        sockets: Sequence[DeclaredSocket],
        *,
        blocks: AddressBlocks,
        address: Callable[[Scope], str],
        limits: Callable[[int], SocketLimits],
        traffic: SocketTraffic,
        connections: Callable[[], int],
        stopping: Callable[[], bool],
    ) -> None:
        self._sockets = sorted(sockets, key=lambda declared: len(declared.path), reverse=True)
        self._blocks = blocks
        self._address = address
        self._limits = limits
        self._traffic = traffic
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
        except Exception:  # the boundary of who serves it
            log.exception("a WebSocket could not be served")
            await self._refuse(VcpError(FATAL_ERROR), scope, receive, send)
            return
        connection: SocketConnection = scope["extensions"][EXTENSION]["connection"]
        self._open += 1
        try:
            await send({"type": "websocket.accept", "subprotocol": subprotocol})
            limits = self._limits
            connection.serve(handler, request.address, lambda: limits(declared.max_message_bytes()), self._traffic)
            await connection.gone
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
        offered = list(scope["subprotocols"])[:SUBPROTOCOLS]
        keys_of_now = declared.keys
        keys = [key for key in keys_of_now() if key]
        brought = _brought(declared, in_path, headers, offered)
        identity = _identity(declared, keys, brought)
        if identity is None and declared.open_to is not None and not (keys and brought):
            own = is_loopback(address) and declared.open_to(origin, headers.get("host", ""))
            identity = "" if own else None
        if identity is None:
            if brought and (keys or declared.identify is not None):
                self._blocks.wrong_stored_key(address, b"\0".join(brought))  # clients connect again by themselves
            log.info("a WebSocket at %s is refused to %s: no key, or a wrong one", declared.path, address)
            if declared.open_to is not None and not keys:
                raise ForbiddenError(_NO_STRANGERS)
            raise UnauthorizedError(_NO_KEY)
        if self._stopping():
            raise ShutdownError()
        if self._open >= self._connections():
            raise _TooManyError()
        query: dict[str, str] = {}
        try:
            fields = parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=QUERY_FIELDS)
        except ValueError:
            raise BadRequestError(both("查询参数过多", "too many parameters in the query")) from None
        for name, value in fields:
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


def _brought(declared: DeclaredSocket, in_path: str, headers: Headers, offered: Sequence[str]) -> list[bytes]:
    """All that may be meant as a key."""
    given = [in_path.encode("latin-1")] if in_path else []
    if in_path and not declared.key_prefix:
        given.append(in_path.partition("/")[0].encode("latin-1"))
    authorization = headers.get("authorization", "").encode("latin-1").strip()
    if authorization:
        scheme, _, value = authorization.partition(b" ")
        given.append(value.strip() if scheme.lower() == b"bearer" else authorization)
    for name in offered:
        if name.startswith(KEY_SUBPROTOCOL):
            given += _decoded(name.removeprefix(KEY_SUBPROTOCOL))
        if name != SUBPROTOCOL:
            given.append(name.encode("latin-1", "replace"))
    return [value[:MAX_KEY_BYTES] for value in given]


def _identity(declared: DeclaredSocket, keys: Sequence[str], brought: Sequence[bytes]) -> str | None:
    """Whose key was brought: empty for one of the path's own, None for none of all. How long it takes tells nothing."""
    found = False
    for key in keys:
        # Clients that build addresses by the book write a key with other than plain characters in this form.
        for form in (key.encode("utf-8", "surrogateescape"), quote(key, safe="", errors="replace").encode()):
            for value in brought:
                found |= hmac.compare_digest(value, form)
    if found:
        return ""
    if declared.identify is not None:
        for value in brought:
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
    if SUBPROTOCOL in offered:
        return SUBPROTOCOL
    return next((name for name in offered if not name.startswith(KEY_SUBPROTOCOL)), offered[0] if offered else None)


class _TooManyError(VcpError):
    status = 503
    code = "too_many_connections"

    def __init__(self) -> None:
        super().__init__(both("WebSocket 连接过多，请稍后重试", "too many WebSockets are open, try again later"))
