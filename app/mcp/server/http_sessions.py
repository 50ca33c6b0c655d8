"""Streamable HTTP: the SDK's session manager with what this server adds to it (mcp.md MCP-40 to MCP-47)."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from anyio import BrokenResourceError, ClosedResourceError
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import HEADER_MISMATCH, INVALID_REQUEST, PROTOCOL_VERSION_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.errors import BadRequestError, both
from app.extend import Json
from app.mcp.server.batches import BATCH_VERSIONS, answer_batch
from app.mcp.server.envelopes import envelope_fault
from app.mcp.server.event_memory import EventMemory
from app.mcp.server.principal import HTTP_CALLER, HttpCaller, Principal
from app.mcp.server.request_ids import RequestIds, request_id

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0
"""Longest wait at the end for sessions and what they run."""

RETRY_MS = 1000
"""How long a client should wait before it asks for the rest of a stream that broke off."""

_LISTEN = "subscriptions/listen"


class _Manager(StreamableHTTPSessionManager):
    """The SDK's manager, which would let all sessions share one event store, and with it their streams."""

    def __init__(self, server: Server[Any], memory: EventMemory) -> None:
        self._memory = memory
        # Bodies were measured before they come here.
        super().__init__(server, max_request_body_size=1 << 40, retry_interval=RETRY_MS)

    @property
    def event_store(self) -> EventStore | None:
        """A new store for each session: the manager asks once for each."""
        return self._memory.session()

    @event_store.setter
    def event_store(self, store: EventStore | None) -> None:
        """Nothing: there is one store for each session."""


class HttpSessions:
    """Serves requests of one endpoint, both eras. Blanks around values of headers are no part of them (RFC 9110, 5.5).

     ``max_sessions`` and ``idle_seconds`` give the limits of now.

    Who is let in, and how large a body may be, was decided before.
    """

    def __init__(
        self,
        server: Server[Any],
        *,
        max_sessions: Callable[[], int],
        idle_seconds: Callable[[], float],
        memory: EventMemory | None = None,
    ) -> None:
        self._manager = _Manager(server, memory or EventMemory())
        self._handle = AuthContextMiddleware(self._manager.handle_request)
        self._max_sessions = max_sessions
        self._idle_seconds = idle_seconds
        self._ids = RequestIds()
        server.middleware.insert(0, self._ids.followed)
        self._versions: OrderedDict[str, str] = OrderedDict()
        self._closing = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to serve; called once."""
        started = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(started), name="sessions of /mcp")
        await started

    async def _run(self, started: asyncio.Future[None]) -> None:
        """The task that owns the manager's task group, which only whoever opened it may close."""
        async with self._manager.run():
            started.set_result(None)
            await self._stopping.wait()

    def close_streams(self) -> None:
        """The server is about to stop: end what only waits for news, so that nobody waits for it (P83)."""
        self._closing.set()

    async def stop(self) -> None:
        """End all sessions and what they run."""
        self._closing.set()
        self._stopping.set()
        if self._task is not None:
            done, _ = await asyncio.wait({self._task}, timeout=STOP_SECONDS)
            if not done:
                log.error("sessions of MCP clients have not ended in %g s", STOP_SECONDS)
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=STOP_SECONDS)

    async def handle(self, scope: Scope, receive: Receive, send: Send, caller: HttpCaller, body: bytes) -> None:
        """Answer a request whose ``body`` has been read."""
        answer = _OneAnswer(send)
        try:
            await self._answer(scope, receive, answer, caller, body)
        except (BrokenResourceError, ClosedResourceError):
            # The SDK hands a message on after it has answered, to a session that may have ended meanwhile. With this
            # the web server would cut a connection on which the client's next request is coming already.
            if not answer.ended:
                raise

    async def _answer(self, scope: Scope, receive: Receive, send: Send, caller: HttpCaller, body: bytes) -> None:
        self._manager.max_sessions = self._max_sessions()
        self._manager.session_idle_timeout = self._idle_seconds()
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        scope["user"] = _user(caller.principal)
        scope[HTTP_CALLER] = caller
        headers = Headers(scope=scope)
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
        legacy = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
        session = headers.get(MCP_SESSION_ID_HEADER, "")
        known = self._versions.get(session)
        message = _parsed(body) if scope["method"] == "POST" else None
        if legacy and version is not None and known is not None and version != known:
            reason = both(
                f"MCP-Protocol-Version 是 {version}，而此会话使用 {known}",
                f"MCP-Protocol-Version is {version}, but this session speaks {known}",
            )
            await _refuse(400, request_id(message), reason, scope, receive, send)
            return
        if isinstance(message, list) and legacy and known in BATCH_VERSIONS:
            await answer_batch(message, self._hand_on, scope, send)
            return
        if message is not None:
            fault = envelope_fault(message)
            if fault is not None:
                await _refuse(400, fault.id, fault.reason, scope, receive, send)
                return
            if version is None and not session and _says_modern(message):
                reason = both("缺少请求头 MCP-Protocol-Version", "the header MCP-Protocol-Version is missing")
                await _refuse(400, message.get("id"), reason, scope, receive, send, HEADER_MISMATCH)
                return
            if legacy and message.get("method") == "initialize":
                send = self._remembering(message, send)
        if scope["method"] == "GET" or (not legacy and headers.get("mcp-method") == _LISTEN):
            await self._wait_for_news(scope, receive, send, body)
        elif legacy:
            await self._hand_on(message, scope, self._receiving(receive, body), send)
        else:
            await self._handle(scope, self._receiving(receive, body), send)

    async def _hand_on(self, message: Json, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the SDK answer a request; one whose id is in use in its session is refused (MCP-4)."""
        session, named = Headers(scope=scope).get(MCP_SESSION_ID_HEADER), request_id(message)
        if session is None or named is None:
            await self._handle(scope, receive, send)
            return
        try:
            async with self._ids.taken(session, named):
                await self._handle(scope, receive, send)
        except BadRequestError as error:
            await _refuse(400, named, error.message, scope, receive, send)

    async def _wait_for_news(self, scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
        """Serve a request that only waits: it ends, as if its client hung up, when the server is to stop (P83)."""
        open_answer = False

        async def sending(message: Message) -> None:
            nonlocal open_answer
            open_answer = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        await self._handle(scope, self._receiving(receive, body, waits=True), sending)
        if open_answer and self._closing.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _remembering(self, initialize: Mapping[str, Json], send: Send) -> Send:
        """Keeps which revision the session speaks that this answer opens (MCP-42)."""
        params = initialize.get("params")
        asked = params.get("protocolVersion") if isinstance(params, Mapping) else None
        spoken = asked if asked in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                session = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
                if session:
                    self._versions[session] = str(spoken)
                    while len(self._versions) > 2 * self._max_sessions():
                        self._versions.popitem(last=False)  # of a session that has ended, or an old one: not checked
            await send(message)

        return sending

    def _receiving(self, receive: Receive, body: bytes, *, waits: bool = False) -> Receive:
        """Gives the body once more; a request that only ``waits`` for news hangs up when the server is to stop."""
        given = False

        async def receiving() -> Message:
            nonlocal given
            if not given:
                given = True
                return {"type": "http.request", "body": body, "more_body": False}
            if not waits:
                return await receive()
            received = asyncio.ensure_future(receive())
            closing = asyncio.ensure_future(self._closing.wait())
            try:
                await asyncio.wait({received, closing}, return_when=asyncio.FIRST_COMPLETED)
                return received.result() if received.done() else {"type": "http.disconnect"}
            finally:
                received.cancel()
                closing.cancel()

        return receiving


class _OneAnswer:
    """Drops what comes after the end of an answer: the SDK answers a notification, and again with an error when its
    session ends just then, for which the web server would cut the client's connection.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.ended = False

    async def __call__(self, message: Message) -> None:
        if not self.ended:
            self.ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await self._send(message)


def _user(principal: Principal) -> AuthenticatedUser:
    """The caller as the SDK binds sessions and signed states to; the token itself goes no further (MCP-63)."""
    claims = {"iss": principal.issuer} if principal.issuer is not None else None
    return AuthenticatedUser(
        AccessToken(token="", client_id=principal.client, scopes=[], subject=principal.subject, claims=claims)
    )


def _parsed(body: bytes) -> Json:
    """The message of a body; None for what is no JSON: the SDK says what is wrong with that."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _says_modern(message: Mapping[str, Json]) -> bool:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    return isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta


async def _refuse(
    status: int, id: Json, reason: str, scope: Scope, receive: Receive, send: Send, code: int = INVALID_REQUEST
) -> None:
    content = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": reason}}
    await Response(orjson.dumps(content), status, media_type="application/json")(scope, receive, send)
