"""One HTTP exchange with a model API. The only module of the program that imports aiohttp.

aiohttp, because it keeps its speed with many connections. Its defaults that do not suit a model API are set here:
no total time limit, no limit on connections, no cookies, no redirects, no proxy or password file of its own choice.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import aiohttp
from aiohttp import payload

from app.errors import UpstreamBrokenError, UpstreamConnectError, UpstreamTimeoutError, both
from app.extend import UpstreamTarget
from app.upstream.limits import UpstreamLimits
from app.upstream.reply import Reply
from app.upstream.retry import RETRIED_STATUSES, Fault
from app.upstream.urls import host_of

_HEADER_LINE_BYTES = 64 * 1024
_HEADER_COUNT = 512
_READ_BUFFER_BYTES = 256 * 1024  # reading pauses when twice this is waiting to be taken
_BODY_SLICE_BYTES = 256 * 1024
_KEPT_SECONDS = 15.0  # how long an unused connection is kept
_PROBE_AFTER_SECONDS = 60  # a silent connection is kept known to the routers on its way, or found dead
_PROBE_EVERY_SECONDS = 20


class Wire:
    """The connections to model APIs: made when needed, kept for a while, in any number."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self._unread: WeakSet[aiohttp.ClientResponse] = WeakSet()

    async def start(self) -> None:
        """Make the connection pool; the loop must be running."""
        self._session = aiohttp.ClientSession(
            connector=_Connector(
                limit=0, keepalive_timeout=_KEPT_SECONDS, ssl=self._tls or True, socket_factory=_socket
            ),
            cookie_jar=aiohttp.DummyCookieJar(),  # cookies of one client's answer must not go out with another's
            timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
            trust_env=False,  # it would also look for passwords in .netrc, and read the environment on every request
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            read_bufsize=_READ_BUFFER_BYTES,
            max_line_size=_HEADER_LINE_BYTES,
            max_field_size=_HEADER_LINE_BYTES,
            max_headers=_HEADER_COUNT,
        )

    async def stop(self) -> None:
        """Close every connection; answers that are still read break off."""
        session, self._session = self._session, None
        for response in tuple(self._unread):
            _abort(response)  # closing the session alone would leave their readers waiting for ever
        if session is not None:
            await session.close()

    async def open(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | StreamedBody | None,
        proxy: str | None,
        limits: UpstreamLimits,
        target: UpstreamTarget,
    ) -> Reply | Fault:
        """Send one request, once. The reply to it has its first piece of body if its status is 200.

        An attempt that brought no answer is returned as a ``Fault``, never raised. Cancelling closes the connection.
        ``target`` only gives its name to the settings that a fault speaks of.
        """
        if self._session is None:
            return Fault(UpstreamConnectError(both("服务器正在启动或关闭", "the server starts or stops")), False)
        attempt = _Attempt(limits, target)
        host = host_of(url)
        _current.set(attempt)
        try:
            async with attempt.timeout:
                response = await self._session.request(
                    method,
                    url,
                    data=_data(body),
                    headers=headers,
                    proxy=proxy,
                    allow_redirects=False,
                )
                attempt.answered = True
                self._unread.add(response)
                first: bytes | None = None
                try:
                    if response.status == 200:
                        first = await response.content.readany()
                except BaseException:
                    _abort(response)
                    raise
        except TimeoutError:
            return attempt.timed_out(host)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return _fault_of(error, host, proxy, attempt)
        return Reply(_Answer(response, host), first, limits.idle)


class _Attempt:
    """What is known about one attempt while it runs: its phase, and the limit that goes with it."""

    def __init__(self, limits: UpstreamLimits, target: UpstreamTarget) -> None:
        self.limits = limits
        self.target = target
        self.connected = False
        self.reused = False
        self.answered = False
        self.timeout = asyncio.timeout(limits.connect)

    def connection_ready(self, *, reused: bool) -> None:
        """The connection stands: from now on the first byte is waited for."""
        self.connected, self.reused = True, reused
        if not self.timeout.expired():
            self.timeout.reschedule(asyncio.get_running_loop().time() + self.limits.first_byte)

    def timed_out(self, host: str) -> Fault:
        """The fault when the limit of the present phase ran out. Only connecting is tried again."""
        if not self.connected:
            setting = self.target.setting("URL")
            text = both(
                f"{self.limits.connect:g} 秒内没有连上 {host}，请检查 {setting} 和网络",
                f"no connection to {host} within {self.limits.connect:g} s; check {setting} and the network",
            )
            return Fault(UpstreamTimeoutError(text, phase="connect"), retried=True)
        text = both(
            f"{host} 在 {self.limits.first_byte:g} 秒内没有回答，可调大 UpstreamFirstByteTimeout",
            f"{host} sent no answer within {self.limits.first_byte:g} s; raise UpstreamFirstByteTimeout",
        )
        return Fault(UpstreamTimeoutError(text, phase="first_byte"), retried=False)


class _Answer:
    """The ``Source`` of a reply: the body of one aiohttp response."""

    def __init__(self, response: aiohttp.ClientResponse, host: str) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.host = host
        self._response = response
        self._content = response.content

    @property
    def header_items(self) -> Sequence[tuple[str, str]]:
        return tuple(self._response.headers.items())

    def take(self) -> bytes | None:
        content = self._content
        broken = content.exception()
        if broken is None:
            block = content.read_nowait()
            return None if not block and content.at_eof() else block
        # The public ways raise at once; text that had arrived before the break belongs to the client.
        left = content._read_nowait(-1)
        if not left:
            raise UpstreamBrokenError(_broken_text(self.host, broken)) from broken
        return left

    async def wait(self) -> bytes:
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamBrokenError(_broken_text(self.host, error)) from error

    def abort(self) -> None:
        _abort(self._response)


@dataclass(slots=True)
class StreamedBody:
    """A request body that is sent while it comes, ``length`` bytes in all (None: nobody knows). It can be sent once.

    What ``chunks`` raises ends the request and is found in ``fault``; the request itself tells of a lost connection.
    """

    chunks: AsyncIterator[bytes]
    length: int | None = None
    begun: bool = False
    fault: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.begun = True
        try:
            async for chunk in self.chunks:
                yield chunk
        except Exception as error:
            self.fault = error
            raise


def _data(body: bytes | StreamedBody | None) -> payload.Payload | None:
    if isinstance(body, StreamedBody):
        return payload.AsyncIterablePayload(body)
    return _RequestBody(body) if body else None


class _RequestBody(payload.Payload):
    """A request body that is in memory. Written in slices, so that a large one neither warns nor blocks the loop."""

    _value: bytes
    _autoclose = True

    def __init__(self, value: bytes) -> None:
        super().__init__(value)
        self._size = len(value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text."""
        return self._value.decode(encoding, errors)

    async def write(self, writer: Any) -> None:
        """Write all of it."""
        if len(self._value) <= _BODY_SLICE_BYTES:
            await writer.write(self._value)
            return
        view = memoryview(self._value)
        for start in range(0, len(view), _BODY_SLICE_BYTES):
            await writer.write(view[start : start + _BODY_SLICE_BYTES])


# The attempt that the running task makes: aiohttp hands nothing of a request through to the connector.
_current: ContextVar[_Attempt] = ContextVar("attempt")


def _socket(address: aiohttp.connector.AddrInfoType) -> socket.socket:
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    # A model may think for minutes: routers forget a connection on which nothing moves.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options: tuple[tuple[str, int], ...] = (
        ("TCP_KEEPIDLE", _PROBE_AFTER_SECONDS),
        ("TCP_KEEPINTVL", _PROBE_EVERY_SECONDS),
        # A peer that takes nothing more of a request must not hold its socket for ever.
        ("TCP_USER_TIMEOUT", min(int(_current.get().limits.first_byte * 1000), 2**31 - 1)),
    )
    for name, value in options:
        if hasattr(socket, name):  # not every system knows all of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


class _Connector(aiohttp.TCPConnector):
    """Tells the attempt that waits for a connection when it has one, and whether it is a kept one.

    aiohttp offers tracing for this, which costs a tenth of a request.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._known: WeakSet[Any] = WeakSet()

    async def connect(self, *request: Any, **options: Any) -> Any:
        """A connection from the pool, or a new one."""
        connection = await super().connect(*request, **options)
        protocol = connection.protocol
        reused = protocol in self._known
        if not reused:
            self._known.add(protocol)
        _current.get().connection_ready(reused=reused)
        return connection


def _abort(response: aiohttp.ClientResponse) -> None:
    """Close the connection of an answer that is not read to its end, without waiting for anything."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()  # closing alone would first send what is left of a request nobody wants
    response.close()


def _fault_of(error: Exception, host: str, proxy: str | None, attempt: _Attempt) -> Fault:
    """What an exception means. Its own text is not used: it may hold addresses with passwords."""
    setting = attempt.target.setting("URL")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        text = both(
            f"代理 {host_of(proxy or '')} 返回状态码 {error.status}，没有连接到 {host}，请检查 UpstreamProxy",
            f"the proxy {host_of(proxy or '')} answered status {error.status} instead of connecting to {host}; "
            "check UpstreamProxy",
        )
        return Fault(UpstreamConnectError(text), retried=error.status in RETRIED_STATUSES)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or "not trusted"
        text = both(
            f"{host} 的证书不被接受，请检查 {setting} 和系统证书",
            f"the certificate of {host} was refused ({reason}); check {setting} and the system's certificates",
        )
        return Fault(UpstreamConnectError(text), retried=False)
    if isinstance(error, aiohttp.ClientSSLError):
        reason = getattr(error.os_error, "reason", None) or "handshake failed"
        text = both(
            f"无法与 {host} 建立安全连接，那里是 https:// 吗",
            f"no secure connection to {host} ({reason}); is it https:// there?",
        )
        return Fault(UpstreamConnectError(text), retried=True)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        text = both(
            f"无法解析 {host}，请检查 {setting} 和网络",
            f"the name of {host} cannot be resolved; check {setting} and the network",
        )
        return Fault(UpstreamConnectError(text), retried=True)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        text = both(
            f"无法连接代理 {host_of(proxy or '')}，请检查 UpstreamProxy",
            f"the proxy {host_of(proxy or '')} cannot be reached ({_reason(error)}); check UpstreamProxy",
        )
        return Fault(UpstreamConnectError(text), retried=True)
    if isinstance(error, aiohttp.ClientConnectorError):
        text = both(
            f"无法连接 {host}，请检查 {setting}，并确认模型接口在运行",
            f"{host} cannot be reached ({_reason(error)}); check {setting} and that the model API is running",
        )
        return Fault(UpstreamConnectError(text), retried=True)
    if isinstance(error, aiohttp.ClientConnectionError | OSError) or (
        isinstance(error, aiohttp.ClientPayloadError) and not _is_unreadable(error)
    ):
        text = both(
            f"{host} 在回答开始前关闭了连接", f"{host} closed the connection before its answer began ({_reason(error)})"
        )
        return Fault(UpstreamConnectError(text), retried=True, stale=attempt.reused and not attempt.answered)
    if isinstance(error, aiohttp.ClientError) and not isinstance(error, aiohttp.InvalidURL):
        return Fault(UpstreamBrokenError(_broken_text(host, error, setting)), retried=False)
    key = attempt.target.setting("Key")
    text = both(
        f"无法向 {host} 发送请求，请检查 {setting} 和 {key} 中是否有 HTTP 不允许的字符",
        f"the request to {host} cannot be sent: check {setting} and {key} for characters that HTTP does not allow",
    )
    return Fault(UpstreamConnectError(text), retried=False)


def _broken_text(host: str, cause: BaseException | None, setting: str = "API_URL") -> str:
    if isinstance(cause, aiohttp.ClientResponseError):
        return both(
            f"{host} 的回答不是可读的 HTTP，请检查 {setting}（http:// 或 https://、端口）",
            f"{host} did not answer in HTTP that can be read; check {setting} (http:// or https://, port)",
        )
    if isinstance(cause, aiohttp.ClientPayloadError) and _is_unreadable(cause):
        return both(
            f"{host} 的回答已损坏，其压缩或分段无法读取",
            f"the answer of {host} is damaged: its compression or framing cannot be read",
        )
    return both(f"{host} 的回答中途断开", f"the answer of {host} broke off in the middle")


def _is_unreadable(error: aiohttp.ClientPayloadError) -> bool:
    """True for bytes that cannot be right, false for bytes that are missing."""
    cause = error.__cause__
    return cause is not None and not isinstance(cause, OSError) and type(cause).__name__ not in _MISSING_BYTES


_MISSING_BYTES = frozenset({"TransferEncodingError", "ContentLengthError"})


def _reason(error: BaseException) -> str:
    inner = getattr(error, "os_error", error)
    return getattr(inner, "strerror", None) or "connection lost"
