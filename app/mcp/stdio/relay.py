"""A stdio connection handed on to the server that owns the home, at its ``/mcp`` (D88; mcp.md MCP-60 … MCP-63).

One connection is one session there, so progress tokens, cursors and request states pass as they are and nothing of the
protocol is lost. Ids are written anew in both directions: those of the server's questions begin again when it does, and
a late word about a request that the client has cancelled must not meet its next one. When the server stops or starts
anew, what was running is told so, and the next request opens another session: with the same handshake, the same
subscriptions, and the news that all lists may have changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from app.errors import VcpError, both
from app.extend import Json
from app.mcp.stdio.batches import key
from app.mcp.stdio.eras import INITIALIZE, PING, Era, ModernHeaders
from app.mcp.stdio.session import Destination, Session, UnreachableError

HANDSHAKE_SECONDS = 30.0

MAX_QUESTIONS = 1000
"""Questions of the server that the client has not answered; the oldest are forgotten."""

MAX_KEPT = 1000
"""Subscriptions that are asked for again after the server has started anew."""

LISTEN = "subscriptions/listen"
"""Keeps its id, which stands in whatever is told because of it (MCP-31)."""

INITIALIZED = "notifications/initialized"
CANCELLED = "notifications/cancelled"
OWN_ID = "vcp-relay-"
"""Begins the ids of requests that the client knows nothing of."""

LISTS = ("tools", "prompts", "resources")


@dataclass(slots=True)
class _Asked:
    """A request of the client without an answer; ``id`` is what the server knows it by.

    ``again`` is set once it was sent for the second time.
    """

    message: JSONRPCRequest
    unanswered: Callable[[], Awaitable[None]] | None
    id: RequestId = ""
    session: Session | None = None
    again: bool = False


class Relay:
    """Serves one client with another server. ``where`` finds that server anew at each request; it may block."""

    def __init__(self, where: Callable[[], Destination]) -> None:
        self._where = where
        self._era = Era()
        self._headers = ModernHeaders()
        self._session: Session | None = None
        self._opening = asyncio.Lock()
        self._resending: set[asyncio.Task[None]] = set()
        self._forgotten: set[Session] = set()
        self._asked: dict[RequestId, _Asked] = {}
        self._own: dict[str, asyncio.Future[JSONRPCResponse | JSONRPCError]] = {}
        self._questions: dict[RequestId, tuple[Session, RequestId]] = {}
        self._number = 0
        self._handshake: JSONRPCRequest | None = None
        self._revision = ""
        self._kept: dict[str, JSONRPCRequest] = {}
        self._to_client: MemoryObjectSendStream[SessionMessage]

    async def drive(
        self,
        incoming: MemoryObjectReceiveStream[SessionMessage | Exception],
        outgoing: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        """Serve the two streams until the first ends; whatever the client has left running is cancelled then."""
        self._to_client = outgoing
        try:
            async with incoming, outgoing:
                async for item in incoming:
                    if isinstance(item, SessionMessage):
                        await self._from_client(item)
                for asked in list(self._asked.values()):
                    await self._cancel_there(asked)
                await self._close()
        finally:
            for task in self._resending:
                task.cancel()
            for session in self._forgotten:
                session.end()
            await self._close()

    # From the client.

    async def _from_client(self, item: SessionMessage) -> None:
        match item.message:
            case JSONRPCRequest() as request:
                metadata = item.metadata
                hook = metadata.on_request_unanswered if isinstance(metadata, ServerMessageMetadata) else None
                await self._request(_Asked(request, hook))
            case JSONRPCNotification() as notification:
                await self._notification(notification)
            case answer:
                await self._answer(answer)

    async def _request(self, asked: _Asked) -> None:
        request = asked.message
        if (error := self._era.refused(request)) is not None:
            await self._tell(JSONRPCError(jsonrpc="2.0", id=request.id, error=error))
            return
        if request.method == PING and not self._era.modern:
            await self._tell(JSONRPCResponse(jsonrpc="2.0", id=request.id, result={}))
            return
        if request.method == INITIALIZE:
            await self._close()
            self._handshake, self._revision, self._kept = None, "", {}
        await self._forward(asked)

    async def _forward(self, asked: _Asked) -> None:
        request = asked.message
        try:
            try:
                await self._send(asked)
            except UnreachableError:  # the session ended before it had the request
                await self._send(asked)
        except VcpError as error:
            self._asked.pop(asked.id, None)
            await self._tell(_failed(request.id, error.message))

    async def _send(self, asked: _Asked) -> None:
        request = asked.message
        self._asked.pop(asked.id, None)
        asked.session = session = await self._opened()
        asked.id = request.id if request.method == LISTEN else self._new_id()
        self._asked[asked.id] = asked
        headers = self._headers.of(request) if self._era.modern else self._legacy_headers(request)
        await session.send(request.model_copy(update={"id": asked.id}), headers)

    async def _notification(self, notification: JSONRPCNotification) -> None:
        if notification.method == CANCELLED:
            params = dict(notification.params or {})
            named = params.get("requestId")
            asked = self._with_id(named) if isinstance(named, str | int) else None
            if asked is not None:
                del self._asked[asked.id]
                await self._cancel_there(asked, params)
                if asked.unanswered is not None:
                    await asked.unanswered()
        elif not self._era.modern and self._handshake is not None and self._session is not None:
            with contextlib.suppress(VcpError):  # a server that is gone; the next session begins with the handshake
                await self._session.send(notification, self._legacy_headers(notification))

    def _with_id(self, id: RequestId) -> _Asked | None:
        """The request that the client knows by this id."""
        return next((asked for asked in self._asked.values() if key(asked.message.id) == key(id)), None)

    async def _cancel_there(self, asked: _Asked, params: Mapping[str, Json] | None = None) -> None:
        told = {**(params or {}), "requestId": asked.id}
        notification = JSONRPCNotification(jsonrpc="2.0", method=CANCELLED, params=told)
        if asked.session is not None:
            with contextlib.suppress(VcpError):  # then nothing runs there any more
                await asked.session.send(notification, self._legacy_headers(notification))

    async def _answer(self, answer: JSONRPCResponse | JSONRPCError) -> None:
        asked = self._questions.pop(answer.id, None) if answer.id is not None else None
        if asked is None:
            return  # asked by a server that has ended since
        session, id = asked
        with contextlib.suppress(VcpError):
            await session.send(answer.model_copy(update={"id": id}), self._legacy_headers(answer))

    def _legacy_headers(self, message: JSONRPCMessage) -> dict[str, str]:
        if not self._revision or (isinstance(message, JSONRPCRequest) and message.method == INITIALIZE):
            return {}
        return {MCP_PROTOCOL_VERSION_HEADER: self._revision}

    # The session.

    async def _opened(self) -> Session:
        """The session with the server of now; VcpError when there is none."""
        async with self._opening:
            destination = await asyncio.to_thread(self._where)
            before = self._session
            if before is not None and before in self._forgotten:
                self._session = None  # it ends when all that was sent to it has been refused
            elif before is not None and before.usable and before.destination == destination:
                return before
            else:
                await self._close()
            session = Session(destination, self._from_server, self._lost)
            await session.opened()
            if self._handshake is not None:
                await self._shake_hands_again(session, self._handshake)
            self._session = session
            return session

    async def _shake_hands_again(self, session: Session, handshake: JSONRPCRequest) -> None:
        try:
            answer = await self._own_request(session, handshake.method, handshake.params or {}, {})
            result = answer.result if isinstance(answer, JSONRPCResponse) else {}
            if result.get("protocolVersion") != self._revision:
                raise _failed_handshake()
            version = {MCP_PROTOCOL_VERSION_HEADER: self._revision}
            await session.send(JSONRPCNotification(jsonrpc="2.0", method=INITIALIZED), version)
            for kept in self._kept.values():
                await self._own_request(session, kept.method, kept.params or {}, version)
        except VcpError:
            await session.close()
            raise
        for name in _changing(result):
            await self._tell(JSONRPCNotification(jsonrpc="2.0", method=f"notifications/{name}/list_changed"))

    async def _own_request(
        self, session: Session, method: str, params: Mapping[str, Json], headers: Mapping[str, str]
    ) -> JSONRPCResponse | JSONRPCError:
        id = self._new_id()
        answer: asyncio.Future[JSONRPCResponse | JSONRPCError] = asyncio.get_running_loop().create_future()
        self._own[id] = answer
        try:
            await session.send(JSONRPCRequest(jsonrpc="2.0", id=id, method=method, params=dict(params)), headers)
            ended = asyncio.ensure_future(session.ended())
            try:
                await asyncio.wait((answer, ended), timeout=HANDSHAKE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ended.cancel()
        finally:
            del self._own[id]
        if not answer.done():
            raise UnreachableError
        return answer.result()

    def _new_id(self) -> str:
        self._number += 1
        return f"{OWN_ID}{self._number}"

    async def _close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _lost(self, session: Session) -> None:
        for id in [id for id, (asking, _) in self._questions.items() if asking is session]:
            del self._questions[id]
        for id, asked in [(id, asked) for id, asked in self._asked.items() if asked.session is session]:
            del self._asked[id]
            text = both(
                "与服务器的连接已断开，请求可能已执行",
                "the connection to the server was lost; the request may have run",
            )
            await self._tell(_failed(asked.message.id, text, CONNECTION_CLOSED))

    # From the server.

    async def _from_server(self, session: Session, message: JSONRPCMessage) -> None:
        match message:
            case JSONRPCResponse() | JSONRPCError():
                await self._answered(session, message)
            case JSONRPCRequest():
                await self._tell(message.model_copy(update={"id": self._asked_by(session, message.id)}))
            case JSONRPCNotification():
                await self._tell(self._renamed(session, message) if message.method == CANCELLED else message)

    def _asked_by(self, session: Session, id: RequestId) -> str:
        """The id under which the client gets a question."""
        ours = self._new_id()
        self._questions[ours] = session, id
        if len(self._questions) > MAX_QUESTIONS:
            del self._questions[next(iter(self._questions))]
        return ours

    def _renamed(self, session: Session, cancelled: JSONRPCNotification) -> JSONRPCNotification:
        """The server takes back a question; the client knows it by our id."""
        params = dict(cancelled.params or {})
        for ours, asked in self._questions.items():
            if asked == (session, params.get("requestId")):
                params["requestId"] = ours
        return cancelled.model_copy(update={"params": params})

    async def _answered(self, session: Session, answer: JSONRPCResponse | JSONRPCError) -> None:
        if isinstance(answer.id, str) and (own := self._own.get(answer.id)) is not None:
            if not own.done():
                own.set_result(answer)
            return
        asked = self._asked.get(answer.id) if answer.id is not None else None
        if asked is None or asked.session is not session:
            return  # cancelled meanwhile
        del self._asked[asked.id]
        if session in self._forgotten and all(other.session is not session for other in self._asked.values()):
            self._forgotten.discard(session)
            session.end()
        if isinstance(answer, JSONRPCResponse):
            self._learn(asked.message, answer.result)
        elif session.forgotten and answer.error.code == INVALID_REQUEST and not asked.again:
            asked.again = True  # refused before it ran (MCP-58)
            self._resend(session, asked)
            return
        elif session.refused:
            text = both("服务器不接受此处的密钥", "the server does not take the key of this home")
            answer = _failed(asked.message.id, text)
        elif asked.message.method == INITIALIZE and answer.error.code == METHOD_NOT_FOUND:
            text = both("服务器没有 /mcp（MCPServer 已关闭？）", "the server has no /mcp; is MCPServer off?")
            answer = _failed(asked.message.id, text)
        await self._tell(answer.model_copy(update={"id": asked.message.id}))

    def _resend(self, session: Session, asked: _Asked) -> None:
        """Send a request in a new session; not from the task of the old one, whose other requests are refused too."""
        if any(other.session is session for other in self._asked.values()):
            self._forgotten.add(session)
        else:
            session.end()
        task = asyncio.create_task(self._forward(asked))
        self._resending.add(task)
        task.add_done_callback(self._resending.discard)

    def _learn(self, request: JSONRPCRequest, result: Mapping[str, Json]) -> None:
        """Remember what a later session has to begin with."""
        params = request.params or {}
        match request.method:
            case "initialize":
                self._handshake, self._revision = request, str(result.get("protocolVersion", ""))
                self._era.initialized()
            case "tools/list":
                self._headers.listed(result)
            case "logging/setLevel":
                self._kept[request.method] = request
            case "resources/subscribe" if len(self._kept) < MAX_KEPT:
                self._kept[f"subscribe {params.get('uri')}"] = request
            case "resources/unsubscribe":
                self._kept.pop(f"subscribe {params.get('uri')}", None)

    async def _tell(self, message: JSONRPCMessage) -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the client is gone
            await self._to_client.send(SessionMessage(message))


def _changing(result: Mapping[str, Json]) -> list[str]:
    """The lists of which the server says that it tells when they change."""
    capabilities = result.get("capabilities")
    known = capabilities if isinstance(capabilities, Mapping) else {}
    return [name for name in LISTS if isinstance(found := known.get(name), Mapping) and found.get("listChanged")]


def _failed(id: RequestId, message: str, code: int = INTERNAL_ERROR) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=message))


def _failed_handshake() -> VcpError:
    text = both("服务器重启后握手失败", "the server has started anew and does not take the handshake")
    return VcpError(f"{text}; {both('请重新连接', 'connect again')}")
