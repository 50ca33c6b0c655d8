"""The end of a browser flow: a listener on this machine, or a person who pastes the address (MCP-75; mcp.md 2.6)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from app.errors import both
from app.mcp.client.oauth.errors import SignInError, error_word
from app.protocol.loopback import is_loopback

PATH = "/oauth/callback"
HEAD_BYTES = 32 * 1024
HEAD_SECONDS = 10.0
MAX_CONNECTIONS = 16

_PAGE = "<!doctype html><html><head><meta charset=utf-8><title>VCP</title></head><body><p>{}</p></body></html>"
_HEADERS = (
    "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
    "Content-Security-Policy: default-src 'none'\r\nConnection: close\r\n"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Expected:
    """What the answer of the authorization server has to have. ``issuer`` is empty where nobody told it."""

    state: str
    issuer: str = ""
    issuer_announced: bool = False


class Callback:
    """Listens on a loopback port for the one answer to an authorization request; also takes one that is pasted.

    Answers with another ``state`` are refused and change nothing, so no page that a browser visits meanwhile can end
    the flow. The port is ``wanted`` where that is free.
    """

    def __init__(self) -> None:
        self.port = 0
        self._server: asyncio.Server | None = None
        self._expected: Expected | None = None
        self._answer: asyncio.Future[AuthorizationCodeResult] | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self, wanted: int = 0) -> None:
        """Begin to listen. Raises OSError."""
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", wanted, limit=HEAD_BYTES)
        except OSError:
            if not wanted:
                raise
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def redirect_uri(self) -> str:
        """The address to which the authorization server sends the browser."""
        return f"http://127.0.0.1:{self.port}{PATH}"

    def expect(self, expected: Expected) -> None:
        """Answers before this are to nothing."""
        self._expected = expected

    async def answer(self) -> AuthorizationCodeResult:
        """The answer, when it has come. Raises SignInError when the authorization server said no."""
        assert self._answer is not None
        return await self._answer

    async def paste(self, address: str) -> bool:
        """Take the address at which the browser ended, from a person; False when it is no answer to this flow."""
        return self._take(address.strip())

    async def close(self) -> None:
        """Listen no longer."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        if self._connections:
            await asyncio.wait(self._connections, timeout=HEAD_SECONDS)  # so that the browser gets its page
        if self._answer is not None and not self._answer.cancel() and not self._answer.cancelled():
            self._answer.exception()  # nobody may have waited for it

    def _take(self, target: str) -> bool:
        """Read an address with the answer; the first one with the right state counts, and no further one."""
        answer, expected = self._answer, self._expected
        if answer is None or answer.done() or expected is None:
            return False
        try:
            parts = urlsplit(target)
            fields = {name: values[-1] for name, values in parse_qs(parts.query, max_num_fields=50).items()}
        except ValueError:
            return False
        state = fields.get("state", "")
        if parts.path != PATH or not secrets.compare_digest(state.encode(), expected.state.encode()):
            return False
        issuer = fields.get("iss")
        if (issuer is None and expected.issuer_announced) or issuer not in (None, expected.issuer):
            answer.set_exception(
                SignInError(
                    both(
                        "授权回复不是来自所询问的授权服务器（iss）",
                        "the answer is not from the authorization server that was asked (iss)",
                    )
                )
            )
        elif "error" in fields or not fields.get("code"):
            said = error_word(fields.get("error"))
            answer.set_exception(
                SignInError(both(f"授权服务器拒绝了登录：{said}", f"the authorization server refused: {said}"))
            )
        else:
            answer.set_result(AuthorizationCodeResult(code=fields["code"], state=state, iss=issuer))
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) <= MAX_CONNECTIONS:
                async with asyncio.timeout(HEAD_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._page(head.decode("latin-1")))
                    await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            _log.debug("a connection to the sign-in page came to nothing")
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _page(self, head: str) -> bytes:
        line, *headers = head.split("\r\n")
        words = line.split(" ")
        hosts = [value.strip() for name, _, value in (one.partition(":") for one in headers) if name.lower() == "host"]
        if len(words) != 3 or words[0] != "GET" or len(hosts) != 1 or not is_loopback(hosts[0].rpartition(":")[0]):
            return _response("400 Bad Request", both("无法识别的请求", "this request is not understood"))
        if not words[1].startswith(f"{PATH}?"):
            return _response("404 Not Found", both("此处没有内容", "nothing is here"))
        if not self._take(words[1]):
            return _response("400 Bad Request", both("这不是正在等待的登录", "no sign-in of this kind waits"))
        return _response("200 OK", both("已收到，可以关闭此页", "received; this page can be closed"))


def _response(status: str, text: str) -> bytes:
    body = _PAGE.format(text).encode()
    return f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def visit(port: int, address: str) -> bool:
    """Visit the listener of another process with the query of ``address``, as a browser would; whether it took it.

    Not by an HTTP client: those log what they visit.
    """
    query = address.strip().partition("?")[2]
    if not query.isascii() or not query.isprintable() or " " in query or len(query) > HEAD_BYTES // 2:
        return False
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(f"GET {PATH}?{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                await writer.drain()
                return (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            finally:
                writer.close()
    except (OSError, ValueError):
        return False
