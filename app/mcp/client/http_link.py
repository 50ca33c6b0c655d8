"""MCP over HTTP: the SDK's transports over a client that bounds what comes and remembers what went wrong (MCP-50)."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from app.errors import VcpError, both
from app.mcp.client.entry_secrets import EntrySecrets
from app.mcp.client.link import PROBE_SECONDS
from app.mcp.client.server_entry import ServerEntry
from app.mcp.client.value_count import MAX_VALUES, EventCount

FRAME_EXTRA = 64 * 1024
KEPT_BODY = 2_000
"""So much of the answer of a request that failed is kept for people."""

FAILED_BODY = 64 * 1024
WRITE_SECONDS = 60.0
_SESSION = "mcp-session-id"
_METHOD = "mcp-method"
_DISCOVER = "server/discover"


class BodyLimitError(httpx2.StreamError):
    """An answer has more bytes than are read, or cannot be read to its end."""


class HttpLink:
    """The way to one server at an address; ``old`` speaks the HTTP+SSE of 2024-11-05.

    ``frame_bytes`` limits one answer, and one event of a stream. ``auth`` signs in (OAuth). A request that does not get
    through is answered with an error, so that others of the connection go on. ``certificates`` are read anew where none
    are given.
    """

    def __init__(
        self,
        entry: ServerEntry,
        *,
        old: bool,
        frame_bytes: int,
        connect_seconds: float,
        auth: httpx2.Auth | None = None,
        probe_seconds: float = PROBE_SECONDS,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        self._entry = entry
        self._old = old
        self._frame_bytes = frame_bytes
        self._connect_seconds = connect_seconds
        self._auth = auth
        self._probe_seconds = probe_seconds
        self._secrets = EntrySecrets(entry)
        self.clean = self._secrets.clean
        self._certificates = certificates if certificates is not None else True
        self._failure = ""
        self._body = ""
        self.gone = asyncio.Event()
        self.session_lost = False
        self.status = 0
        """Status of the last answer that was an error."""
        self.error: BaseException | None = None
        """Why the last request did not get through."""
        self.refused = False
        """Whether ``server/discover`` was refused with 401 or 403, and nothing has been let through since."""

    @property
    def pid(self) -> int | None:
        """None: the server is no child of ours."""
        return None

    def trouble(self) -> str:
        """The last failure, in one line."""
        return self._failure

    def details(self) -> str:
        """The last failure, and the first lines of what the server answered."""
        return "\n".join(part for part in (self._failure, self._body) if part)

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[TransportStreams]:
        """Open the transport; the session is ended at the end."""
        try:
            if self._old:
                transport = sse_client(
                    self._entry.url,
                    headers=dict(self._entry.headers),
                    timeout=self._connect_seconds,
                    httpx_client_factory=self._client,
                    auth=self._auth,
                )
                async with transport as streams:
                    yield streams
                return
            async with (
                self._client(dict(self._entry.headers), None, self._auth) as client,
                streamable_http_client(
                    self._entry.url, http_client=client, max_sse_event_size=self._frame_bytes
                ) as streams,
            ):
                yield streams
        finally:
            self.gone.set()

    def _client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        # No time limit for reading: calls have their own, and a stream may be silent for as long as it likes.
        limits = httpx2.Timeout(self._connect_seconds, read=None, write=WRITE_SECONDS)
        sent = {"accept-encoding": "identity", **(headers or {})}
        hooks = {"response": [self._answered]}
        return _Client(self, headers=sent, timeout=limits, auth=auth, event_hooks=hooks, verify=self._certificates)

    async def _answered(self, response: httpx2.Response) -> None:
        """Bounds every answer, and keeps what was wrong with it."""
        request = response.request
        self._secrets.sent(request.headers.get("authorization", ""))
        encoding = response.headers.get("content-encoding", "identity")
        limit: int | None = None
        if encoding.lower() != "identity":
            limit = -1
        elif response.status_code >= 400:
            limit = FAILED_BODY
        elif not _is_stream(response):
            limit = self._frame_bytes + FRAME_EXTRA
        whole = self._old and request.method == "GET"  # all answers come in this one
        ended = self.gone.set if whole else _nothing
        response.stream = _Bounded(response.stream, limit, f"content-encoding {encoding[:20]}", ended)
        if request.method == "DELETE" or self._is_optional(request, response):
            return
        if response.status_code < 400:
            self._failure, self._body, self.status, self.error = "", "", 0, None
            self.refused = False
            return
        if self._old:
            self.gone.set()
        self.status = response.status_code
        self.refused = self.refused or (self.status in (401, 403) and request.headers.get(_METHOD) == _DISCOVER)
        self._failure = self.clean(f"HTTP {response.status_code} {response.reason_phrase}".strip())
        if not _is_stream(response):
            try:
                body = await response.aread()
            except (httpx2.StreamError, httpx2.HTTPError):
                body = b""
            self._body = self.clean(body.decode("utf-8", "replace"))[:KEPT_BODY]
            if _SESSION in request.headers:
                lost = response.status_code == 404 or (response.status_code == 400 and b"session" in body.lower())
                self.session_lost = self.session_lost or lost

    def _is_optional(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        """The stream of a server that speaks of itself is one that it may not have."""
        return request.method == "GET" and not self._old and response.status_code in (404, 405)

    async def sent(self, client: _Client, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send, and make an answer of what went wrong."""
        seconds = self._probe_seconds if request.headers.get(_METHOD) == _DISCOVER else None
        code = types.INTERNAL_ERROR
        try:
            async with asyncio.timeout(seconds):
                return await client.really_send(request, **options)
        except TimeoutError:
            reason, code = "no answer to server/discover", types.METHOD_NOT_FOUND
        except (httpx2.HTTPError, httpx2.InvalidURL, OAuthFlowError, VcpError, OSError) as error:
            self.error = error
            reason = self.clean(_reason(error))
            self._failure, self._body = reason, self.clean(f"{type(error).__name__}: {error}")
            if self._old:
                self.gone.set()
            if request.method != "POST" or self._old:
                raise
        error_body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": reason}}
        return httpx2.Response(
            503, headers={"content-type": "application/json"}, content=json.dumps(error_body).encode(), request=request
        )


class _Client(httpx2.AsyncClient):
    def __init__(self, link: HttpLink, **options: Any) -> None:
        super().__init__(**options)
        self._link = link

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        return await self._link.sent(self, request, **options)

    async def really_send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        return await super().send(request, **options)


class _Bounded(httpx2.AsyncByteStream):
    """A body of at most ``limit`` bytes (None: of any length; below 0: none is read, for ``reason``).

    No message in it has more than ``MAX_VALUES`` values.
    """

    def __init__(self, inner: Any, limit: int | None, reason: str, ended: Callable[[], None]) -> None:
        self._inner = inner
        self._limit = limit
        self._reason = reason
        self._ended = ended

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._limit is not None and self._limit < 0:
            raise BodyLimitError(both(f"不支持的 {self._reason}", f"{self._reason} is not read here"))
        size = 0
        count = EventCount()
        try:
            async for piece in self._inner:
                size += len(piece)
                if count.feed(piece) > MAX_VALUES:
                    raise BodyLimitError(
                        both(f"结果超过 {MAX_VALUES} 个值", f"the result has more than {MAX_VALUES} values")
                    )
                if self._limit is not None and size > self._limit:
                    limit = self._limit // (1024 * 1024)
                    raise BodyLimitError(both(f"结果超过 {limit} MiB", f"the result has more than {limit} MiB"))
                yield piece
        except httpx2.HTTPError as error:
            raise BodyLimitError(_reason(error)) from error
        finally:
            self._ended()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _nothing() -> None:
    """The end of one answer is nobody else's."""


def _is_stream(response: httpx2.Response) -> bool:
    return bool(response.headers.get("content-type", "").lower().startswith("text/event-stream"))


def _reason(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, VcpError):
        return error.message
    if isinstance(error, httpx2.ConnectTimeout):
        return both("连接超时", "connecting took too long")
    if isinstance(error, httpx2.ConnectError):
        return both("无法连接", "cannot be reached") + f": {text}"
    if isinstance(error, httpx2.TransportError):
        return both("连接中断", "the connection broke") + f": {text}"
    return text
