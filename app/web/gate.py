"""What every request passes before it reaches a route: address, path, CORS, blocks, access."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import ForbiddenError, UnauthorizedError, both
from app.extend import Access, PathKey
from app.observe.action_log import Action
from app.web.addresses import Network, client_address
from app.web.admin_access import AdminAccess
from app.web.blocking import AddressBlocks
from app.web.declared import AccessTable, Rule, is_admin_path
from app.web.errors import error_response, path_key_error
from app.web.paths import shown_path

log = logging.getLogger(__name__)

CLIENT_IP = "vcp.client_ip"
"""Key of the ASGI scope under which routes find the client's address."""

# Which pages may read an answer is not for the upstream to say, whose headers are passed on.
_OURS = frozenset({b"access-control-allow-origin", b"access-control-allow-credentials"})
_METHODS = "GET,HEAD,PUT,PATCH,POST,DELETE"
UNAUTHORIZED = "Unauthorized (Bearer token required)"
_NO_PATH_KEY = both(
    "路径的第一段必须带有密钥，如 pw=<密钥>", "the first part of the path must hold the key, as in pw=<key>"
)
_NO_ROUTE = both("没有此接口", "no route")
_FORBIDDEN = "Forbidden: Your IP address has been blocked due to suspicious activity."

_ASKED_ONLY = frozenset(
    {
        "/AdminPanel/approvals-news",
        "/AdminPanel/playground/markdown",
        "/AdminPanel/prompts/preview",
        "/admin_api/panel/prompt-preview",
        "/admin_api/panel/tool-list-preview",
    }
)
"""POSTs of the panel that change nothing. It sends some every few seconds, which would push out what was changed."""


AllowedOrigin = Callable[[Headers], str | None]
"""The value of ``Access-Control-Allow-Origin`` for a request's headers, None for none."""


def log_post(path: str, address: str) -> None:
    """The line that tells where a POST came from (spec 1.1)."""
    log.info("POST %s from %s", shown_path(path), address)


class Gate:
    """ASGI middleware around the whole app (spec 1.1 - 1.3, 1.11; B1, B2, B5, B6, B12, B18).

    What a path needs is said by ``table``, which may be replaced at any time; a path without a rule needs the key,
    whether it has a route or not, and everything in the administrators' part needs their login. ``sockets`` is the gate
    of WebSockets, ``acted`` hears of what administrators change, ``origins_of`` says for some paths which pages may
    read their answers, in place of ``cors_origins``. Nothing of a body is read before the request was seen to be
    allowed. The log has a line with the address for every POST but those that only ask; routes at the paths that
    ``tell_themselves`` write it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        key: Callable[[], str],
        table: AccessTable,
        trusted_proxies: Callable[[], Sequence[Network]],
        blocks: AddressBlocks,
        cors_origins: Callable[[], Sequence[str]],
        admin: AdminAccess,
        sockets: ASGIApp,
        tell_themselves: Iterable[str] = (),
        origins_of: Mapping[str, AllowedOrigin] | None = None,
        acted: Callable[[Action], None] = lambda _action: None,
    ) -> None:
        self._app = app
        self._key = key
        self.table = table
        self._trusted = trusted_proxies
        self._blocks = blocks
        self._origins = cors_origins
        self._admin = admin
        self._sockets = sockets
        self._tell_themselves = frozenset(tell_themselves)
        self._origins_of = origins_of or {}
        self._acted = acted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._sockets(scope, receive, send)
            return
        scope[CLIENT_IP] = address = client_address(scope, self._trusted())
        table = self.table
        scope["path"] = path = table.canonical(scope["path"])
        headers = Headers(scope=scope)
        method = scope["method"]
        rule = table.rule(path, method)
        for_admins = is_admin_path(path) or (rule is not None and rule.access is Access.ADMIN)
        send = self._with_cors(path, headers, send, for_admins)
        asked_only = for_admins and path in _ASKED_ONLY
        if method == "OPTIONS" and not for_admins:
            await self._preflight(headers, send)
            return
        refusal = self._refusal(path, method, rule, headers, address, for_admins)
        if for_admins and refusal is None and method not in ("GET", "HEAD", "OPTIONS") and not asked_only:
            send = self._noted(send, path, method, headers, address)
        if method == "POST" and (refusal is not None or not (asked_only or path in self._tell_themselves)):
            log_post(path, address)
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _refusal(
        self, path: str, method: str, rule: Rule | None, headers: Headers, address: str, for_admins: bool
    ) -> Response | None:
        if self._blocks.blocked(address):
            return error_response(path, ForbiddenError(_FORBIDDEN))
        if for_admins:
            return self._admin.refusal(path, method, headers, address)
        if rule is not None:
            if rule.path_key is not None:
                return self._path_key_refusal(rule, rule.path_key, path, address)
            if rule.access in (Access.OPEN, Access.OWN):
                return None
        if bears_key(headers, self._key()):
            return path_key_error(400, _NO_PATH_KEY) if self.table.lacks_path_key(path) else None
        if headers.get("authorization"):
            self._blocks.wrong_key(address)
        return error_response(path, UnauthorizedError(UNAUTHORIZED))

    def _noted(self, send: Send, path: str, method: str, headers: Headers, address: str) -> Send:
        """``send``, which notes what an administrator does; the routes' own spelling of the path, no query, no body.

        What the gate refused is not noted, and neither is what the login page refuses from a blocked address: anybody
        could else fill the file with it until nothing of the administrators is left.
        """
        via = "login" if self._admin.by_login(headers) else "basic" if "authorization" in headers else ""

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] != 429:
                self._acted(Action(time.time(), address, via, method, shown_path(path), message["status"]))
            await send(message)

        return noting

    def _path_key_refusal(self, rule: Rule, path_key: PathKey, path: str, address: str) -> Response | None:
        expected = path_key.expected().encode("utf-8", "surrogateescape")
        if not expected:
            return path_key_error(*((500, path_key.missing) if path_key.missing else (404, _NO_ROUTE)))
        found = rule.route.path_regex.match(path)
        given = found[path_key.parameter].encode("utf-8", "surrogateescape") if found is not None else b""
        if hmac.compare_digest(given, expected):
            return None
        self._blocks.wrong_stored_key(address, given)
        return path_key_error(401, path_key.wrong)

    def _with_cors(self, path: str, request: Headers, send: Send, for_admins: bool) -> Send:
        own = self._origins_of.get(path)
        allowed = self._allowed_origin(request.get("origin")) if own is None else own(request)
        if for_admins:
            allowed = None

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [pair for pair in message.get("headers", ()) if pair[0].lower() not in _OURS]
                if allowed is not None:
                    headers.append((b"access-control-allow-origin", allowed.encode("latin-1")))
                if allowed != "*":
                    MutableHeaders(raw=headers).add_vary_header("Origin")
                message = {**message, "headers": headers}
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


def bears_key(headers: Headers, key: str) -> bool:
    """Whether a request brings this key; in constant time, and never for an empty one (B5, B6)."""
    # Header values are latin-1 to ASGI while keys may be any text; bytes are what was sent. Blanks behind a value
    # are no part of it to HTTP, but the parser leaves them.
    given = headers.get("authorization", "").encode("latin-1").rstrip(b" \t")
    expected = b"Bearer " + key.encode("utf-8", "surrogateescape")
    return bool(key) and hmac.compare_digest(given, expected)
